"""Real stores for every test that asks: one embedded Postgres and Valkey a session, a fresh database a test."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg2
import pytest
import redis
from sqlalchemy.engine import make_url

from tests.clickhouse import running
from tests.clickhouse.running import ClickHouse
from worker_app import runtime
from worker_app.embedded.folder import Folder
from worker_app.embedded.stores import StoreAddresses, Stores
from worker_app.migrate.clickhouse import migrate_clickhouse
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres

Administer = Callable[[str], None]

TEMPLATE = "devhops_template"
_numbers = count()


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreAddresses]:
    """The addresses of the session's stores; the database they name stays empty."""
    running = Stores(Folder(tmp_path_factory.mktemp("stores") / "up"), durable=False)
    addresses = running.start()
    try:
        yield addresses
    finally:
        running.stop()
        running.delete_data()


@pytest.fixture(scope="session")
def administer(stores: StoreAddresses) -> Iterator[Administer]:
    """Runs a statement beside the databases of the tests, on one connection for all: a new one costs as much as a copy."""
    address = make_url(stores.database_url)
    connection = psycopg2.connect(
        host=address.host, port=address.port, user=address.username, password=address.password, dbname="postgres"
    )
    connection.autocommit = True
    yield connection.cursor().execute
    connection.close()


@pytest.fixture(scope="session")
def template(stores: StoreAddresses, administer: Administer) -> str:
    """The name of a migrated database that tests copy."""
    administer(f"CREATE DATABASE {TEMPLATE}")
    migrate_postgres(_named(stores.database_url, TEMPLATE), lambda _: None)
    return TEMPLATE


def _named(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def empty_database_url(stores: StoreAddresses, administer: Administer) -> Iterator[str]:
    """The address of a database without any table."""
    name = f"empty_{next(_numbers)}"
    administer(f"CREATE DATABASE {name}")
    yield _named(stores.database_url, name)
    administer(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database_url(stores: StoreAddresses, template: str, administer: Administer) -> Iterator[str]:
    """The address of a migrated database that nobody else uses."""
    name = f"test_{next(_numbers)}"
    # Copied as files: through the log of changes, which is the default, it takes half as much again.
    administer(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    yield _named(stores.database_url, name)
    administer(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres(database_url: str) -> Iterator[Postgres]:
    """A pool on the test's own database."""
    opened = Postgres(database_url, pool_size=30)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    """ClickHouse's engine behind its own protocol, one a session; skips where the engine is not installed."""
    with running.running(tmp_path_factory.mktemp("clickhouse")) as front:
        yield front


@pytest.fixture
def empty_clickhouse_url(clickhouse: ClickHouse) -> Iterator[str]:
    """A CLICKHOUSE_URL whose database is not there yet; no fault is set."""
    name = f"test_{next(_numbers)}"
    clickhouse.forget()
    yield clickhouse.database_url(name)
    clickhouse.forget()
    clickhouse.query(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture
def clickhouse_url(clickhouse: ClickHouse, empty_clickhouse_url: str, database_url: str) -> str:
    """A CLICKHOUSE_URL that the migration job brought up to date, with its ledger in the test's own Postgres."""
    migrate_clickhouse(database_url, empty_clickhouse_url, lambda _: None)
    clickhouse.forget()
    return empty_clickhouse_url


@pytest.fixture
def redis_url(stores: StoreAddresses) -> str:
    """The address of an emptied Redis."""
    client = runtime.redis_client(stores.redis_url, connections=1)
    client.flushall()
    client.close()
    return stores.redis_url


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """A client of an emptied Redis."""
    client = runtime.redis_client(redis_url, connections=10)
    yield client
    client.close()


@pytest.fixture
def checkout() -> Path:
    """The top folder of this checkout."""
    return Path(__file__).resolve().parent.parent

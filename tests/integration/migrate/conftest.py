from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.conftest import Administer
from tests.processes import Service
from worker_app.embedded.stores import StoreAddresses
from worker_app.migrate import steps
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres


@pytest.fixture(scope="session")
def behind_template(stores: StoreAddresses, administer: Administer) -> str:
    """The name of a database that lacks this program's newest revision, for tests to copy."""
    name, known = "behind_template", steps.postgres()
    administer(f"CREATE DATABASE {name}")
    address = make_url(stores.database_url).set(database=name).render_as_string(hide_password=False)
    migrate_postgres(address, lambda _: None, series=replace(known, steps=known.steps[:-1]))
    return name


@pytest.fixture
def behind_url(empty_database_url: str, behind_template: str, administer: Administer) -> str:
    """The address of a database of the test's own that lacks the newest revision."""
    name = make_url(empty_database_url).database
    administer(f"DROP DATABASE {name}")
    administer(f"CREATE DATABASE {name} TEMPLATE {behind_template} STRATEGY FILE_COPY")
    return empty_database_url


@pytest.fixture
def behind(behind_url: str) -> Iterator[Postgres]:
    """A pool on the database that lacks the newest revision."""
    opened = Postgres(behind_url, pool_size=1)
    yield opened
    opened.close()


@pytest.fixture
def service(tmp_path: Path, database_url: str, redis_url: str) -> Service:
    """The shared part of the test's processes, on stores of its own."""
    return Service(tmp_path, database_url, redis_url)

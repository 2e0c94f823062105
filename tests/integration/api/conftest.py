"""The door over real stores, and people who knock: one with the token, one without."""

from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text
from sqlalchemy.engine import make_url

from tests.integration.api.visitors import TOKEN, with_token
from worker_app import runtime, settings
from worker_app.api.app import create_app
from worker_app.embedded.stores import StoreAddresses
from worker_app.runtime import Runtime
from worker_app.store.postgres import Postgres, single_connection

FILLED = ("task_outbox", "sync_batches", "sync_runs", "schedule_occurrences", "scheduled_jobs", "orgs")


@pytest.fixture(scope="session")
def door_database_url(stores: StoreAddresses, template: str) -> str:
    """The address of a migrated database that the tests of the door share: they are many, and a copy for each takes time."""
    engine = single_connection(stores.database_url, application_name="tests")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE door TEMPLATE {template}"))
    return make_url(stores.database_url).set(database="door").render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def sweeper(door_database_url: str) -> Iterator[Postgres]:
    """A connection that empties tables."""
    pool = Postgres(door_database_url, pool_size=1)
    yield pool
    pool.close()


@pytest.fixture
def database_url(door_database_url: str, sweeper: Postgres) -> Iterator[str]:
    """The shared address, its tables empty."""
    yield door_database_url
    with sweeper.transaction() as tx:
        tx.execute(text("; ".join(f"DELETE FROM {table}" for table in FILLED)))


@pytest.fixture(scope="session")
def build() -> Iterator[Callable[..., Runtime]]:
    """Builds the runtime of a door with these settings, and closes it at the end."""
    built: list[Runtime] = []

    def make(**environment: str) -> Runtime:
        built.append(runtime.build(settings.load({"DEV_HOPS_DIR": "/nonexistent", **environment}), role="api"))
        return built[-1]

    yield make
    for one in built:
        one.close()


@pytest.fixture(scope="session")
def all_naps() -> list[float]:
    """The waits that the doors asked for; none of them takes time."""
    return []


@pytest.fixture
def naps(all_naps: list[float]) -> list[float]:
    """The waits of this test."""
    all_naps.clear()
    return all_naps


@pytest.fixture(scope="session")
def app_of(all_naps: list[float]) -> Iterator[Callable[[Runtime], Flask]]:
    """Makes the application over a runtime."""
    pools: list[Postgres] = []

    def make(over: Runtime) -> Flask:
        pools.append(Postgres(over.settings.require_database(), pool_size=2))
        return create_app(over, pools[-1], all_naps.append)

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture(scope="session")
def app(
    build: Callable[..., Runtime], app_of: Callable[[Runtime], Flask], stores: StoreAddresses, door_database_url: str
) -> Flask:
    """The application over real stores."""
    return app_of(build(DATABASE_URL=door_database_url, REDIS_URL=stores.redis_url, API_TOKEN=TOKEN))


@pytest.fixture
def stranger(app: Flask, database_url: str, redis_url: str) -> FlaskClient:
    """Asks without a token."""
    return app.test_client()


@pytest.fixture
def friend(app: Flask, database_url: str, redis_url: str) -> FlaskClient:
    """Asks with the token."""
    return with_token(app)

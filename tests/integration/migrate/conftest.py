from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.processes import Service
from worker_app.migrate import steps
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres


@pytest.fixture
def behind_url(empty_database_url: str) -> str:
    """The address of a database that lacks this program's newest revision."""
    known = steps.postgres()
    migrate_postgres(empty_database_url, lambda _: None, series=replace(known, steps=known.steps[:-1]))
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

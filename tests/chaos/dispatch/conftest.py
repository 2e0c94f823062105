from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.dispatch import audit
from tests.chaos.dispatch.fleet import Fleet
from tests.chaos.dispatch.load import Load
from worker_app.store.postgres import Postgres


@pytest.fixture
def load(postgres: Postgres) -> Load:
    """Nothing yet, in a database that keeps its own record."""
    audit.install(postgres)
    return Load(postgres)


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Fleet]:
    """Four actors, from their first step on."""
    with Fleet(tmp_path, database_url, redis_url).running() as running:
        yield running

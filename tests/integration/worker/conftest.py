from pathlib import Path

import pytest

from tests.processes import Service


@pytest.fixture
def service(tmp_path: Path, database_url: str, redis_url: str) -> Service:
    """The shared part of the test's processes, on stores of its own."""
    return Service(tmp_path, database_url, redis_url)

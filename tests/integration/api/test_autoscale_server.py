"""The autoscaler's path in a real process of the API, on a Redis that stops to answer."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.api.test_server import BEARER, start
from tests.processes import wait_for
from worker_app.api.autoscale import KEPT
from worker_app.embedded.valkey import EmbeddedValkey

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    """A Redis that the test may stop."""
    started = EmbeddedValkey(tmp_path / "store", password=None)
    started.start()
    yield started
    os.kill(started.pid, signal.SIGCONT)
    started.stop()


def test_redis_that_says_nothing_gives_no_number_until_it_speaks_again(
    tmp_path: Path, door_database_url: str, valkey: EmbeddedValkey
) -> None:
    door = start(tmp_path, door_database_url, valkey.url)

    def status() -> int:
        return door.get("/autoscale/worker", **BEARER)

    try:
        assert status() == 200
        os.kill(valkey.pid, signal.SIGSTOP)
        wait_for(lambda: status() == 503, "what is kept is not given out any more", KEPT.value + 10)
        assert door.get("/livez") == 200
        assert door.get("/healthz/workers", **BEARER) == 503
        os.kill(valkey.pid, signal.SIGCONT)
        wait_for(lambda: status() == 200, "there is a number again", 15)
    finally:
        door.stop(signal.SIGKILL)

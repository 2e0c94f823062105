"""Many at one Deliveries at once: threads of this process, and greenlets of a patched one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.worker.broker import (
    Broker,
    broker_of_the_test,  # noqa: F401 - pytest finds it
)
from tests.integration.worker.crowd import Crowd

pytestmark = pytest.mark.integration


def test_threads_at_one_deliveries_settle_each_message_once(broker: Broker) -> None:
    crowd = Crowd(broker)
    crowd.run()
    assert crowd.verdict() == "all well"


def test_greenlets_at_one_deliveries_settle_each_message_once(redis_url: str, checkout: Path) -> None:
    command = [sys.executable, "-m", "gevent.monkey", "--module", "tests.integration.worker.crowd", redis_url]
    told = subprocess.run(command, capture_output=True, text=True, timeout=25, check=True, cwd=checkout)
    assert told.stdout == "all well"

"""Beat as a process: one holder, a quick hand-over, no flood where nobody consumes, no file on disk."""

import base64
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from tests.processes import DEV_HOPS, Service, wait_for
from worker_app.beat import MOST_WAITING

pytestmark = pytest.mark.integration


def sent(client: redis.Redis) -> list[Any]:
    """The messages that lie in the scheduler's queue, the oldest first."""
    return [json.loads(item) for item in reversed(cast("list[bytes]", client.lrange("scheduler", 0, -1)))]


def epochs(client: redis.Redis) -> list[int]:
    """The beat number that each message carries."""
    return [json.loads(_body(item))[1]["epoch"] for item in sent(client)]


def _body(message: Any) -> str:
    return base64.b64decode(message["body"]).decode()


def test_two_beats_send_as_one_and_the_second_goes_on_when_the_first_ends(
    service: Service, redis_client: redis.Redis
) -> None:
    with service.running("b1", "beat") as first:
        wait_for(lambda: len(sent(redis_client)) >= 2, "the first beat sends at once")
        with service.running("b2", "beat") as second:
            wait_for(lambda: (service.folder / "run/b2/beat.alive").exists(), "the second beat ticks")
            wait_for(lambda: len(sent(redis_client)) >= 6, "the first goes on")
            assert set(epochs(redis_client)) == {1}
            first.send_signal(signal.SIGTERM)
            assert first.wait(timeout=10) == 0
            wait_for(lambda: 2 in epochs(redis_client), "the second takes over", 10)
            second.send_signal(signal.SIGTERM)
            assert second.wait(timeout=10) == 0
    assert epochs(redis_client) == sorted(epochs(redis_client))
    assert {item["headers"]["task"] for item in sent(redis_client)} == {
        "worker_app.tasks.dispatch_scheduled_syncs",
        "worker_app.tasks.rescue",
        "worker_app.tasks.prune",
    }
    assert all(item["headers"]["expires"] is None and item["headers"]["eta"] is None for item in sent(redis_client))
    assert not list(service.folder.rglob("celerybeat*"))


@pytest.mark.timeout(60)
def test_killed_beat_is_followed_by_the_one_that_waits_within_thirty_seconds(
    service: Service, redis_client: redis.Redis
) -> None:
    seldom = {"DISPATCH_INTERVAL_SECONDS": "300", "RESCUE_INTERVAL_SECONDS": "300"}  # none may wait for its interval
    with service.running("b1", "beat", **seldom) as first:
        wait_for(lambda: epochs(redis_client) == [1, 1, 1], "the first beat sends all at once")
        with service.running("b2", "beat", **seldom):
            wait_for(lambda: (service.folder / "run/b2/beat.alive").exists(), "the second beat ticks")
            first.kill()
            wait_for(lambda: epochs(redis_client) == [1, 1, 1, 2, 2, 2], "the second takes over and does too", 30)


def test_signal_in_a_destructor_ends_beat(service: Service, checkout: Path) -> None:
    celery = replace(service, program=(sys.executable, "-m", "celery", "--app", "worker_app", "beat", "--pidfile", ""))
    scheduler = "tests.integration.worker.signalled_beat.SignalledScheduler"
    with celery.running("b", "--scheduler", scheduler, PYTHONPATH=str(checkout)) as beat:
        assert beat.wait(timeout=20) == 0, service.log("b")
    assert "fence.taken" in service.log("b")


def test_beat_adds_nothing_to_what_nobody_takes(service: Service, redis_client: redis.Redis) -> None:
    redis_client.rpush("scheduler", *["{}"] * MOST_WAITING)
    with service.running("b", "beat"):
        wait_for(lambda: "beat.nobody_consumes" in service.log("b"), "beat sees that nobody consumes")
    assert redis_client.llen("scheduler") == MOST_WAITING


@pytest.mark.timeout(90)
def test_beat_that_stands_still_fails_its_probe_and_passes_again(service: Service, redis_client: redis.Redis) -> None:
    def probe() -> int:
        command = [DEV_HOPS, "probe", "alive", "--role", "beat", "--max-age", "6"]
        return subprocess.run(command, env=service.environment("b"), capture_output=True, timeout=30).returncode

    with service.running("b", "beat") as beat:
        wait_for(lambda: len(sent(redis_client)) >= 2, "beat sends")
        assert probe() == 0
        beat.send_signal(signal.SIGSTOP)
        wait_for(lambda: probe() == 1, "the probe fails")
        beat.send_signal(signal.SIGCONT)
        wait_for(lambda: probe() == 0, "the probe passes")

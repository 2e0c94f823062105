"""The same promises on the prefork pool, where they apply: there most of them are Celery's own, and the bound is ours."""

import signal
import time

import pytest

from bench.worker_process import marks, wait_for
from tests.integration.promises.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]


def test_prefork_runs_every_task_once_and_renews_each_child_at_its_limit(stage: Stage) -> None:
    stage.worker(pool="prefork", slots=2, max_tasks=10)
    stage.send("nap", 0.02, "#", count=60)
    stage.wait_done(60)
    assert set(stage.effects().values()) == {1}
    done = [pid for word, _, pid, _ in marks(stage.folder / "marks") if word == "end"]
    assert max(done.count(pid) for pid in done) <= 10


def test_prefork_holds_no_more_messages_than_slots(stage: Stage) -> None:
    stage.worker(pool="prefork", slots=2)
    stage.send("nap", 3, "#", count=6)
    stage.wait_begun(2)
    assert (stage.depth(), stage.unacked()) == (4, 2)


def test_prefork_finishes_what_fits_into_the_drain(stage: Stage) -> None:
    worker = stage.worker(pool="prefork", slots=2)
    stage.send("nap", 1.5, "#", count=2)
    stage.wait_begun(2)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert stage.depth() + stage.unacked() == 0
    assert set(stage.effects().values()) == {1}


def test_prefork_gives_back_what_does_not_fit_into_the_drain(stage: Stage) -> None:
    worker = stage.worker(pool="prefork", slots=2, drain_seconds=2)
    stage.send("nap", 60, "#", count=3)
    stage.wait_begun(2)
    began = worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert time.monotonic() - began < 2 + 6
    assert stage.depth() == 3
    assert stage.unacked() == 0


def test_prefork_recovers_what_a_killed_worker_held(stage: Stage) -> None:
    stage.worker("other", pool="prefork", slots=1, visibility=6, queues="other")
    killed = stage.worker("killed", pool="prefork", slots=2, visibility=6)
    stage.send("nap", 30, "#", count=2)
    wait_for(lambda: len(stage.begun()) == 2 and stage.unacked() == 2, "two run")
    killed.kill()
    wait_for(lambda: stage.depth() == 2, "they are back", 6 + 10 + 5)


@pytest.mark.parametrize("load", ["half", "full"])
def test_prefork_survives_an_outage(stage: Stage, load: str) -> None:
    worker = stage.worker(pool="prefork", slots=2)
    count = 1 if load == "half" else 12
    stage.send("nap", 0.5, "#", count=count)
    stage.wait_begun(min(count, 2))
    stage.valkey.stop()
    stage.valkey.start()
    stage.send("nap", 0, "after-#", count=4)
    wait_for(lambda: len(stage.effects()) == count + 4, "all have their effect", 40)
    assert worker.process.poll() is None


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_other_pools_are_accepted(stage: Stage, pool: str) -> None:
    stage.worker(pool=pool, slots=1)
    stage.send("nap", 0, "#", count=5)
    stage.wait_done(5)

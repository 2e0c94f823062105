"""The hub: nothing that a task waits for stops the others, and what does stop it is named."""

import time

import pytest

from bench.worker_process import wait_for
from tests.integration.promises.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]
SLACK_SECONDS = 0.5  # a loaded test machine; the bench holds the figure of the promise


def test_queries_on_every_slot_wait_side_by_side(stage: Stage, database_url: str) -> None:
    worker = stage.worker(slots=20, environment={"DATABASE_URL": database_url})
    began = time.monotonic()
    stage.send("query", 1, count=20)
    wait_for(lambda: stage.depth() + stage.unacked() == 0 and time.monotonic() - began > 1, "all are done")
    assert time.monotonic() - began < 4
    assert max(worker.gaps()) < SLACK_SECONDS


def test_task_that_holds_the_hub_is_named_while_it_does(stage: Stage) -> None:
    worker = stage.worker(slots=2)
    stage.send("spin", 8, "long")
    worker.wait_for_log("hub.blocked", 8)
    assert stage.effects() == {}
    stage.wait_done(1)
    assert "bench/workload.py" in worker.log
    assert "in spin" in worker.log
    worker.wait_for_log("hub.free")

"""Connections: as many as are needed and no more, so that no acknowledgement and no slot is lost."""

import pytest

from bench.worker_process import wait_for
from tests.integration.promises.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.mark.parametrize("slots", [20, 50])
def test_many_short_tasks_lose_no_acknowledgement_and_no_slot(stage: Stage, slots: int) -> None:
    stage.worker(slots=slots, max_tasks=1000)
    before = len(stage.redis.client_list())
    peak = 0

    def is_done() -> bool:
        nonlocal peak
        peak = max(peak, len(stage.redis.client_list()) - before)
        return stage.depth() + stage.unacked() == 0

    stage.send("nap", 0.05, count=2000)
    wait_for(is_done, "all are settled", 100)
    assert before + peak <= 2 * slots + 15
    assert stage.ask("stats")["total"] == {"nap": 2000}
    stage.send("nap", 1, "#", count=slots)
    stage.wait_begun(slots, seconds=10)
    assert stage.unacked() == slots  # every slot is there still


def test_kept_results_share_their_connections_and_expire_after_an_hour(stage: Stage) -> None:
    stage.worker(slots=20, results=1)
    made = stage.redis.info("stats")["total_connections_received"]
    stage.send("nap", 0.05, count=400, ignore_result=False)
    wait_for(lambda: len(stage.redis.keys("celery-task-meta-*")) == 400, "all results are stored", 60)
    assert stage.redis.info("stats")["total_connections_received"] - made <= 25 + 3  # three are the producer's
    key = stage.redis.keys("celery-task-meta-*")[0]
    assert 3500 < stage.redis.ttl(key) <= 3600


def test_ignored_results_leave_nothing_behind(stage: Stage) -> None:
    stage.worker(slots=4)
    stage.send("nap", 0, "#", count=20)
    stage.wait_done(20)
    assert stage.redis.keys("celery-task-meta-*") == []


def test_result_that_cannot_be_stored_gives_its_task_back_and_is_there_in_the_end(stage: Stage) -> None:
    stage.worker(slots=4, results=1)
    stage.send("nap", 1, "#", count=4, ignore_result=False)
    stage.wait_begun(4)
    stage.valkey.stop()
    wait_for(lambda: len(stage.effects()) == 4, "the tasks end without a Redis")
    stage.valkey.start()
    wait_for(lambda: len(stage.redis.keys("celery-task-meta-*")) == 4, "every result is there", 30)
    wait_for(lambda: stage.depth() + stage.unacked() == 0, "nothing is left")


def test_countdown_messages_beyond_the_limit_stay_in_the_queue(stage: Stage) -> None:
    stage.send("nap", 0, count=1200, countdown=3600)
    stage.worker(slots=4)
    wait_for(lambda: stage.unacked() >= 1000, "as many are held as the limit allows", 60)
    stage.send("nap", 0, "now")
    wait_for(lambda: stage.ask("stats")["prefetch_count"] >= 1000, "the window stands at the limit")
    assert stage.unacked() <= 1000 + 4
    assert stage.depth() >= 196


def test_remote_control_cannot_raise_the_slots_above_what_connections_are_counted_for(stage: Stage) -> None:
    stage.worker("fixed", slots=4)
    stage.worker("scaled", autoscale=(6, 2), queues="other")
    stage.control("fixed").pool_grow(10)
    stage.control("scaled").autoscale(50, 3)
    wait_for(lambda: stage.ask("stats", "scaled")["autoscaler"]["min"] == 3, "the order was heard")
    assert stage.ask("stats", "scaled")["autoscaler"]["max"] == 6
    assert stage.ask("stats", "fixed")["pool"]["max-concurrency"] == 4

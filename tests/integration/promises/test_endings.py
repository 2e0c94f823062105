"""The ways a worker ends: what runs finishes or goes back to the queue, and nothing is lost or done twice."""

import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.worker_process import marks, wait_for
from tests.integration.promises.conftest import Stage

pytestmark = pytest.mark.integration


def given_back(stage: Stage) -> list[bool]:
    """Of each message in the queue, whether it says that it was delivered before."""
    return [
        bool(json.loads(text)["properties"]["delivery_info"].get("redelivered"))
        for text in stage.redis.lrange("work", 0, -1)
    ]


def test_sigterm_lets_finish_what_fits_and_gives_back_the_rest(stage: Stage) -> None:
    worker = stage.worker(slots=4, drain_seconds=4)
    stage.send("nap", 2, "short-#", count=2)
    stage.send("nap", 60, "long-#", count=4)
    stage.wait_begun(4)
    began = worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert time.monotonic() - began < 6 + 2
    assert stage.effects() == {"short-0": 1, "short-1": 1}
    assert len(stage.begun()) == 4  # none began after the signal
    assert sorted(given_back(stage)) == [False, False, True, True]
    assert stage.unacked() == 0


def test_task_that_ends_during_the_drain_is_settled_and_not_run_again(stage: Stage) -> None:
    worker = stage.worker(slots=4)
    stage.send("nap", 1.5, "#", count=4)
    stage.wait_begun(4)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert stage.depth() + stage.unacked() == 0
    assert set(stage.effects().values()) == {1}


def test_messages_that_come_while_it_drains_stay_in_the_queue(stage: Stage) -> None:
    worker = stage.worker(slots=8)
    stage.send("nap", 2, "before")
    stage.wait_begun(1)
    worker.send(signal.SIGTERM)
    wait_for(lambda: "drain.began" in worker.log, "the drain begins")
    stage.send("nap", 0, "after-#", count=5)
    assert worker.wait() == 0
    assert stage.begun() == ["before"]
    assert stage.depth() == 5


@pytest.mark.parametrize("first", [signal.SIGQUIT, signal.SIGTERM], ids=["at once", "after sigterm"])
def test_sigquit_gives_everything_back_at_once(stage: Stage, first: signal.Signals) -> None:
    worker = stage.worker(slots=4)
    stage.send("nap", 60, "#", count=6)
    stage.wait_begun(4)
    began = worker.send(first)
    if first is signal.SIGTERM:
        wait_for(lambda: "drain.began" in worker.log, "the drain begins")
        began = worker.send(signal.SIGQUIT)
    assert worker.wait() == 0
    assert time.monotonic() - began < 5
    assert Counter(given_back(stage)) == {True: 4, False: 2}
    assert stage.unacked() == 0


def test_countdown_messages_are_given_back_when_it_ends(stage: Stage) -> None:
    worker = stage.worker(slots=4)
    stage.send("nap", 0, "#", count=5, countdown=600)
    wait_for(lambda: stage.unacked() == 5, "the worker holds them until their time")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert given_back(stage) == [True] * 5


def test_idle_worker_ends_within_two_seconds(stage: Stage) -> None:
    worker = stage.worker(slots=4)
    began = worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("is_frozen", [False, True], ids=["gone", "frozen"])
def test_drain_does_not_hang_on_a_broker_that_is_away(stage: Stage, is_frozen: bool) -> None:
    worker = stage.worker(slots=4, drain_seconds=2)
    stage.send("nap", 60, "#", count=4)
    stage.wait_begun(4)
    if is_frozen:
        stage.suspend(signal.SIGSTOP)
    else:
        stage.valkey.stop()
    began = worker.send(signal.SIGTERM)
    try:
        assert worker.wait(25) == 0
        assert time.monotonic() - began < 2 + 5 + 8 + 5
    finally:
        if is_frozen:
            stage.suspend(signal.SIGCONT)
        else:
            stage.valkey.start()
    assert "hub.blocked" not in worker.log
    assert stage.unacked() == 4  # for the recovery


def test_killed_workers_tasks_come_back_after_the_visibility_timeout(stage: Stage) -> None:
    stage.worker("other", slots=4, visibility=6, queues="other")
    killed = stage.worker("killed", slots=4, visibility=6)
    stage.send("nap", 0.5, "done")
    stage.send("nap", 20, "#", count=4)
    wait_for(lambda: len(stage.begun()) == 5 and stage.unacked() == 4, "four run")
    killed.kill()
    began = time.monotonic()
    wait_for(lambda: stage.depth() == 4, "they are back", seconds := 6 + 10)
    assert time.monotonic() - began < seconds
    assert all(given_back(stage))
    assert stage.unacked() == 0


def test_task_longer_than_the_visibility_timeout_runs_once(stage: Stage) -> None:
    for name in ("first", "second"):
        stage.worker(name, slots=2, visibility=3)
    stage.send("nap", 9, "long")
    stage.wait_done(1)
    assert stage.begun() == ["long"]


def test_thousands_of_stale_messages_come_back_in_one_sweep(stage: Stage) -> None:
    stage.send("noop", count=5000)
    taken: list[Any] = stage.redis.lrange("work", 0, -1)
    stage.redis.delete("work")
    with stage.redis.pipeline() as pipe:
        for text in taken:
            tag = json.loads(text)["properties"]["delivery_tag"]
            pipe.hset("unacked", tag, f'[{text.decode()},"","work"]')
            pipe.zadd("unacked_index", {tag: time.time() - 3700})
        pipe.execute()
    stage.worker(slots=1, queues="other")
    wait_for(lambda: stage.depth() == 5000, "all are back", 20)
    assert all(given_back(stage))
    assert stage.unacked() == 0


def test_live_messages_stay_where_they_are(stage: Stage) -> None:
    stage.worker("other", slots=1, queues="other", visibility=3600)
    stage.worker(slots=4, visibility=3600)
    stage.send("nap", 6.5, "#", count=4)  # longer than one sweep
    stage.wait_done(4)
    assert len(stage.begun()) == 4


def test_hard_limit_ends_a_task_and_its_slot_comes_back(stage: Stage) -> None:
    worker = stage.worker(slots=2)
    stage.send("limited", 30, "#", count=6)
    stage.send("nap", 0, "after")
    stage.wait_done(1)
    assert stage.effects() == {"after": 1}
    assert worker.log.count("Hard time limit") == 6
    assert stage.ask("stats")["pool"]["running"] == 0


def test_revoked_task_ends_and_is_not_given_back(stage: Stage) -> None:
    stage.worker(slots=2)
    stage.send("nap", 60, "gone", task_id="gone")
    stage.wait_begun(1)
    stage.control().revoke("gone", terminate=True)
    wait_for(lambda: stage.unacked() == 0, "it is settled")
    assert stage.depth() == 0


def test_failing_and_retrying_tasks_are_settled(stage: Stage) -> None:
    stage.worker(slots=2)
    stage.send("fail", count=5)
    stage.send("again", "twice")
    stage.wait_done(1)
    assert stage.effects() == {"twice": 1}


def test_message_that_nobody_can_read_is_put_aside_and_the_rest_runs(stage: Stage) -> None:
    stage.redis.lpush("work", "no JSON", '{"properties": {}}')
    stage.send("nap", 0, "after")
    worker = stage.worker(slots=2)
    stage.wait_done(1)
    assert stage.redis.llen("work:unreadable") == 2
    assert worker.log.count("message.unreadable") == 2
    assert "no JSON" not in worker.log


def test_worker_that_is_told_to_hang_up_begins_anew_under_the_same_pid(stage: Stage, tmp_path: Path) -> None:
    worker = stage.worker(slots=2)
    stage.send("nap", 1, "before")
    stage.wait_begun(1)
    worker.send(signal.SIGHUP)
    wait_for(lambda: "worker.renews" in worker.log, "it begins anew")
    stage.send("nap", 0, "after")
    stage.wait_done(2)
    assert {pid for *_, pid, _ in marks(tmp_path / "marks")} == {worker.pid}


def test_renewal_during_an_outage_waits_until_redis_knows_what_is_settled(stage: Stage) -> None:
    worker = stage.worker(slots=4, visibility=6)
    stage.send("nap", 1, "#", count=4)
    stage.wait_begun(4)
    stage.valkey.stop()
    worker.send(signal.SIGHUP)
    wait_for(lambda: len(stage.effects()) == 4, "the tasks end")
    wait_for(lambda: "broker.away" in worker.log, "the drain asks a Redis that is away")
    stage.valkey.start()
    worker.wait_for_log("worker.renews")
    assert stage.unacked() == 0
    stage.send("nap", 0, "after")
    stage.wait_done(5)
    assert set(stage.effects().values()) == {1}


def test_sigterm_in_the_middle_of_a_renewal_ends_the_worker(stage: Stage) -> None:
    worker = stage.worker(slots=4)
    stage.send("nap", 2, "#", count=4)
    stage.wait_begun(4)
    worker.send(signal.SIGHUP)
    worker.wait_for_log("drain.began")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert "worker.renews" not in worker.log
    assert stage.unacked() == 0


@pytest.mark.parametrize("seconds", [1.5, 60], ids=["fits", "does not fit"])
def test_remote_shutdown_loses_and_doubles_nothing(stage: Stage, seconds: float) -> None:
    worker = stage.worker(slots=4, drain_seconds=4)
    stage.send("nap", seconds, "#", count=4)
    stage.wait_begun(4)
    stage.control().shutdown()
    assert worker.wait() == 0
    assert stage.unacked() == 0
    assert (stage.depth(), len(stage.effects())) == ((0, 4) if seconds < 4 else (4, 0))

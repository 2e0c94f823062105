"""Slots under gevent: they follow the work, are all used, and hold no message that somebody else could run."""

import time
from collections import Counter
from typing import Any

import pytest

from bench.worker_process import marks, wait_for
from tests.integration.promises.conftest import Stage

pytestmark = pytest.mark.integration


def most_at_once(stage: Stage) -> int:
    """The most named tasks that were between their begin and their end at one moment."""
    running = most = 0
    for word, *_ in marks(stage.folder / "marks"):
        running += 1 if word == "begin" else -1
        most = max(most, running)
    return most


def test_autoscale_reaches_its_maximum_with_a_burst_and_goes_back_to_its_minimum(stage: Stage) -> None:
    worker = stage.worker(autoscale=(20, 2), environment={"AUTOSCALE_KEEPALIVE": "2"})
    assert stage.ask("stats")["autoscaler"]["current"] == 2
    began = time.monotonic()
    stage.send("nap", 3, "#", count=60)
    stage.wait_begun(20)
    assert time.monotonic() - began < 2 + 1  # the sending is part of it
    shown = stage.ask("stats")
    assert shown["pool"]["max-concurrency"] == shown["autoscaler"]["current"] == 20
    assert shown["pool"]["running"] == 20
    assert stage.unacked() == 20
    stage.wait_done(60)
    assert most_at_once(stage) == 20
    wait_for(lambda: stage.ask("stats")["autoscaler"]["current"] == 2, "back to two slots")
    wait_for(lambda: worker.log.count("autoscale.changed") == 2, "one line for each change")


def test_shrinking_a_full_pool_lets_what_runs_finish_and_begins_no_more(stage: Stage) -> None:
    stage.worker(autoscale=(20, 2))
    stage.send("nap", 2, "#", count=40)
    stage.wait_begun(20)
    stage.control().autoscale(5, 2)
    wait_for(lambda: stage.ask("stats")["pool"]["max-concurrency"] == 5, "the limit is five")
    stage.wait_done(40)
    order = [(word, name) for word, name, _, _ in marks(stage.folder / "marks")]
    first_ends = [index for index, (word, _) in enumerate(order) if word == "end"]
    later = order[first_ends[19] :]
    running = most = 0
    for word, _ in later[1:]:
        running += 1 if word == "begin" else -1
        most = max(most, running)
    assert set(stage.effects().values()) == {1}
    assert most <= 5


@pytest.mark.parametrize("how", [{"slots": 20}, {"autoscale": (20, 2)}], ids=["fixed", "autoscale"])
def test_full_window_leaves_no_gap(stage: Stage, how: dict[str, Any]) -> None:
    stage.send("nap", 0.2, "#", count=200)
    stage.worker(**how)
    stage.wait_done(200)
    times = [at for *_, at in marks(stage.folder / "marks")]
    assert max(times) - min(times) < 200 / 20 * 0.2 * 1.6  # the bench holds 1.15; here other tests share the machine
    assert most_at_once(stage) == 20


def test_busy_worker_holds_no_message_that_an_idle_one_could_run(stage: Stage) -> None:
    stage.worker("busy", slots=4)
    stage.send("nap", 4, "first-#", count=12)
    stage.wait_begun(4)
    assert (stage.depth(), stage.unacked()) == (8, 4)
    stage.worker("idle", slots=8)
    stage.wait_begun(12)
    assert stage.depth() == 0
    assert len({pid for word, _, pid, _ in marks(stage.folder / "marks") if word == "begin"}) == 2


def test_burst_spreads_over_idle_workers(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.worker(name, slots=20)
    stage.send("nap", 2, "#", count=20)
    stage.wait_done(20)
    share = Counter(pid for word, _, pid, _ in marks(stage.folder / "marks") if word == "begin")
    assert len(share) == 2  # how even it is depends on who gets the processor; neither takes all at one stroke


def test_idle_worker_takes_a_message_at_once_and_uses_no_processor(stage: Stage) -> None:
    worker = stage.worker(slots=4)
    used, began = worker.cpu_seconds(), time.monotonic()
    wait_for(lambda: time.monotonic() - began > 3, "three seconds of idleness")
    assert (worker.cpu_seconds() - used) / (time.monotonic() - began) < 0.05  # the bench holds 1 %
    stage.send("nap", 0, "one")
    stage.wait_done(1, seconds=2)

from collections.abc import Iterator
from typing import Any

import pytest
from celery.worker import state
from structlog.testing import capture_logs

from worker_app import telemetry
from worker_app.worker.autoscaler import Autoscaler

KEEPALIVE = 30.0
MOST, LEAST = 20, 2


class Pool:
    """A pool that is only a number of slots; it keeps what it was told."""

    def __init__(self) -> None:
        self.num_processes = LEAST
        self.changes: list[int] = []

    def grow(self, n: int = 1) -> None:
        self.num_processes += n
        self.changes.append(n)

    def shrink(self, n: int = 1) -> None:
        self.num_processes -= n
        self.changes.append(-n)


class Consumer:
    """A consumer whose window can be changed."""

    def __init__(self) -> None:
        self.window_changes: list[int] = []

    def _update_prefetch_count(self, difference: int) -> None:
        self.window_changes.append(difference)


class Worker:
    """The part of a worker that an autoscaler sees."""

    def __init__(self) -> None:
        self.consumer = Consumer()


class Message:
    """A request that the worker has received."""


class Stage:
    """An autoscaler on its pool, the requests that there are, and a clock that is turned by hand."""

    def __init__(self) -> None:
        self.pool, self.worker = Pool(), Worker()
        self.scaler = Autoscaler(self.pool, MOST, LEAST, worker=self.worker, keepalive=KEEPALIVE)
        self.scaler._over.set()  # a tick does not wait for the next one
        self.requests: list[Message] = []

    def receive(self, count: int = 1) -> None:
        """Messages as Celery tells of them: reserved first, then the autoscaler, then the pool."""
        for _ in range(count):
            self.requests.append(Message())
            state.reserved_requests.add(self.requests[-1])
            self.scaler.on_task_received(self.requests[-1])

    def finish(self, count: int = 1) -> None:
        for _ in range(count):
            state.reserved_requests.discard(self.requests.pop())

    def tick(self) -> None:
        self.scaler.body()

    def let_pass(self, seconds: float) -> None:
        """Time, without waiting for it."""
        self.scaler._full_at -= seconds

    @property
    def slots(self) -> int:
        return self.pool.num_processes


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.finish(len(made.requests))


def test_slots_follow_each_message(stage: Stage) -> None:
    stage.receive(LEAST)
    assert stage.pool.changes == []
    stage.receive(3)
    assert (stage.pool.changes, stage.slots) == ([1, 1, 1], 5)


def test_slots_grow_by_all_that_is_missing(stage: Stage) -> None:
    waiting = [Message() for _ in range(9)]  # they came before anybody looked
    state.reserved_requests.update(waiting)
    stage.receive()
    assert (stage.pool.changes, stage.slots) == ([8], 10)
    state.reserved_requests.difference_update(waiting)


def test_slots_never_pass_the_most(stage: Stage) -> None:
    stage.receive(MOST + 30)
    assert stage.slots == MOST
    stage.tick()
    assert (stage.slots, sum(stage.pool.changes)) == (MOST, MOST - LEAST)


def test_slots_stay_while_they_are_all_used(stage: Stage) -> None:
    stage.receive(10)
    for _ in range(5):
        stage.let_pass(2 * KEEPALIVE)
        stage.tick()
    assert stage.slots == 10


def test_slots_stand_free_for_the_keepalive_and_go_back_in_one_step(stage: Stage) -> None:
    stage.receive(10)
    stage.finish(10)
    stage.let_pass(KEEPALIVE - 1)
    stage.tick()
    assert stage.slots == 10
    stage.let_pass(1.1)
    stage.tick()
    assert (stage.slots, stage.pool.changes[-1]) == (LEAST, -8)


def test_slots_that_are_used_still_are_kept(stage: Stage) -> None:
    stage.receive(10)
    stage.finish(4)
    stage.let_pass(KEEPALIVE + 1)
    stage.tick()
    assert stage.slots == 6


def test_keepalive_begins_anew_when_all_slots_are_used_once_more(stage: Stage) -> None:
    stage.receive(10)
    stage.finish(5)
    stage.let_pass(KEEPALIVE - 1)
    stage.receive(5)
    stage.finish(5)
    stage.let_pass(KEEPALIVE - 1)
    stage.tick()
    assert stage.slots == 10


def test_keepalive_begins_anew_when_slots_have_gone(stage: Stage) -> None:
    stage.receive(10)
    stage.finish(4)
    stage.let_pass(KEEPALIVE + 1)
    stage.tick()  # six slots, all of them used
    stage.finish()
    stage.tick()
    assert stage.slots == 6
    stage.let_pass(KEEPALIVE + 1)
    stage.tick()
    assert stage.slots == 5


def test_trickle_of_messages_keeps_no_slots(stage: Stage) -> None:
    stage.receive(10)
    stage.finish(10)
    for _ in range(4):
        stage.let_pass(KEEPALIVE / 3)
        stage.receive(2)
        stage.finish(2)
        stage.tick()
    assert stage.slots == LEAST


def test_nothing_changes_while_the_worker_drains(stage: Stage) -> None:
    stage.receive(5)
    stage.scaler.freeze()
    stage.receive(5)
    stage.tick()
    assert stage.slots == 5
    stage.finish(10)
    stage.let_pass(2 * KEEPALIVE)
    stage.tick()
    assert stage.slots == 5


def test_each_change_is_one_line(stage: Stage) -> None:
    with capture_logs() as logs:
        stage.tick()
        stage.receive(10)
        stage.tick()
        stage.tick()
        stage.finish(10)
        stage.let_pass(KEEPALIVE + 1)
        stage.tick()
        stage.tick()
    assert [(line["event"], line["before"], line["slots"], line["needed"]) for line in logs] == [
        ("autoscale.changed", 2, 10, 10),
        ("autoscale.changed", 10, 2, 0),
    ]


def test_gauge_shows_the_slots(stage: Stage) -> None:
    stage.receive(7)
    stage.tick()
    assert telemetry.WORKER_SLOTS._value.get() == 7


def test_limits_are_changed_by_remote_control_and_hold_at_once(stage: Stage) -> None:
    stage.receive(10)
    assert stage.scaler.update(5, 2) == (5, 2)
    assert (stage.slots, stage.worker.consumer.window_changes) == (5, [5 - MOST])
    stage.receive(5)
    assert stage.slots == 5
    assert stage.scaler.update(8, 7) == (8, 7)
    assert stage.slots == 7
    info: Any = stage.scaler.info()
    assert info == {"max": 8, "min": 7, "current": 7, "qty": 15}


def test_limit_that_was_lowered_may_be_raised_again_to_what_it_was(stage: Stage) -> None:
    stage.scaler.update(5, 2)
    stage.tick()
    assert stage.scaler.update(MOST, 2) == (MOST, 2)
    stage.receive(MOST)
    assert stage.slots == MOST
    assert sum(stage.worker.consumer.window_changes) == 0


def test_limit_is_never_raised_above_what_connections_are_counted_for(stage: Stage) -> None:
    stage.tick()
    with capture_logs() as logs:
        assert stage.scaler.update(MOST + 30, 2) == (MOST, 2)
    stage.receive(MOST + 30)
    assert (stage.slots, stage.worker.consumer.window_changes) == (MOST, [])
    assert [(line["event"], line["asked"], line["most"]) for line in logs] == [("autoscale.capped", MOST + 30, MOST)]


def test_scaler_ends_at_once(stage: Stage) -> None:
    scaler = Autoscaler(stage.pool, MOST, LEAST, worker=stage.worker, keepalive=KEEPALIVE)
    scaler.start()
    scaler.stop()
    assert not scaler.is_alive()

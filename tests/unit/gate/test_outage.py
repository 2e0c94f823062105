from typing import Any

import pytest
import redis

from tests.unit.gate.asks import KEY, PLENTY, Absent, ask_of, told_of
from tests.unit.gate.clocks import Clock
from worker_app.gate.book import Book, Granted, Waits
from worker_app.gate.breaker import Breaker
from worker_app.gate.key import GateKey, Reason
from worker_app.gate.leases import Leases
from worker_app.gate.listener import Listener
from worker_app.gate.outage import RETURN_SECONDS, Outage
from worker_app.gate.signals import Kind, Quota
from worker_app.gate.windows import Windows

AWAY = redis.ConnectionError("away")
OTHER = GateKey("github", "beta", "github.com")


class Away(Listener):
    """Keeps the outages that it hears of."""

    def __init__(self) -> None:
        self.heard: list[tuple[bool, float]] = []

    def outage(self, is_over: bool, seconds: float, error: str = "") -> None:
        """Keep it."""
        self.heard.append((is_over, seconds))


class Worker:
    """What one process has of an outage."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.book, self.listener = Absent(), Away()
        self.windows, self.leases = Windows(self.clock), Leases(self.clock)
        self.outage = Outage(
            self.book,
            windows=self.windows,
            leases=self.leases,
            listener=self.listener,
            workers=lambda: 4,
            breaker=Breaker(self.clock, lambda: 1.0),
            clock=self.clock,
        )
        self.count = 0

    def call(self) -> bool:
        return self.outage.call(lambda book: self._sync(book)) is not None

    def _sync(self, book: Book) -> object:
        return book.sync(OTHER)

    def go_away(self) -> None:
        self.book.fault = AWAY
        assert not self.call()

    def come_back(self) -> None:
        self.book.fault = None
        self.clock.now += 2.0
        self.book.calls.clear()
        assert self.call()

    def take(self) -> Granted:
        answer = self.ask()
        assert isinstance(answer, Granted), answer
        return answer

    def ask(self) -> Granted | Waits:
        self.count += 1
        return self.outage.acquire(KEY, ask_of(self.count))

    def succeed(self, granted: Granted, number: int) -> None:
        self.outage.observe(KEY, told_of(ask_of(number), granted.now_ms))


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_outage_is_told_once_at_its_start_and_once_at_its_end(worker: Worker) -> None:
    worker.go_away()
    for _ in range(5):
        worker.clock.now += 2.0
        assert not worker.call()
    worker.come_back()
    assert worker.listener.heard == [(False, 0.0), (True, 12.0)]
    assert not worker.outage.is_local


def test_nobody_calls_while_redis_is_known_to_be_away(worker: Worker) -> None:
    worker.go_away()
    worker.book.calls.clear()
    for _ in range(100):
        assert not worker.call()
    assert worker.book.calls == []


@pytest.mark.parametrize("fault", [redis.TimeoutError(), redis.ResponseError("OOM"), redis.ReadOnlyError(), OSError()])
def test_every_fault_of_redis_is_an_outage(worker: Worker, fault: Exception) -> None:
    worker.book.fault = fault
    assert not worker.call()
    assert worker.outage.is_local


def test_call_that_is_ended_from_outside_is_none(worker: Worker) -> None:
    worker.book.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        worker.call()
    assert not worker.outage.is_local
    worker.go_away()
    worker.clock.now += 1.0
    worker.book.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        worker.call()
    worker.book.fault = None
    assert worker.call()  # the next one looks at once


def test_windows_and_leases_go_to_redis_before_anything_else(worker: Worker) -> None:
    worker.go_away()
    worker.windows.note(KEY, "*", 60.0, "secondary: word")
    worker.leases.add(OTHER, "p.1|core:1", 65.0, is_shared=False)
    worker.come_back()
    assert worker.book.calls[-1] == ("sync", OTHER)  # the call itself
    assert {key for _, key in worker.book.calls[:-1]} == {KEY, OTHER}
    assert [item.bucket for item in worker.book.known] == ["*"]
    assert list(worker.book.leases) == ["p.1|core:1"]


def test_failure_while_things_are_handed_over_leaves_it_an_outage(worker: Worker) -> None:
    worker.go_away()
    worker.windows.note(KEY, "*", 60.0, "secondary: word")
    worker.clock.now += 2.0
    assert not worker.call()
    assert worker.outage.is_local
    worker.come_back()
    assert worker.book.known


def test_owed_leases_are_given_back_with_the_next_call(worker: Worker) -> None:
    worker.leases.owe(KEY, "p.1|core:1", 65.0)
    worker.call()
    assert worker.book.ended == ["p.1|core:1"]
    assert not worker.leases.is_owing


def test_lease_that_could_not_be_given_back_stays_owed(worker: Worker) -> None:
    worker.leases.owe(KEY, "p.1|core:1", 65.0)
    worker.go_away()
    assert worker.leases.is_owing
    worker.come_back()
    worker.call()
    assert worker.book.ended == ["p.1|core:1"]


def test_worker_that_had_nothing_under_way_takes_its_share_by_and_by(worker: Worker) -> None:
    worker.outage.mirrors.granted(KEY, 20)
    worker.outage.mirrors.told(KEY, told_of(ask_of(0), 1))
    worker.go_away()
    most = []
    for _ in range(12):
        held = []
        while isinstance(answer := worker.ask(), Granted):
            held.append((answer, worker.count))
        assert answer.reason is Reason.CONCURRENCY
        most.append(len(held))
        for granted, number in held:
            worker.succeed(granted, number)
        worker.clock.now += 1.0
    assert most[0] == 1
    assert most == sorted(most)
    assert most[-1] == 5


def test_worker_that_had_more_than_its_share_under_way_takes_no_more(worker: Worker) -> None:
    worker.outage.mirrors.granted(KEY, 20)
    worker.outage.mirrors.told(KEY, told_of(ask_of(0), 1))
    for number in range(8):
        worker.leases.add(KEY, f"q.{number}|core:1", 65.0, is_shared=True)
    worker.go_away()
    answer = worker.ask()
    assert isinstance(answer, Waits)
    assert answer.reason is Reason.CONCURRENCY


def test_share_is_taken_of_the_limit_as_redis_learned_it(worker: Worker) -> None:
    worker.outage.mirrors.granted(KEY, 8)
    worker.outage.mirrors.told(KEY, told_of(ask_of(0), 1))
    for number in range(2):
        worker.leases.add(KEY, f"q.{number}|core:1", 65.0, is_shared=True)
    worker.go_away()
    assert isinstance(worker.ask(), Waits)


def test_share_of_a_quota_is_what_was_left_divided_and_is_forgotten_with_its_window(worker: Worker) -> None:
    worker.outage.mirrors.told(KEY, told_of(ask_of(0), 1, quotas=(Quota("core", 5000, 4000, 3000.0),)))
    worker.clock.now += 10.0
    worker.go_away()
    assert worker.take().remaining == 1000
    later = Worker()
    later.outage.mirrors.told(KEY, told_of(ask_of(0), 1, quotas=(Quota("core", 5000, 4000, 5.0),)))
    later.clock.now += 10.0
    later.go_away()
    assert later.take().remaining is None


def test_process_that_is_back_keeps_to_its_share_until_all_are(worker: Worker) -> None:
    worker.outage.mirrors.granted(KEY, 20)
    for number in range(5):
        worker.leases.add(KEY, f"q.{number}|core:1", 65.0, is_shared=True)
    assert not worker.outage.keeps_back(KEY, 20)
    worker.go_away()
    worker.come_back()
    assert worker.outage.keeps_back(KEY, 20)
    assert not worker.outage.keeps_back(OTHER, 20)
    worker.clock.now += RETURN_SECONDS
    assert not worker.outage.keeps_back(KEY, 20)


def test_request_that_redis_granted_and_the_memory_observes_is_one_of_one_salvo(worker: Worker) -> None:
    worker.outage.heard(KEY, 1_800_000_000_000, 1)
    worker.clock.now += 1.0
    for number in range(3):
        worker.leases.add(KEY, ask_of(number).lease, 65.0, is_shared=True)
    worker.go_away()
    refused = [
        worker.outage.observe(KEY, told_of(ask_of(number), 1_800_000_000_500, Kind.SECONDARY)).fails
        for number in range(3)
    ]
    assert refused == [1, 1, 1]


def test_redis_that_has_lost_the_leases_gets_them_anew(worker: Worker) -> None:
    worker.leases.add(KEY, "p.1|core:1", 65.0, is_shared=True)
    worker.outage.heard(KEY, 1, 5)
    assert worker.book.leases == {}
    worker.outage.heard(KEY, 1, 6)
    assert list(worker.book.leases) == ["p.1|core:1"]


def test_lease_that_ends_while_it_is_counted_anew_is_given_back(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.leases.add(KEY, "p.1|core:1", 65.0, is_shared=True)
    sync = worker.book.sync

    def ends(*arguments: Any) -> object:
        worker.leases.remove(KEY, "p.1|core:1")
        return sync(*arguments)

    monkeypatch.setattr(worker.book, "sync", ends)
    worker.outage.heard(KEY, 1, 5)
    worker.outage.heard(KEY, 1, 6)
    monkeypatch.undo()
    worker.call()
    assert worker.book.ended == ["p.1|core:1"]


def test_memory_begins_anew_with_each_outage(worker: Worker) -> None:
    worker.outage.mirrors.told(KEY, told_of(ask_of(0), 1, quotas=(PLENTY,)))
    worker.go_away()
    worker.take()
    worker.come_back()
    worker.go_away()
    assert worker.take().live == 1

"""The rules, step by step and by hand; that the scripts obey the same ones is what the model test is for."""

from dataclasses import replace

import pytest

from tests.unit.gate.asks import KEY, PLENTY, ask_of, told_of
from tests.unit.gate.clocks import Clock
from worker_app.gate.book import Granted, Known, Told, Waits
from worker_app.gate.key import Priority, Reason
from worker_app.gate.memory_book import MemoryBook
from worker_app.gate.memory_state import costs
from worker_app.gate.policies import GITHUB
from worker_app.gate.signals import Kind, Quota

SMALL = replace(GITHUB, max_conc=4)


class Desk:
    """One book, one clock, requests with numbers."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.book = MemoryBook(self.clock.milliseconds)
        self.count = 0

    def ask(self, endpoint: str = "repos.get", **how: object) -> Granted | Waits:
        self.count += 1
        return self.book.acquire(KEY, ask_of(self.count, endpoint, **how))  # type: ignore[arg-type]

    def take(self, endpoint: str = "repos.get", **how: object) -> Told:
        """A request that was granted, and the reply that it will have: a success."""
        answer = self.ask(endpoint, **how)
        assert isinstance(answer, Granted), answer
        return told_of(ask_of(self.count, endpoint, **how), answer.now_ms + answer.delay_ms)  # type: ignore[arg-type]

    def wait(self, endpoint: str = "repos.get", **how: object) -> Waits:
        answer = self.ask(endpoint, **how)
        assert isinstance(answer, Waits), answer
        return answer

    def know(self, *quotas: Quota) -> None:
        """What is left, told by one reply."""
        told = self.take()
        self.book.observe(KEY, replace(told, signal=replace(told.signal, quotas=quotas)))

    def refuse(self, **says: object) -> int:
        """The milliseconds that a refusal of the whole key closes."""
        told = self.take()
        ask = ask_of(self.count)
        return self.book.observe(KEY, told_of(ask, told.sent_ms, Kind.SECONDARY, **says)).left_ms  # type: ignore[arg-type]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_lease_names_its_costs() -> None:
    assert costs("p.7|core:1,graphql:30") == {"core": 1, "graphql": 30}
    assert costs("p.7|") == costs("p.7") == {}


def test_unknown_quota_lets_one_ask_and_another_after_five_seconds(desk: Desk) -> None:
    desk.take()
    assert (desk.wait().reason, desk.wait().wait_ms) == (Reason.PROBE, 50)
    desk.clock.now += 5.0
    desk.take()
    assert desk.wait().reason is Reason.PROBE


def test_what_is_under_way_counts_against_what_is_left(desk: Desk) -> None:
    desk.know(Quota("core", 5000, 2, 0.5))
    for _ in range(2):
        desk.take(priority=Priority.INTERACTIVE)
    waits = desk.wait(priority=Priority.INTERACTIVE)
    assert (waits.reason, waits.wait_ms) == (Reason.QUOTA, 1500)


def test_reserve_melts_as_the_window_ends(desk: Desk) -> None:
    desk.know(Quota("core", 5000, 100, 3600.0))
    waits = desk.wait()
    desk.clock.now += waits.wait_ms / 1000
    desk.take()
    assert waits.reason is Reason.QUOTA


def test_limit_is_halved_by_a_secondary_refusal_and_grows_by_successes(desk: Desk) -> None:
    desk.know(PLENTY)
    assert desk.refuse(after=1.0) == 2000
    assert desk.book.sync(KEY).fields["conc"] == "10000"
    desk.clock.now += 20.0
    desk.book.observe(KEY, desk.take())  # the first after the window
    desk.clock.now += 20.0
    for told in [desk.take() for _ in range(10)]:
        desk.book.observe(KEY, told)
    assert 10_000 < int(desk.book.sync(KEY).fields["conc"]) <= 11_000


def test_no_more_may_be_under_way_than_the_limit(desk: Desk) -> None:
    desk.know(PLENTY)
    rooms = []
    for _ in range(4):
        answer = desk.ask(policy=SMALL)
        assert isinstance(answer, Granted)
        rooms.append(answer.room)
    assert rooms == [3, 2, 1, 0]
    assert desk.wait(policy=SMALL).reason is Reason.CONCURRENCY


def test_lease_that_runs_out_makes_room(desk: Desk) -> None:
    desk.know(PLENTY)
    for _ in range(4):
        desk.take(policy=SMALL)
    desk.clock.now += 66.0
    answer = desk.ask(policy=SMALL)
    assert isinstance(answer, Granted)
    assert answer.live == 1


def test_first_request_after_a_window_is_alone_for_a_tenth_of_a_second(desk: Desk) -> None:
    desk.know(PLENTY)
    desk.refuse(after=9.0)
    desk.clock.now += 10.0
    desk.book.observe(KEY, desk.take())
    assert (desk.wait().reason, desk.wait().wait_ms) == (Reason.CONCURRENCY, 110)
    desk.clock.now += 0.11
    desk.take()


def test_rise_begins_with_the_first_request_where_nobody_asked_for_long(desk: Desk) -> None:
    desk.know(PLENTY)
    desk.refuse(after=9.0)
    desk.clock.now += 500.0
    desk.take()
    desk.clock.now += 0.2
    assert desk.wait().reason is Reason.CONCURRENCY
    desk.clock.now += 5.0
    for _ in range(9):
        desk.take()


def test_pace_lets_a_burst_pass_and_reserves_the_rest_ahead(desk: Desk) -> None:
    desk.know(PLENTY)
    policy = replace(GITHUB, max_conc=1000)
    delays = []
    for _ in range(60):
        answer = desk.ask(policy=policy)
        assert isinstance(answer, Granted)
        delays.append(answer.delay_ms)
    assert delays[:49] == [0] * 49  # the one that found out what is left was the first of fifty
    assert delays[49:] == [80 * number for number in range(1, 12)]


def test_window_that_a_caller_knows_is_taken_over_and_its_end_is_told_once(desk: Desk) -> None:
    desk.know(PLENTY)
    assert desk.wait(known=(Known("core", 3000, "primary: word"),)).left_ms == 3000
    desk.clock.now += 3.0
    endings = []
    for _ in range(2):
        answer = desk.ask(priority=Priority.INTERACTIVE)
        assert isinstance(answer, Granted)
        endings.append(answer.ended)
        desk.clock.now += 6.0
    assert endings == [("core",), ()]


def test_window_that_the_book_told_itself_does_not_grow_by_the_way_of_an_answer(desk: Desk) -> None:
    desk.refuse(after=9.0)
    desk.wait(known=(Known("*", 10_900, "secondary: word", is_told=True),))
    assert desk.wait().left_ms == 10_000
    desk.wait(known=(Known("*", 11_001, "secondary: word", is_told=True),))
    assert desk.wait().left_ms == 11_001


def test_clear_opens_and_keeps_the_leases_and_the_pace(desk: Desk) -> None:
    desk.know(PLENTY)
    desk.take()
    desk.refuse(after=60.0)
    assert desk.book.clear(KEY, "*") == 1
    seen = desk.book.sync(KEY)
    assert (seen.live, list(seen.windows()), seen.number("R", "core")) == (1, [], None)
    assert seen.number("tat", "ep.repos.get") is not None
    assert isinstance(desk.ask(known=(Known("*", 9000, "secondary: word"),)), Waits | Granted)
    assert list(desk.book.sync(KEY).windows()) == []


def test_book_that_takes_over_counts_what_is_under_way(desk: Desk) -> None:
    desk.book.begin(KEY, {"q.1|core:1": 60_000, "q.2|core:3": 60_000}, 3)
    seen = desk.book.sync(KEY)
    assert (seen.live, seen.number("f", "core"), seen.fields["conc"]) == (2, 4, "3000")


def test_clock_that_goes_back_a_little_is_waited_for_and_a_lot_moves_everything(desk: Desk) -> None:
    desk.refuse(after=59.0)
    desk.clock.now -= 4.0
    assert desk.wait().left_ms == 60_000
    desk.clock.now -= 600.0
    answer = desk.wait()
    assert (answer.left_ms, answer.stepped_ms) == (60_000, 604_000)

import threading
import time
from collections.abc import Callable

import pytest

from worker_app.gate.key import GateKey, Priority
from worker_app.gate.line import Lines, Place

KEY = GateKey("github", "acme", "github.com")
LONG, DEADLINE = 60.0, 10.0


@pytest.fixture
def lines() -> Lines:
    return Lines()


def enter(lines: Lines, priority: Priority = Priority.SYNC) -> Place:
    return lines.enter(KEY, "repos.get", priority)


def is_soon(told: Callable[[], bool]) -> bool:
    until = time.monotonic() + DEADLINE
    while not told() and time.monotonic() < until:
        threading.Event().wait(0.001)
    return told()


class Resting:
    """A caller that waits for a request to end."""

    def __init__(self, lines: Lines, place: Place, seconds: float = LONG) -> None:
        self._thread = threading.Thread(target=lines.rest_until_freed, args=(place, seconds))
        self._thread.start()
        assert is_soon(lambda: self.is_over or place in lines._hungry.get(KEY, []))

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def ends(self) -> bool:
        self._thread.join(DEADLINE)
        return self.is_over


def test_first_of_a_line_has_the_turn_and_the_others_follow_in_their_order(lines: Lines) -> None:
    first, second, third = enter(lines), enter(lines), enter(lines)
    assert [place.turn.is_set() for place in (first, second, third)] == [True, False, False]
    lines.leave(first)
    assert [place.turn.is_set() for place in (second, third)] == [True, False]


def test_who_leaves_from_the_middle_takes_no_turn_along(lines: Lines) -> None:
    first, second, third = enter(lines), enter(lines), enter(lines)
    lines.leave(second)
    assert not third.turn.is_set()
    lines.leave(first)
    assert third.turn.is_set()


def test_who_rests_and_leaves_still_hands_the_turn_on(lines: Lines) -> None:
    first, second = enter(lines), enter(lines)
    lines.rest(first, 0.0)
    lines.leave(first)
    assert second.turn.is_set()


def test_lines_of_other_endpoints_and_priorities_are_apart(lines: Lines) -> None:
    enter(lines)
    assert lines.enter(KEY, "runs.get", Priority.SYNC).turn.is_set()
    assert enter(lines, Priority.INTERACTIVE).turn.is_set()


def test_nothing_is_left_of_lines_that_everybody_left(lines: Lines) -> None:
    for place in [enter(lines) for _ in range(5)]:
        lines.leave(place)
    assert lines._lines == {}


def test_end_of_a_request_wakes_the_most_urgent(lines: Lines) -> None:
    lines.crowd(KEY, LONG)
    bulk, sync = Resting(lines, enter(lines, Priority.BULK)), Resting(lines, enter(lines, Priority.SYNC))
    lines.freed(KEY)
    assert sync.ends()
    assert not bulk.is_over
    lines.freed(KEY)
    assert bulk.ends()
    assert lines._hungry == {}


def test_end_of_a_request_of_another_key_wakes_nobody(lines: Lines) -> None:
    lines.crowd(KEY, LONG)
    resting = Resting(lines, enter(lines))
    lines.freed(GateKey("github", "beta", "github.com"))
    assert not resting.is_over
    lines.freed(KEY)
    assert resting.ends()


def test_of_those_who_wait_the_most_urgent_asks_whoever_wakes_first(lines: Lines) -> None:
    lines.crowd(KEY, LONG)
    sync = Resting(lines, enter(lines, Priority.SYNC))
    bulk = Resting(lines, enter(lines, Priority.BULK), seconds=0.05)
    assert sync.ends()
    assert bulk.ends()  # then it is the first itself


def test_crowd_is_over_with_its_time_or_with_the_end_of_a_request(lines: Lines) -> None:
    assert lines.crowded_for(KEY) == 0.0
    lines.crowd(KEY, LONG)
    assert 0.0 < lines.crowded_for(KEY) <= LONG
    lines.freed(KEY)
    assert lines.crowded_for(KEY) == 0.0
    lines.crowd(KEY, 0.0)
    assert lines.crowded_for(KEY) == 0.0
    lines.clear(KEY)
    assert lines._crowded_until == {}


def test_stop_ends_every_wait_now_and_later(lines: Lines) -> None:
    first, second = enter(lines), enter(lines)
    lines.crowd(KEY, LONG)
    resting = Resting(lines, first)
    lines.stop()
    assert resting.ends()
    assert second.turn.wait(DEADLINE)
    lines.rest(second, LONG)
    assert lines.is_stopped


def test_flag_of_a_worker_that_stops_is_seen_by_whoever_waits() -> None:
    stopping = threading.Event()
    lines = Lines(stopping.is_set)
    resting = Resting(lines, enter(lines))
    stopping.set()
    assert resting.ends()
    assert lines.is_stopped


def test_who_is_ended_while_it_waits_leaves_nothing_behind() -> None:
    def end() -> bool:
        raise KeyboardInterrupt

    lines = Lines(end)
    place = enter(lines)
    with pytest.raises(KeyboardInterrupt):
        lines.rest_until_freed(place, LONG)
    lines.leave(place)
    assert (lines._hungry, lines._lines) == ({}, {})


def test_many_callers_get_the_turn_one_after_the_other_and_each_once(lines: Lines) -> None:
    inside, most, served = 0, 0, []
    lock = threading.Lock()

    def ask(number: int) -> None:
        nonlocal inside, most
        place = enter(lines)
        try:
            assert place.turn.wait(DEADLINE)
            with lock:
                inside += 1
                most = max(most, inside)
            lines.rest(place, 0.001)
            with lock:
                inside -= 1
                served.append(number)
        finally:
            lines.leave(place)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert (most, sorted(served)) == (1, list(range(40)))

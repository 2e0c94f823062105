import threading
from collections.abc import Iterator

import pytest

from tests.unit.gate.clocks import Clock
from worker_app.gate.breaker import FIRST_SECONDS, MOST_SECONDS, Breaker


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(clock, lambda: 1.0)


def test_breaker_lets_everybody_call_while_nothing_failed(breaker: Breaker) -> None:
    assert all(breaker.may_call() for _ in range(3))
    assert (breaker.is_open, breaker.open_seconds, breaker.succeeded()) == (False, 0.0, 0.0)


def test_breaker_opens_at_the_first_failure_and_says_so_once(breaker: Breaker) -> None:
    assert breaker.failed()
    assert not breaker.failed()
    assert breaker.is_open
    assert not breaker.may_call()


def test_breaker_lets_one_caller_look_again_when_the_pause_is_over(breaker: Breaker, clock: Clock) -> None:
    breaker.failed()
    clock.now += FIRST_SECONDS
    assert [breaker.may_call() for _ in range(3)] == [True, False, False]


def test_breaker_pauses_twice_as_long_up_to_the_most_and_never_gives_up(breaker: Breaker, clock: Clock) -> None:
    breaker.failed()
    pauses = []
    for _ in range(1000):
        before = clock.now
        while not breaker.may_call():
            clock.now += 0.25
        pauses.append(clock.now - before)
        breaker.failed()
    assert pauses[0] == FIRST_SECONDS
    assert set(pauses[1:]) == {MOST_SECONDS}


def test_breaker_draws_each_pause_from_nothing_to_the_whole(clock: Clock) -> None:
    draws: Iterator[float] = iter([0.0, 0.5, 1.0])
    breaker = Breaker(clock, lambda: next(draws))
    breaker.failed()
    assert breaker.may_call()
    breaker.failed()
    clock.now += 0.5 * MOST_SECONDS
    assert breaker.may_call()


def test_breaker_closes_at_the_first_answer_and_tells_how_long_it_was_open(breaker: Breaker, clock: Clock) -> None:
    breaker.failed()
    clock.now += 7.0
    assert breaker.open_seconds == 7.0
    assert breaker.may_call()
    assert breaker.succeeded() == 7.0
    assert (breaker.is_open, breaker.succeeded()) == (False, 0.0)
    assert breaker.failed()


def test_breaker_lets_the_next_look_where_a_look_was_given_up(breaker: Breaker, clock: Clock) -> None:
    breaker.failed()
    clock.now += FIRST_SECONDS
    assert breaker.may_call()
    breaker.gave_up()
    assert breaker.may_call()


def test_breaker_is_not_opened_by_a_call_that_was_given_up(breaker: Breaker) -> None:
    assert breaker.may_call()
    breaker.gave_up()
    assert not breaker.is_open


def test_breaker_makes_the_pause_no_longer_for_failures_of_calls_that_began_before(
    breaker: Breaker, clock: Clock
) -> None:
    breaker.failed()
    for _ in range(20):
        breaker.failed()
    clock.now += FIRST_SECONDS
    assert breaker.may_call()


def test_breaker_lets_one_of_many_threads_look_again(breaker: Breaker, clock: Clock) -> None:
    breaker.failed()
    clock.now += FIRST_SECONDS
    together, told = threading.Barrier(8), []

    def ask() -> None:
        together.wait(10)
        told.append(breaker.may_call())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(told) == [False] * 7 + [True]

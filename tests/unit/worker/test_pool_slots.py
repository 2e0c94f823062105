from functools import partial

import gevent
from gevent import Timeout
from gevent.event import Event

from tests.unit.worker.pool_requests import (
    WAIT_SECONDS,
    Request,
    begin,
    held_of_the_test,  # noqa: F401 - pytest finds it
    pool_of_the_test,  # noqa: F401 - pytest finds it
    raising,
    run,
    settle,
)
from worker_app.worker.pool import GreenPool


def test_requests_above_the_limit_wait_and_begin_in_their_order(pool: GreenPool) -> None:
    order: list[int] = []
    events = [Event() for _ in range(6)]

    def does(number: int) -> None:
        order.append(number)
        events[number].wait()

    requests = [Request(partial(does, number)) for number in range(6)]
    begin(pool, *requests)
    assert (pool.running, pool.waiting, order) == (2, 4, [0, 1])
    for number in (1, 0, 2, 3, 4, 5):
        events[number].set()
    settle(pool)
    assert order == [0, 1, 2, 3, 4, 5]


def test_applying_never_waits(pool: GreenPool, held: Event) -> None:
    with Timeout(WAIT_SECONDS):
        for _ in range(1000):
            Request(held.wait).go_to(pool)
    assert (pool.running, pool.waiting) == (2, 998)
    assert pool.refuse_waiting() == 998


def test_growing_begins_as_many_as_there_is_room_for_at_once(pool: GreenPool, held: Event) -> None:
    requests = [Request(held.wait) for _ in range(7)]
    begin(pool, *requests)
    pool.grow(3)
    assert (pool.running, pool.waiting, pool.num_processes) == (5, 2, 5)
    pool.grow()
    assert (pool.running, pool.waiting, pool.num_processes) == (6, 1, 6)


def test_pool_grows_no_further_than_its_most(pool: GreenPool, held: Event) -> None:
    pool.most = 4
    begin(pool, *(Request(held.wait) for _ in range(7)))
    pool.grow(5)
    assert (pool.running, pool.waiting, pool.num_processes) == (4, 3, 4)
    pool.grow()
    assert pool.num_processes == 4
    pool.shrink(3)
    pool.grow(2)
    assert pool.num_processes == 3


def test_shrinking_a_full_pool_lets_finish_and_begins_none_before_the_limit_holds(pool: GreenPool) -> None:
    pool.grow(4)
    events = [Event() for _ in range(12)]
    requests = [Request(event.wait) for event in events]
    begin(pool, *requests)
    pool.shrink(4)
    assert (pool.running, pool.waiting, pool.num_processes) == (6, 6, 2)
    seen = []
    for event in events:
        event.set()
        gevent.sleep(0)
        gevent.sleep(0)
        seen.append((pool.running, pool.waiting))
    settle(pool)
    assert seen == [(5, 6), (4, 6), (3, 6), (2, 6), (2, 5), (2, 4), (2, 3), (2, 2), (2, 1), (2, 0), (1, 0), (0, 0)]
    assert all(request.verdicts == ["done True"] for request in requests)


def test_waiting_requests_are_refused_and_the_running_ones_go_on(pool: GreenPool, held: Event) -> None:
    requests = [Request(held.wait) for _ in range(5)]
    begin(pool, *requests)
    assert pool.refuse_waiting() == 3
    assert [request.verdicts for request in requests] == [[], [], *[["given back: the worker stops"]] * 3]
    assert (pool.running, pool.waiting, pool.refuse_waiting()) == (2, 0, 0)
    held.set()
    settle(pool)
    assert [request.begun for request in requests] == [True, True, False, False, False]


def test_waiting_request_whose_callback_fails_keeps_no_other_from_being_refused(pool: GreenPool, held: Event) -> None:
    requests = [Request(held.wait) for _ in range(5)]
    begin(pool, *requests)
    requests[3].in_error = raising(ValueError("fault"))
    assert pool.refuse_waiting() == 3
    assert (requests[2].verdicts, requests[4].verdicts) == (["given back: the worker stops"],) * 2


def test_request_that_dies_unbegun_and_whose_callback_fails_keeps_no_other_from_being_killed(pool: GreenPool) -> None:
    first, second = Request(bool), Request(bool)
    first.in_error = raising(ValueError("fault"))
    for request in (first, second):
        request.go_to(pool)
    assert pool.kill_running() == 2
    assert second.verdicts == ["given back: killed"]


def test_callback_that_fails_costs_no_slot(pool: GreenPool) -> None:
    for _ in range(3 * pool.limit):
        request = Request(raising(ValueError("fault")))
        request.in_error = raising(ValueError("another"))
        request.go_to(pool)
    settle(pool)
    assert run(pool, Request(lambda: "after")) == ["done after"]


def test_idle_is_waited_for_as_long_as_is_said(pool: GreenPool, held: Event) -> None:
    assert pool.wait_idle(0)
    begin(pool, Request(held.wait))
    assert not pool.wait_idle(0.01)
    held.set()
    assert pool.wait_idle(WAIT_SECONDS)


def test_pool_is_not_idle_while_a_request_comes_after_another(pool: GreenPool) -> None:
    idle: list[bool] = []
    for _ in range(5):
        Request(lambda: idle.append(pool.wait_idle(0))).go_to(pool)
    settle(pool)
    assert idle == [False] * 5


def test_killing_what_runs_gives_everything_back_and_lets_waiting_ones_begin(pool: GreenPool, held: Event) -> None:
    requests = [Request(held.wait) for _ in range(3)]
    begin(pool, *requests)
    assert pool.kill_running() == 2
    assert not pool.wait_idle(0.01)
    assert [request.begun for request in requests] == [True, True, True]
    held.set()
    settle(pool)
    assert [request.verdicts for request in requests] == [["given back: killed"], ["given back: killed"], ["done True"]]


def test_running_requests_are_named_with_their_greenlets(pool: GreenPool, held: Event) -> None:
    (job,) = begin(pool, Request(held.wait))
    assert pool.running_greenlets() == [("an-id", job.greenlet)]


def test_pool_tells_what_runs_and_what_waits(pool: GreenPool, held: Event) -> None:
    begin(pool, *(Request(held.wait) for _ in range(5)))
    info = pool.info
    assert (info["max-concurrency"], info["running"], info["waiting"]) == (2, 2, 3)


def test_stopping_waits_for_what_runs(pool: GreenPool, held: Event) -> None:
    request = Request(held.wait)
    begin(pool, request)
    gevent.spawn_later(0.01, held.set)
    pool.stop()
    assert request.verdicts == ["done True"]

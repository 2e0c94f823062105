from typing import Any

import gevent
import pytest
import redis
from celery.exceptions import WorkerShutdown, WorkerTerminate
from gevent import GreenletExit, Timeout
from gevent.event import Event
from structlog.testing import capture_logs

from tests.unit.worker.pool_requests import (
    WAIT_SECONDS,
    Request,
    begin,
    held_of_the_test,  # noqa: F401 - pytest finds it
    pid,
    pool_of_the_test,  # noqa: F401 - pytest finds it
    raising,
    run,
    settle,
)
from worker_app.worker.pool import GreenPool


def test_request_gets_its_arguments_and_its_answer_goes_to_the_callback(pool: GreenPool) -> None:
    heard: list[Any] = []
    pool.on_apply(lambda *given, **named: (given, named), (1, 2), {"a": 3}, callback=heard.append)
    settle(pool)
    assert heard == [((1, 2), {"a": 3})]


def test_accepted_request_is_known_by_its_greenlet_and_its_clock(pool: GreenPool) -> None:
    heard: list[tuple[int, float]] = []
    job = pool.on_apply(bool, accept_callback=lambda number, at: heard.append((number, at)))
    number = pid(job)
    settle(pool)
    assert heard[0][0] == number
    assert heard[0][1] > 0
    assert job.greenlet is None


def test_request_without_callbacks_comes_and_goes(pool: GreenPool) -> None:
    pool.on_apply(bool)
    pool.on_apply(raising(ValueError("fault")))
    settle(pool)


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (ValueError("fault"), "failed: fault"),
        (redis.ConnectionError("away"), "given back: ConnectionError"),
        (OSError("away"), "given back: OSError"),
        (MemoryError(), "given back: MemoryError"),
        (KeyboardInterrupt(), "given back: KeyboardInterrupt"),
        (GreenletExit(), "given back: killed"),
        (WorkerShutdown(0), "given back: WorkerShutdown"),
        (WorkerTerminate(1), "given back: WorkerTerminate"),
        (Timeout(99), "given back: a foreign timeout"),
        (SystemExit(3), "failed: the task tried to end the process"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
@pytest.mark.parametrize("where", ["accepted", "task", "done"])
def test_whatever_escapes_is_one_verdict(pool: GreenPool, fault: BaseException, verdict: str, where: str) -> None:
    request = Request(raising(fault) if where == "task" else bool)
    if where == "accepted":
        request.in_accepted = raising(fault)
    elif where == "done":
        request.in_done = raising(fault)
    assert run(pool, request) == [verdict]
    assert run(pool, Request(lambda: "after")) == ["done after"]


def test_fault_that_is_given_back_is_in_the_log_by_its_kind_alone(pool: GreenPool) -> None:
    with capture_logs() as logs:
        run(pool, Request(raising(redis.ConnectionError("a secret"))))
    assert [(line["event"], line["task_id"], line["error"]) for line in logs] == [
        ("task.given_back", "an-id", "ConnectionError")
    ]
    assert "secret" not in str(logs)


def test_task_that_waits_for_another_timeout_of_its_own_may_catch_it(pool: GreenPool, held: Event) -> None:
    def does() -> str:
        try:
            with Timeout(0.01):
                held.wait()
        except Timeout:
            return "went on"
        return "never"

    assert run(pool, Request(does, timeout_seconds=60)) == ["done went on"]


def test_hard_limit_is_told_once_and_the_slot_comes_back(pool: GreenPool, held: Event) -> None:
    assert run(pool, Request(held.wait, timeout_seconds=0.01)) == ["timeout False 0.01"]
    assert run(pool, Request(lambda: "after")) == ["done after"]


def test_limit_of_the_pool_holds_where_the_request_has_none(held: Event) -> None:
    pool = GreenPool(1, timeout=0.01)
    pool.on_start()
    assert run(pool, Request(held.wait)) == ["timeout False 0.01"]


def test_hard_limit_that_the_task_swallows_lets_it_answer(pool: GreenPool, held: Event) -> None:
    def does() -> str:
        try:
            held.wait()
        except Timeout:
            return "swallowed"
        return "never"

    assert run(pool, Request(does, timeout_seconds=0.01)) == ["done swallowed"]


def test_hard_limit_is_over_when_the_task_has_answered(pool: GreenPool) -> None:
    request = Request(lambda: "answer", timeout_seconds=0.01)
    request.in_done = lambda: gevent.sleep(0.03)  # an acknowledgement that takes longer than the limit
    assert run(pool, request) == ["done answer"]


@pytest.mark.parametrize("fault", [ValueError("fault"), GreenletExit(), SystemExit(1)], ids=lambda fault: repr(fault))
def test_fault_while_a_timeout_is_told_gives_the_message_back(
    pool: GreenPool, held: Event, fault: BaseException
) -> None:
    request = Request(held.wait, timeout_seconds=0.01)
    request.in_timeout = raising(fault)  # a backend that is away, or a hook of the task's author
    request.go_to(pool)
    settle(pool)
    assert len(request.verdicts) == 1


def test_running_request_is_killed_and_given_back(pool: GreenPool, held: Event) -> None:
    request = Request(held.wait)
    (job,) = begin(pool, request)
    pool.terminate_job(pid(job), "TERM")
    settle(pool)
    assert request.verdicts == ["given back: killed"]


def test_request_that_is_killed_twice_has_one_verdict(pool: GreenPool, held: Event) -> None:
    request = Request(held.wait)
    (job,) = begin(pool, request)
    pool.terminate_job(pid(job))
    pool.terminate_job(pid(job))
    pool.kill_running()
    settle(pool)
    assert request.verdicts == ["given back: killed"]


def test_request_that_is_killed_twice_while_its_verdict_is_told_has_one(pool: GreenPool, held: Event) -> None:
    request = Request(held.wait)
    request.in_error = lambda: gevent.sleep(0)
    (job,) = begin(pool, request)
    pool.terminate_job(pid(job))
    gevent.sleep(0)
    pool.kill_running()
    settle(pool)
    assert request.verdicts == ["given back: killed"]


def test_request_that_is_killed_before_it_began_is_given_back_and_never_runs(pool: GreenPool) -> None:
    request = Request(lambda: "ran")
    job = request.go_to(pool)
    pool.terminate_job(pid(job))
    assert request.verdicts == ["given back: killed"]
    gevent.sleep(0)
    settle(pool)
    assert (request.begun, request.verdicts) == (False, ["given back: killed"])


def test_request_that_is_killed_in_its_callback_is_given_back(pool: GreenPool, held: Event) -> None:
    request, in_callback = Request(lambda: "answer"), Event()

    def in_done() -> None:
        in_callback.set()
        held.wait()

    request.in_done = in_done
    (job,) = begin(pool, request)
    in_callback.wait(WAIT_SECONDS)
    pool.terminate_job(pid(job))
    settle(pool)
    assert request.verdicts == ["given back: killed"]


def test_killed_task_may_clean_up_and_take_its_time(pool: GreenPool, held: Event) -> None:
    cleaned: list[str] = []

    def does() -> None:
        try:
            held.wait()
        finally:
            gevent.sleep(0.01)
            cleaned.append("up")

    request = Request(does)
    (job,) = begin(pool, request)
    pool.terminate_job(pid(job))
    settle(pool)
    assert (cleaned, request.verdicts) == (["up"], ["given back: killed"])


def test_task_that_swallows_its_end_is_settled_as_it_says(pool: GreenPool, held: Event) -> None:
    def does() -> str:
        try:
            held.wait()
        except GreenletExit:
            return "finished"
        return "never"

    request = Request(does)
    (job,) = begin(pool, request)
    pool.terminate_job(pid(job))
    settle(pool)
    assert request.verdicts == ["done finished"]


def test_number_that_nobody_has_kills_nobody(pool: GreenPool, held: Event) -> None:
    request = Request(held.wait)
    begin(pool, request)
    pool.terminate_job(12345)
    held.set()
    settle(pool)
    assert request.verdicts == ["done True"]


def test_job_lets_celery_terminate_it_once_more(pool: GreenPool, held: Event) -> None:
    request = Request(held.wait)
    (job,) = begin(pool, request)
    job.terminate("TERM")
    held.set()
    settle(pool)
    assert request.verdicts == ["done True"]

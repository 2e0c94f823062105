"""Requests for a pool in tests, as Celery makes them, with the verdicts that they hear."""

from collections.abc import Callable, Iterator

import gevent
import pytest
from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.exceptions import Reject
from gevent.event import Event

from worker_app.worker.pool import GreenPool, Job

WAIT_SECONDS = 5.0  # the most that a test waits for what comes at once


class Request:
    """What Celery gives to the pool for one message: what it does, and the verdicts that it hears, in their order."""

    def __init__(self, does: Callable[[], object], timeout_seconds: float | None = None) -> None:
        self.does = does
        self.timeout_seconds = timeout_seconds
        self.begun = False
        self.verdicts: list[str] = []
        self.in_accepted: Callable[[], object] = bool
        self.in_done: Callable[[], object] = bool
        self.in_timeout: Callable[[], object] = bool
        self.in_error: Callable[[], object] = bool

    def accepted(self, *_: object) -> None:
        self.begun = True
        self.in_accepted()

    def done(self, answer: object) -> None:
        self.in_done()
        self.verdicts.append(f"done {answer}")

    def failed(self, info: ExceptionInfo) -> None:
        self.in_error()
        fault = info.exception.exc if isinstance(info.exception, ExceptionWithTraceback) else info.exception
        if isinstance(fault, Reject):
            self.verdicts.append(f"given back: {fault.reason}" if fault.requeue else "rejected")
        else:
            self.verdicts.append(f"failed: {fault}")

    def timed_out(self, is_soft: bool, seconds: float) -> None:
        self.in_timeout()
        self.verdicts.append(f"timeout {is_soft} {seconds}")

    def go_to(self, pool: GreenPool) -> Job:
        return pool.on_apply(
            lambda: self.does(),
            callback=self.done,
            accept_callback=self.accepted,
            timeout=self.timeout_seconds,
            timeout_callback=self.timed_out,
            error_callback=self.failed,
            correlation_id="an-id",
        )


def raising(fault: BaseException) -> Callable[[], object]:
    def does() -> None:
        raise fault

    return does


def settle(pool: GreenPool) -> None:
    """Wait until nothing runs; then there are no slots in use and nobody waits."""
    assert pool.wait_idle(WAIT_SECONDS)
    assert (pool.running, pool.waiting, pool.running_greenlets()) == (0, 0, [])


def run(pool: GreenPool, request: Request) -> list[str]:
    """The verdicts of one request that ends by itself."""
    request.go_to(pool)
    settle(pool)
    return request.verdicts


def begin(pool: GreenPool, *requests: Request) -> list[Job]:
    """Begin these, and let each come to the point where it waits."""
    jobs = [request.go_to(pool) for request in requests]
    while not all(request.begun for request in requests[: pool.limit]):
        gevent.sleep(0)
    return jobs


def pid(job: Job) -> int:
    """What Celery knows a running request by."""
    return id(job.greenlet)


@pytest.fixture(name="pool")
def pool_of_the_test() -> Iterator[GreenPool]:
    """A pool with two slots, which is empty again at the end."""
    made = GreenPool(2)
    made.pause_seconds = 0.0
    made.on_start()
    yield made
    made.refuse_waiting()
    made.kill_running()
    assert made.wait_idle(WAIT_SECONDS)


@pytest.fixture(name="held")
def held_of_the_test(pool: GreenPool) -> Iterator[Event]:
    """What tasks wait for; set at the end of the test."""
    event = Event()
    yield event
    event.set()

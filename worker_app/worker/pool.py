"""Pool: Celery's gevent pool with the three promises that the stock one breaks.

It never blocks the consumer: a request above the limit waits here, first in, first out. It never loses a verdict: whatever
ends a greenlet, its message is acknowledged, rejected or given back. And its limit may change at any moment: it counts
what runs, so shrinking a busy pool lets the running ones finish.
Page: https://docs.celeryq.dev/en/stable/userguide/concurrency/gevent.html
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gevent
import redis
import structlog
from billiard.einfo import ExceptionInfo
from celery.concurrency import gevent as celery_gevent
from celery.exceptions import BackendError, Reject, WorkerShutdown, WorkerTerminate
from gevent import GreenletExit, Timeout
from gevent.event import Event
from kombu.exceptions import OperationalError

PASSING = (redis.RedisError, OSError, OperationalError, BackendError, MemoryError)  # another try may do

log = structlog.get_logger(__name__)


def _nothing(*_: Any, **__: Any) -> None:
    """A callback that nobody has given."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Job:
    """One request on its way through the pool. Celery keeps a weak reference to it and may call `terminate`."""

    target: Callable[..., Any]
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    on_accepted: Callable[[int, float], None]
    on_done: Callable[[Any], None]
    on_error: Callable[[ExceptionInfo], None]
    on_timeout: Callable[[bool, float], None]
    timeout_seconds: float | None
    name: str
    greenlet: "gevent.Greenlet[..., None] | None" = None
    is_begun: bool = False

    def terminate(self, signal: object = None) -> None:
        """Nothing: the pool has killed the greenlet by its id already."""


class GreenPool(celery_gevent.TaskPool):
    """A pool of greenlets with a limit that counts what runs. `most`, when set, is the highest limit that holds."""

    limit: int
    most: int | None = None
    pause_seconds = 1.0  # before a message is given back because something was away

    def on_start(self) -> None:
        """Begin empty."""
        self._running: dict[int, Job] = {}
        self._waiting: deque[Job] = deque()
        self._is_idle = Event()
        self._is_idle.set()

    @property
    def running(self) -> int:
        """Requests that run."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return len(self._waiting)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        callback: Callable[[Any], None] | None = None,
        accept_callback: Callable[[int, float], None] | None = None,
        timeout: float | None = None,
        timeout_callback: Callable[[bool, float], None] | None = None,
        error_callback: Callable[[ExceptionInfo], None] | None = None,
        correlation_id: str = "",
        **_: Any,
    ) -> Job:
        """Run a request as soon as there is a slot. Returns at once."""
        job = Job(
            target=target,
            arguments=args or (),
            keywords=kwargs or {},
            on_accepted=accept_callback or _nothing,
            on_done=callback or _nothing,
            on_error=error_callback or _nothing,
            on_timeout=timeout_callback or _nothing,
            timeout_seconds=self.timeout if timeout is None else timeout,
            name=correlation_id,
        )
        self._waiting.append(job)
        self._fill()
        return job

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.limit:
            job = self._waiting.popleft()
            job.greenlet = gevent.spawn(self._run, job)
            self._running[id(job.greenlet)] = job
            self._is_idle.clear()

    def _run(self, job: Job) -> None:
        job.is_begun = True
        number = id(job.greenlet)
        try:
            _verdict(job, number, self.pause_seconds)
        finally:
            self._forget(number)

    def _forget(self, number: int) -> None:
        self._running.pop(number).greenlet = None
        self._fill()
        if not self._running:
            self._is_idle.set()

    def _kill(self, job: Job) -> None:
        greenlet = job.greenlet
        if greenlet is None:
            return
        greenlet.kill(block=False)
        if not job.is_begun:  # gevent ends one that has not begun without a word: it says nothing of its message
            self._forget(id(greenlet))
            _give_back(job, "killed")

    def grow(self, n: int = 1) -> None:
        """Let `n` more run, not beyond `most`."""
        self.limit = min(self.limit + n, self.most or self.limit + n)
        self._fill()

    def shrink(self, n: int = 1) -> None:
        """Let `n` fewer run. Those above the new limit finish; none is begun until it holds."""
        self.limit -= n

    def terminate_job(self, pid: int, _: object = None) -> None:
        """Kill the greenlet of a running request, without waiting for it."""
        if job := self._running.get(pid):
            self._kill(job)

    def refuse_waiting(self) -> int:
        """Give back every request that waits for a slot. Gives their number."""
        count = 0
        while self._waiting:
            _give_back(self._waiting.popleft(), "the worker stops")
            count += 1
        return count

    def wait_idle(self, seconds: float) -> bool:
        """Wait until nothing runs, `seconds` at most; whether that is so."""
        return bool(self._is_idle.wait(seconds))

    def kill_running(self) -> int:
        """Kill every running greenlet, without waiting. Gives their number; each one gives its message back."""
        jobs = list(self._running.values())
        for job in jobs:
            self._kill(job)
        return len(jobs)

    def running_greenlets(self) -> "list[tuple[str, gevent.Greenlet[..., None]]]":
        """What runs now, as (task id, greenlet)."""
        return [(job.name, job.greenlet) for job in self._running.values() if job.greenlet is not None]

    def on_stop(self) -> None:
        """Wait for what runs; after a drain nothing does."""
        self._is_idle.wait()

    def _get_info(self) -> dict[str, Any]:
        return {**super()._get_info(), "running": self.running, "waiting": self.waiting}


def _verdict(job: Job, number: int, pause_seconds: float) -> None:
    """Run a job; each way to end leads to one verdict on its message."""
    limit = None
    try:
        limit = Timeout(float(job.timeout_seconds)) if job.timeout_seconds else None
        job.on_accepted(number, time.monotonic())
        if limit is not None:
            limit.start()
        try:
            answer = job.target(*job.arguments, **job.keywords)
        finally:
            if limit is not None:
                limit.close()  # the limit is the task's: an acknowledgement under way is no part of it
        job.on_done(answer)
    except GreenletExit:
        _give_back(job, "killed")  # does nothing for one that was revoked: its message is acknowledged
    except (WorkerShutdown, WorkerTerminate) as error:
        _give_back(job, type(error).__name__)
    except Timeout as error:
        if error is not limit:
            _give_back(job, "a foreign timeout")
        elif not _tell_timeout(job):
            _give_back(job, "its timeout could not be told")
    except SystemExit:
        _fail(job)
    except PASSING as error:
        _give_back_later(job, type(error).__name__, pause_seconds)
    except Exception as error:  # noqa: BLE001 - a message that nobody can run: given back, it would come again at once, for ever
        _refuse(job, error)
    except BaseException as error:  # noqa: BLE001 - whatever it is: a request without a verdict holds its slot for ever
        _give_back(job, type(error).__name__)


def _tell_timeout(job: Job) -> bool:
    """Let the task fail at its limit; whether that was possible."""
    try:
        job.on_timeout(False, job.timeout_seconds or 0.0)
    except BaseException as error:  # noqa: BLE001 - a backend that is away, or a hook of the task's author
        log.warning("task.timeout_untold", task_id=job.name, error=type(error).__name__)
        return False
    return True


def _give_back_later(job: Job, reason: str, pause_seconds: float) -> None:
    """Let the message be delivered again after a pause: what was away, as the Redis of the results, may be away for long."""
    log.warning("task.given_back", task_id=job.name, error=reason, pause_seconds=pause_seconds)
    try:
        gevent.sleep(pause_seconds)
    except GreenletExit:
        log.info("task.pause_cut", task_id=job.name)  # a drain has no time for it
    _give_back(job, reason)


def _give_back(job: Job, reason: str) -> None:
    """Let the message be delivered again."""
    _refuse(job, Reject(reason, requeue=True))


def _fail(job: Job) -> None:
    """Let a task that tried to end the process fail; given back, it would end the next worker too."""
    _refuse(job, RuntimeError("the task tried to end the process"))


def _refuse(job: Job, reason: Exception) -> None:
    try:
        raise reason
    except type(reason):
        try:
            job.on_error(ExceptionInfo())  # it reads the exception that is being handled
        except Exception:  # one request must not keep the others from their verdict
            log.exception("task.verdict_failed", task_id=job.name)

"""Drain: the only way down for a gevent worker. Stop taking, let finish what fits into the time, give the rest back.

Celery's own handlers run in the hub, where nothing may wait: its soft shutdown never ends there, and its cold one
acknowledges the tasks that it kills. Here a signal wakes a greenlet that does the work. States: running, then draining
for one reason, then stopped; the first reason wins, and a later SIGQUIT only shortens the time.
Page: https://docs.celeryq.dev/en/stable/userguide/workers.html#stopping-the-worker
"""

import os
import signal
import sys
import time
import traceback
from typing import Any, Literal

import gevent
import gevent.event
import redis
import structlog
from celery import signals
from celery.worker import WorkController
from celery.worker import state as celery_state
from gevent.util import format_run_info

from worker_app import settings, telemetry
from worker_app.worker.deliveries import Deliveries
from worker_app.worker.pool import GreenPool

Reason = Literal["signal", "hangup", "tasks", "memory"]
RENEWS: frozenset[Reason] = frozenset({"hangup", "tasks", "memory"})  # the process begins anew, under the same pid
KILL_SECONDS = 5.0  # that a killed task may take for its own cleaning up
RETRY_SECONDS = 0.5  # between two tries on a Redis that is away
LOOK_SECONDS = 0.1
LEAVE_SECONDS = 8.0  # that Celery's own stop may take once nothing runs
BROKER_SECONDS = 5.0  # that a Redis which is away may cost, in all

log = structlog.get_logger(__name__)


class Drain:
    """The way down of one worker. `begin` may be called any number of times, from any greenlet."""

    def __init__(self, deliveries: Deliveries, drain_seconds: float) -> None:
        self.reason: Reason | None = None
        self._deliveries = deliveries
        self._drain_seconds = drain_seconds
        self._worker: WorkController | None = None
        self._is_cut_short = gevent.event.Event()
        self._is_done = gevent.event.Event()

    def attach(self, worker: WorkController) -> None:
        """Take over the signals of this worker. Called when Celery has set its own handlers."""
        self._worker = worker
        gevent.signal_handler(signal.SIGTERM, self.begin, "signal")
        gevent.signal_handler(signal.SIGINT, self.interrupt)
        gevent.signal_handler(signal.SIGQUIT, self.cut_short)
        gevent.signal_handler(signal.SIGHUP, self.begin, "hangup")
        signals.worker_shutdown.connect(self._on_shutdown, weak=False)
        for reason, count in settings.renewals().items():
            telemetry.WORKER_RECYCLES.labels(reason).inc(count)

    @property
    def is_draining(self) -> bool:
        """Whether this worker is on its way down."""
        return self.reason is not None

    def begin(self, reason: Reason) -> None:
        """Begin to drain. The first reason wins; but who is told to end does not begin anew."""
        if self.reason is None:
            self.reason = reason
            gevent.spawn(self._run)
        elif self.reason in RENEWS and reason not in RENEWS:
            log.info("drain.ends_for_good", instead_of=self.reason)
            self.reason = reason

    def cut_short(self) -> None:
        """Drain, and give back what runs at once."""
        self._is_cut_short.set()
        self.begin("signal")

    def interrupt(self) -> None:
        """Drain; the second time at once, as a person at a terminal expects of Ctrl-C."""
        if self.is_draining:
            self.cut_short()
        else:
            self.begin("signal")

    def complete(self) -> None:
        """Drain to the end in this greenlet: the worker stops for a reason that is none of ours, as `celery control shutdown`
        or a fault of Celery. Does nothing after a drain.
        """
        if self.reason is None:
            self.reason = "signal"
            self._try_to_drain()
        self._is_done.wait(self._drain_seconds + LEAVE_SECONDS)

    def _run(self) -> None:
        self._try_to_drain()
        celery_state.should_stop = os.EX_OK
        self._deliveries.finish()
        gevent.spawn_later(LEAVE_SECONDS, self._leave)

    def _try_to_drain(self) -> None:
        try:
            self._drain()
        except Exception:  # whatever it is, as a receiver of a signal that raises: who was told to end must end
            log.exception("drain.failed", what_now="the worker ends; what it holds comes back by recovery")
        finally:
            self._is_done.set()

    def _drain(self) -> None:
        worker, pool, began = self._attached, self._attached.pool, time.monotonic()
        log.info("drain.began", reason=self.reason, seconds=self._drain_seconds, running=pool.running)
        telemetry.WORKER_DRAINING.set(1)
        self._deliveries.stop_taking()
        if worker.autoscaler:
            worker.autoscaler.freeze()
        signals.worker_shutting_down.send(sender=worker.hostname, sig=self.reason, how="Warm", exitcode=os.EX_OK)
        not_begun = pool.refuse_waiting() + self._refuse_scheduled()
        self._wait(pool, began + self._drain_seconds)
        killed = pool.kill_running()
        if not pool.wait_idle(KILL_SECONDS):
            self._name_standing(pool)
        self._pay(began + self._drain_seconds)
        seconds = round(time.monotonic() - began, 1)
        log.info("drain.ended", reason=self.reason, seconds=seconds, killed=killed, not_begun=not_begun)

    @property
    def _attached(self) -> WorkController:
        if self._worker is None:
            raise RuntimeError("the drain is attached to no worker")
        return self._worker

    def _wait(self, pool: GreenPool, until: float) -> None:
        while not self._is_cut_short.is_set() and (left := until - time.monotonic()) > 0:
            if pool.wait_idle(min(left, LOOK_SECONDS)):
                return

    def _refuse_scheduled(self) -> int:
        """Give back the messages whose time has not come."""
        requests = list(celery_state.scheduled_requests)
        for request in requests:
            if request._eta_timer_entry is not None:
                self._attached.timer.cancel(request._eta_timer_entry)
            request.reject(requeue=True)
        return len(requests)

    def _name_standing(self, pool: GreenPool) -> None:
        for task_id, greenlet in pool.running_greenlets():
            stack = "".join(traceback.format_stack(greenlet.gr_frame)) if greenlet.gr_frame else ""
            log.error("drain.task_stands", task_id=task_id, stack=stack, what_now="its message comes back by recovery")

    def _pay(self, until: float) -> None:
        """Tell Redis the rest. What it does not hear comes back by recovery and runs again, so a renewal, which nobody waits
        for, waits for Redis as long as the drain may take; who is told to end waits for five seconds.
        """
        self._deliveries.give_back_all()
        while True:
            try:
                with gevent.Timeout(BROKER_SECONDS):
                    self._deliveries.pay()
            except (redis.RedisError, gevent.Timeout) as error:
                may_wait = self.reason in RENEWS and not self._is_cut_short.is_set() and time.monotonic() < until
                if not may_wait:
                    log.critical("drain.broker_away", error=type(error).__name__, unsettled=self._deliveries.owed)
                    return
                gevent.sleep(RETRY_SECONDS)
            else:
                return

    def _leave(self) -> None:
        """End although something of the stop still waits, as for a Redis that does not answer: all is settled already."""
        stacks = "\n".join(format_run_info(thread_stacks=False))  # type: ignore[func-returns-value, arg-type]
        log.error("drain.stop_stands", seconds=LEAVE_SECONDS, what_now="the process ends as it is", stacks=stacks)
        self._on_shutdown()
        os._exit(os.EX_OK)

    def _on_shutdown(self, **_: Any) -> None:
        """The last thing that this process does: begin anew under the same pid, so that no container restarts."""
        if self.reason not in RENEWS:
            return
        log.info("worker.renews", reason=self.reason)
        sys.stdout.flush()
        sys.stderr.flush()
        command, environment = [sys.executable, *sys.orig_argv[1:]], settings.renewed_environment(str(self.reason))
        try:
            os.execve(command[0], command, environment)  # noqa: S606 - what this process was started as
        except OSError as error:
            log.critical(
                "worker.renewal_failed", error=error.strerror, what_now="it ends with 0; the container restarts it"
            )

"""Promises: what makes a Celery app keep its performance profile under gevent, and within its time on prefork. One call.

Celery is changed by subclass, setting or blueprint step alone. The three assignments that have no such door say why.
"""

import os
import signal
import threading
import time
from typing import Any, Literal

from celery import Celery, bootsteps, signals
from celery.concurrency.gevent import TaskPool
from celery.worker import WorkController
from celery.worker.components import Pool
from gevent import get_hub, monkey
from kombu.utils import functional as kombu_functional

from celery_utils import PerformanceProfile
from worker_app import logs
from worker_app.store import postgres
from worker_app.worker import checks, transport
from worker_app.worker.deliveries import SILENT_SECONDS, Deliveries
from worker_app.worker.drain import Drain
from worker_app.worker.hub_lag import HubLag
from worker_app.worker.pool import GreenPool
from worker_app.worker.recover import Recover
from worker_app.worker.recycle import CONTAINER_SHARE, Recycle, container_bytes, most_bytes

LogFormat = Literal["json", "text"]
LEAST_AGE_SECONDS = (
    60.0  # of a process that is renewed for its tasks: below it, a flood of tiny ones would renew without end
)


class Promises:
    """What keeps the profile in this process, once `keep` was called."""

    def __init__(
        self, profile: PerformanceProfile, drain_seconds: float, least_age_seconds: float, log_format: LogFormat
    ) -> None:
        self.profile = profile
        self.deliveries = Deliveries()
        self.drain = Drain(self.deliveries, drain_seconds)
        self.drain_seconds = drain_seconds
        self.recycle = Recycle(
            self.drain.begin,
            most_tasks=profile.max_tasks_per_child * profile.slots,
            most_bytes=most_bytes(profile.max_memory_per_child_mb, profile.slots),
            least_age_seconds=least_age_seconds,
        )
        self.hub_lag = HubLag(log_format)
        self.pool: GreenPool | None = None
        self.step = _keeper(self)

    @property
    def free_slots(self) -> int:
        """Slots that a message could have now: the most that autoscale allows, less what runs or waits in the pool."""
        return max(0, self.profile.slots - self.pool.running - self.pool.waiting) if self.pool else self.profile.slots


def keep(
    app: Celery,
    profile: PerformanceProfile,
    *,
    drain_seconds: float = 240.0,
    least_age_seconds: float = LEAST_AGE_SECONDS,
    silent_seconds: float = SILENT_SECONDS,
    log_format: LogFormat = "json",
) -> Promises:
    """Make workers of `app` keep `profile`. Call it where the app is made, before its first connection.

    `drain_seconds` is what running tasks have after SIGTERM; a process younger than `least_age_seconds` is not renewed for
    the number of its tasks; what a process held that has given no sign of life for `silent_seconds` others take;
    `log_format` is that of the one line that is written while the hub stands still. A worker that
    cannot keep the profile ends with 78 before it takes a message, with every reason in its log.
    """
    kept = Promises(profile, drain_seconds, least_age_seconds, log_format)
    kept.deliveries.silent_seconds = silent_seconds
    app.steps["worker"].add(kept.step)
    if profile.pool == "gevent":
        _keep_gevent(app, kept)
    elif profile.pool == "prefork":
        _keep_prefork(app, kept)
    return kept


def _keep_gevent(app: Celery, kept: Promises) -> None:
    if monkey.is_module_patched("time"):
        # gevent reaches celery.local's proxies while it patches locks, which imports kombu before `time` is patched. kombu
        # would then sleep with the real clock while it waits for a broker, and every task, timer and heartbeat with it.
        kombu_functional.sleep = time.sleep  # type: ignore[attr-defined]
    logs.redact_hub(get_hub())
    postgres.install_wait_callback()
    transport.install(kept.deliveries, is_green=True)
    app.conf.worker_autoscaler = "worker_app.worker.autoscaler:Autoscaler"
    app.steps["consumer"].add(Recover)
    signals.worker_init.connect(_use_green_pool, weak=False)


def _use_green_pool(sender: WorkController, **_: Any) -> None:
    """Put our pool in the place of Celery's. The name on the command line stays: by it alone Celery patches."""
    if isinstance(sender.pool_cls, type) and issubclass(sender.pool_cls, TaskPool):
        sender.pool_cls = GreenPool


def _keeper(kept: Promises) -> type[bootsteps.StartStopStep]:
    class Keeper(bootsteps.StartStopStep):
        """Refuses a worker that cannot keep the profile; takes over signals and counting before the consumer starts."""

        requires = (Pool,)

        def create(self, worker: WorkController) -> None:
            if found := checks.faults(worker, kept.profile):
                checks.refuse("\n".join(found), checks.EXIT_CONFIGURATION)

        def start(self, worker: WorkController) -> None:
            if isinstance(worker.pool, GreenPool):
                kept.pool = worker.pool
                kept.pool.most = kept.profile.slots  # what connections are counted for, whatever remote control asks
                kept.drain.attach(worker)
                kept.recycle.start()
                kept.hub_lag.start()

        def stop(self, _: WorkController) -> None:
            if kept.pool is not None:
                kept.drain.complete()
            kept.hub_lag.stop()

    return Keeper


def _keep_prefork(app: Celery, kept: Promises) -> None:
    """End a drain that takes too long by Celery's cold shutdown, which on prefork gives running tasks back."""
    transport.install(kept.deliveries, is_green=False)
    container = container_bytes()
    if kept.profile.max_memory_per_child_mb is None and container is not None:
        each = container * CONTAINER_SHARE / (kept.profile.slots + 1)  # the parent is one more
        app.conf.worker_max_memory_per_child = round(each / 1024)  # Celery counts kibibytes

    def bound(how: str = "", **_: Any) -> None:
        if how == "Warm":
            timer = threading.Timer(kept.drain_seconds, os.kill, (os.getpid(), signal.SIGQUIT))
            timer.daemon = True
            timer.start()

    signals.worker_shutting_down.connect(bound, weak=False)

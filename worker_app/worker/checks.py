"""Checks: what must hold before a worker takes its first message. A worker that breaks a promise does not start."""

from celery import Celery
from celery.worker import WorkController
from gevent import monkey
from kombu.utils import functional as kombu_functional

from celery_utils import VISIBILITY_MARGIN_SECONDS, PerformanceProfile
from worker_app.store import postgres


def faults(worker: WorkController, profile: PerformanceProfile) -> list[str]:
    """Everything that keeps this worker from holding `profile`, each with its remedy; empty when it may start."""
    pool = getattr(worker, "pool_cls", None)
    name = str(getattr(pool, "__module__", pool)).rpartition(".")[2]
    found = []
    if name == "gevent":
        found += _gevent_faults()
    if name != profile.pool:
        found.append(
            f"the worker runs pool {name} and CELERY_POOL is {profile.pool}: the connections are counted for the latter; "
            "start it by `dev-hops worker`, or set CELERY_POOL too"
        )
    running = worker.max_concurrency or worker.concurrency
    if running and int(running) != profile.slots:
        found.append(
            f"the worker has {running} slots and the settings say {profile.slots}: connections are counted for the latter; "
            "start it by `dev-hops worker`, or set CELERY_AUTOSCALE or CELERY_CONCURRENCY too"
        )
    return found + _task_faults(worker.app, profile)


def _task_faults(app: Celery, profile: PerformanceProfile) -> list[str]:
    """Tasks that declare what the profile cannot keep."""
    most = profile.visibility_timeout_seconds - VISIBILITY_MARGIN_SECONDS
    found = [
        f"task {name} has a hard limit of {task.time_limit} s and VISIBILITY_TIMEOUT_SECONDS is "
        f"{profile.visibility_timeout_seconds}: it would run twice; the most is {most}, lower it or raise the timeout"
        for name, task in app.tasks.items()
        if (task.time_limit or 0) > most
    ]
    found += [
        f"task {name} is acknowledged early: a killed worker would lose it; give it acks_late"
        for name, task in app.tasks.items()
        if not name.startswith("celery.") and not task.acks_late
    ]
    return found


def _gevent_faults() -> list[str]:
    found = []
    if not monkey.is_module_patched("socket"):
        found.append(
            "gevent has not patched this process: give the pool on the command line (--pool gevent), not in settings"
        )
    if not postgres.is_hub_safe():
        found.append("psycopg2 has no wait callback: a query would stop every task")
    if kombu_functional.sleep is monkey.get_original("time", "sleep"):  # type: ignore[attr-defined]
        found.append("kombu sleeps with the unpatched clock: a broker outage would stop every task")
    return found

"""Checks: what must hold before a worker takes its first message. A worker that breaks a promise does not start."""

from typing import NoReturn

import celery
import kombu
import structlog
from billiard.common import REMAP_SIGTERM
from celery import Celery
from celery.concurrency.gevent import TaskPool as GeventPool
from celery.worker import WorkController
from gevent import monkey
from kombu.utils import functional as kombu_functional

from celery_utils import VISIBILITY_MARGIN_SECONDS, PerformanceProfile
from worker_app.store import postgres

EXIT_CONFIGURATION = 78  # of sysexits.h: starting again would change nothing
LEAST_VERSION = (5, 7)
LIST_OPTIONS = ("global_keyprefix", "priority_steps", "sep", "queue_order_strategy")  # of the transport

log = structlog.get_logger(__name__)


def faults(worker: WorkController, profile: PerformanceProfile) -> list[str]:
    """Everything that keeps this worker from holding `profile`, each with its remedy; empty when it may start."""
    name = pool_name(worker)
    found = _version_faults()
    if name == "gevent":
        found += _gevent_faults() + _setting_faults(worker.app)
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
    found += _option_faults(worker, profile)
    return found + _transport_faults(worker.app, profile) + _task_faults(worker.app, profile)


def pool_name(worker: WorkController) -> str:
    """The pool of this worker by the name that the command line knows."""
    pool = getattr(worker, "pool_cls", None)
    if isinstance(pool, type) and issubclass(pool, GeventPool):
        return "gevent"
    module = str(getattr(pool, "__module__", pool)).rpartition(".")[2]
    return {"thread": "threads"}.get(module, module)


def _version_faults() -> list[str]:
    return [
        f"{module.__name__} is {module.__version__}: the promises of the profile are held against 5.7 and newer; upgrade it"
        for module in (celery, kombu)
        if tuple(int(part) for part in module.__version__.split(".")[:2]) < LEAST_VERSION
    ]


def _option_faults(worker: WorkController, profile: PerformanceProfile) -> list[str]:
    """Options of Celery's command line that say something else than the profile."""
    found = []
    bounds = tuple(int(bound) for bound in worker.autoscale) if worker.autoscale else None
    if bounds != profile.autoscale:
        found.append(
            f"--autoscale is {bounds} and the settings say {profile.autoscale}: start the worker by `dev-hops worker`, or set "
            "CELERY_AUTOSCALE too"
        )
    for option, name, wanted in (
        ("prefetch_multiplier", "WORKER_PREFETCH_MULTIPLIER", profile.prefetch_multiplier),
        ("max_tasks_per_child", "WORKER_MAX_TASKS_PER_CHILD", profile.max_tasks_per_child),
        ("time_limit", "TASK_TIME_LIMIT_SECONDS", profile.task_time_limit_seconds),
    ):
        given = getattr(worker, option)
        if given is not None and given != wanted:
            found.append(
                f"--{option.replace('_', '-')} is {given:g} and the settings say {wanted}: leave the option out, set {name}"
            )
    is_own = worker.soft_time_limit != worker.app.conf.task_soft_time_limit
    if worker.soft_time_limit and is_own and pool_name(worker) == "gevent":
        found.append(
            f"--soft-time-limit is {worker.soft_time_limit:g}: a soft limit never fires under gevent; leave it out, give the "
            "task a deadline of its own or a hard limit"
        )
    return found


def _transport_faults(app: Celery, profile: PerformanceProfile) -> list[str]:
    options = app.conf.broker_transport_options
    found = []
    if (most := int(options.get("max_connections", 0))) < profile.broker_connections:
        found.append(
            f"broker_transport_options.max_connections is {most}: {profile.slots} slots + "
            f"{profile.broker_connections - profile.slots} spare = {profile.broker_connections} are needed; leave it out"
        )
    found += [
        f"broker_transport_options.{name} is set: it changes the names of the lists, which `redis-cli llen`, the depth of the "
        "queues and the recovery rely on; leave it out"
        for name in LIST_OPTIONS
        if name in options
    ]
    return found


def _setting_faults(app: Celery) -> list[str]:
    """Settings that do under gevent what nobody wants."""
    found = []
    if app.conf.task_soft_time_limit:
        found.append(
            f"task_soft_time_limit is {app.conf.task_soft_time_limit}: a soft limit never fires under gevent; leave it unset, "
            "give the task a deadline of its own or a hard limit"
        )
    found += [
        f"task {name} has a soft limit of {task.soft_time_limit} s: it never fires under gevent; give it a deadline of its own "
        "or a hard limit"
        for name, task in app.tasks.items()
        if task.soft_time_limit and not app.conf.task_soft_time_limit
    ]
    if app.conf.worker_soft_shutdown_timeout:
        found.append(
            f"worker_soft_shutdown_timeout is {app.conf.worker_soft_shutdown_timeout}: under gevent it waits in a signal handler "
            "and does not end; leave it 0, the drain is bounded by WORKER_DRAIN_SECONDS"
        )
    if app.conf.worker_disable_prefetch:
        found.append(
            "worker_disable_prefetch is true: it makes the worker idle for two seconds per full window; leave it false"
        )
    if REMAP_SIGTERM:
        found.append(
            f"REMAP_SIGTERM is {REMAP_SIGTERM}: under gevent Celery's cold shutdown loses what runs; unset it, SIGTERM drains"
        )
    return found


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


def refuse(message: str, code: int) -> NoReturn:
    """End this process with `code` and one log line per reason."""
    for line in message.splitlines():
        log.critical("worker.refused", reason=line, exit_code=code)
    raise SystemExit(code)

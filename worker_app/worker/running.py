"""Running: which tasks run in this process, by queue, and what telemetry counts of them."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import prometheus_client
import structlog
from celery import Task, signals
from celery.worker import state

from worker_app import enqueued, queues, telemetry
from worker_app.worker import message_context

TRIES = 3
OTHER_QUEUE = "other"  # a name that a foreign producer wrote; a label must not grow with them
UNKNOWN_TASK = "unknown"
ENDS: Mapping[str, prometheus_client.Counter] = {
    "SUCCESS": telemetry.TASKS_SUCCEEDED,
    "IGNORED": telemetry.TASKS_SUCCEEDED,
    "RETRY": telemetry.TASKS_RETRIED,
    "REJECTED": telemetry.TASKS_REJECTED,
}
_began: dict[str, float] = {}


def by_queue() -> dict[str, int]:
    """Tasks that this worker runs now, by queue: in this process, or in its children."""
    for _ in range(TRIES):
        with contextlib.suppress(RuntimeError):  # a task began while the set was read; on prefork a thread reads it
            return dict(Counter(str(request.delivery_info["routing_key"]) for request in tuple(state.active_requests)))
    return {}


def connect(clock: Callable[[], float] = time.time) -> None:
    """Count tasks from now on, and bind what a log line of theirs says. `clock` is the one that `enqueued_at` is of."""

    def on_start(task_id: str, task: Task, **_: Any) -> None:
        _on_start(task_id, task, clock)

    signals.task_prerun.connect(on_start, weak=False)
    signals.task_postrun.connect(_on_end, weak=False)
    signals.task_received.connect(_on_received, weak=False)
    signals.task_rejected.connect(_on_rejected, weak=False)
    signals.task_unknown.connect(_on_rejected, weak=False)  # Celery calls a name that is not ours so
    signals.task_revoked.connect(_on_revoked, weak=False)


def _on_start(task_id: str, task: Task, clock: Callable[[], float]) -> None:
    info = task.request.delivery_info or {}
    queue, name = _queue_of(info), _short(task.name)
    _began[task_id] = time.monotonic()
    telemetry.TASKS_STARTED.labels(name, queue).inc()
    telemetry.WORKER_TASKS_ACTIVE.set(len(_began))
    since = None if info.get("redelivered") else _since(task)  # what came back has waited and run already
    if since is not None:
        telemetry.TASK_QUEUE_WAIT.labels(queue).observe(max(0.0, clock() - since))
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**message_context.of(task, str(info.get("routing_key") or UNKNOWN_TASK)))


def _on_end(task_id: str, task: Task, state: str | None = None, **_: Any) -> None:
    queue, name = _queue_of(task.request.delivery_info or {}), _short(task.name)
    telemetry.TASK_RUNTIME.labels(name).observe(time.monotonic() - _began.pop(task_id, time.monotonic()))
    telemetry.WORKER_TASKS_ACTIVE.set(len(_began))
    ENDS.get(state or "", telemetry.TASKS_FAILED).labels(name, queue).inc()
    structlog.contextvars.clear_contextvars()


def _on_received(request: Any, **_: Any) -> None:
    telemetry.TASKS_RECEIVED.labels(_short(request.task.name), _queue_of(request.delivery_info or {})).inc()


def _on_rejected(sender: Any, message: Any, **_: Any) -> None:
    given = (message.headers or {}).get("task")
    name = _short(given) if isinstance(given, str) and given in sender.app.tasks else UNKNOWN_TASK
    telemetry.TASKS_REJECTED.labels(name, _queue_of(message.delivery_info or {})).inc()


def _on_revoked(sender: Task, request: Any, **_: Any) -> None:
    telemetry.TASKS_REVOKED.labels(_short(sender.name), _queue_of(request.delivery_info or {})).inc()


def _since(task: Task) -> float | None:
    """Since when the message might have been taken; None where it does not tell, or in words that nobody reads."""
    headers = {**(task.request.headers or {}), "eta": task.request.eta}
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        return enqueued.since(headers)
    return None


def _queue_of(delivery_info: Mapping[str, Any]) -> str:
    queue = str(delivery_info.get("routing_key"))
    return queue if queue in queues.ALL_QUEUES else OTHER_QUEUE


def _short(name: str) -> str:
    return str(name).rpartition(".")[2]

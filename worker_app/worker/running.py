"""Running: which tasks run in this process, by queue, and what telemetry counts of them."""

import contextlib
import time
from collections import Counter
from typing import Any

import structlog
from celery import Task, signals
from celery.worker import state

from worker_app import telemetry

TRIES = 3
_began: dict[str, float] = {}


def by_queue() -> dict[str, int]:
    """Tasks that this worker runs now, by queue: in this process, or in its children."""
    for _ in range(TRIES):
        with contextlib.suppress(RuntimeError):  # a task began while the set was read; on prefork a thread reads it
            return dict(Counter(str(request.delivery_info["routing_key"]) for request in tuple(state.active_requests)))
    return {}


def connect() -> None:
    """Count tasks from now on, and bind what a log line of theirs says."""
    signals.task_prerun.connect(_on_start, weak=False)
    signals.task_postrun.connect(_on_end, weak=False)


def _queue_of(task: Task) -> str:
    info = task.request.delivery_info or {}
    return str(info.get("routing_key") or "unknown")


def _on_start(task_id: str, task: Task, **_: Any) -> None:
    queue, name = _queue_of(task), task.name.rpartition(".")[2]
    _began[task_id] = time.monotonic()
    telemetry.TASKS_STARTED.labels(name, queue).inc()
    telemetry.WORKER_TASKS_ACTIVE.set(len(_began))
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task=name, task_id=task_id, queue=queue, **(task.request.kwargs or {}))


def _on_end(task_id: str, task: Task, state: str | None = None, **_: Any) -> None:
    queue, name = _queue_of(task), task.name.rpartition(".")[2]
    telemetry.TASK_RUNTIME.labels(name).observe(time.monotonic() - _began.pop(task_id, time.monotonic()))
    telemetry.WORKER_TASKS_ACTIVE.set(len(_began))
    counter = {"SUCCESS": telemetry.TASKS_SUCCEEDED, "RETRY": telemetry.TASKS_RETRIED}.get(
        state or "", telemetry.TASKS_FAILED
    )
    counter.labels(name, queue).inc()
    structlog.contextvars.clear_contextvars()

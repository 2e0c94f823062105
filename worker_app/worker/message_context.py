"""Message context: what a message carries beside its arguments, and what log lines of its task say. Ids and names alone.

The correlation id is that of the run with which something began: its batches, its end and the metrics after it carry the same.
It travels as a header, for who looks at the queue, and as the property of that name, which Celery hands to the task.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import structlog
from celery import Task

from worker_app import enqueued, message_guard
from worker_app.jobs import Message

CORRELATION = "correlation_id"
TRACE = "traceparent"
CARRIED = ("org_id", "provider", "run_id", "batch_id", TRACE)
LONGEST = 200  # characters of a foreign header that a log line takes over


def headers_of(message: Message, task_id: str, moment: float) -> dict[str, Any]:
    """The headers of a message that the outbox owed."""
    return {CORRELATION: task_id, **message.origin, enqueued.HEADER: moment}


def headers_of_now(given: Mapping[str, Any] | None, moment: float) -> dict[str, Any]:
    """The headers of a message that this process sends by itself: a task's own go with what it sends, a retry's with it."""
    bound = structlog.contextvars.get_contextvars()
    carried = {name: bound[name] for name in (CORRELATION, TRACE) if name in bound}
    return {CORRELATION: str(uuid4()), **(given or {}), **carried, enqueued.HEADER: moment}


def of(task: Task, queue: str) -> dict[str, object]:
    """What every log line of a running task says."""
    request = task.request
    headers = {name: str(value)[:LONGEST] for name, value in (request.headers or {}).items() if name in CARRIED}
    is_ours = str(task.name).startswith(message_guard.PREFIX)
    return {
        "task": str(task.name).rpartition(".")[2],
        "task_id": request.id,
        "root_id": request.root_id,
        "queue": queue,
        "attempt": (request.retries or 0) + 1,
        CORRELATION: request.correlation_id or request.id,
        **headers,
        **((request.kwargs or {}) if is_ours else {}),  # ids and numbers, as the guard saw to
    }

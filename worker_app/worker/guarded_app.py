"""The app class of the fleet: every message passes the publish guard and says when and for what it was sent; every event is
redacted.

Celery asks `send_task` for all that it publishes: delay, apply_async, signatures and canvases, retries, beat. A handler of
`before_task_publish` could not stop a message: Celery logs what a handler raises and publishes all the same.
"""

import time
from collections.abc import Callable
from typing import Any

from celery import Celery

from worker_app import message_guard
from worker_app.worker import message_context, redaction

# What `send_task` is told about the way, not about the content.
WAY = frozenset({"producer", "publisher", "connection", "router", "result_cls", "task_type", "queue", "exchange"})


class GuardedApp(Celery):
    """Celery, with a guard where messages leave. `enqueue_clock` is Redis's where the process knows it."""

    events_cls = redaction.EVENTS
    enqueue_clock: Callable[[], float] = staticmethod(time.time)

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Publish a message. Raises UnsafeMessage, before anything is sent, when it may not hold what it holds."""
        carried = {key: value for key, value in options.items() if key not in WAY}
        message_guard.check(name, args, kwargs, carried)
        headers = message_context.headers_of_now(options.get("headers"), self.enqueue_clock())
        correlation = {message_context.CORRELATION: headers[message_context.CORRELATION]}
        return super().send_task(name, args, kwargs, **{**correlation, **options, "headers": headers})

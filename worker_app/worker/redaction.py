"""Redaction at Celery's exits: what goes into the result backend, and what is sent as an event, holds no secret.

Both are read by others: a caller, Flower. A prefork child redacts its fault before it leaves, since its parent, which sends
the event, does not know the Secrets that live in the child.
"""

from collections.abc import Mapping
from typing import Any

from celery import Celery, signals
from celery.app.events import Events as CeleryEvents
from celery.backends.redis import RedisBackend
from celery.events.dispatcher import EventDispatcher

from worker_app import secret

BACKEND = "worker_app.worker.redaction:Results"
EVENTS = "worker_app.worker.redaction:Events"


def install(app: Celery) -> None:
    """Make `app` store its results through `Results`. Call it before the first result; events come by the app's class."""
    app.loader.override_backends = {"redis": BACKEND, "rediss": BACKEND}
    signals.task_failure.connect(_clean_fault, weak=False)
    signals.task_retry.connect(_clean_fault, weak=False)


class Results(RedisBackend):
    """Celery's results in Redis, redacted where they become bytes: values, messages and tracebacks, also those of chords."""

    def encode(self, data: object) -> Any:
        """The bytes that are stored."""
        return super().encode(secret.redacted_tree(data))


class Dispatcher(EventDispatcher):
    """Celery's dispatcher; every text of an event is redacted: exception, traceback, arguments.

    What a task returned is left out. Prefork's child makes a text of it where nothing can redact it, and the parent, which
    sends it, does not know the Secrets of the child; who may see a result reads it from the backend.
    """

    def send(self, type: str, **fields: Any) -> Any:  # noqa: A002 - Celery's name
        """Send an event of this process's own."""
        if type == "task-succeeded" and fields.get("result") != "None":
            fields["result"] = secret.STARS
        return super().send(type, **_clean(fields))

    def publish(self, type: str, fields: Mapping[str, Any], producer: Any, **options: Any) -> Any:  # noqa: A002
        """Send an event through a producer that somebody else holds."""
        return super().publish(type, _clean(fields), producer, **options)


class Events(CeleryEvents):
    """Celery's events by way of our dispatcher."""

    dispatcher_cls = "worker_app.worker.redaction:Dispatcher"


def _clean(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: secret.redacted_tree(value) if isinstance(value, str | list | tuple | dict) else value
        for name, value in fields.items()
    }


def _clean_fault(einfo: Any = None, **_: Any) -> None:
    """Redact the fault of a task in place, once its result is stored: as it is told to the parent, and logged."""
    if einfo is None:
        return
    einfo.traceback = secret.redacted(str(einfo.traceback))
    told = einfo.exception
    if hasattr(told, "exc"):
        told.tb = secret.redacted(str(told.tb))
        told = told.exc
    _clean_exception(told)


def _clean_exception(error: BaseException) -> None:
    error.args = tuple(secret.redacted_tree(item) for item in error.args)
    for name, value in vars(error).items():
        if isinstance(value, BaseException):  # of a Retry
            _clean_exception(value)
        elif isinstance(value, str | list | tuple | dict):
            setattr(error, name, secret.redacted_tree(value))

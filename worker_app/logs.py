"""Logs: one event a line, JSON for machines or text for people, with the context that a task has bound, and no secret.

Every text of an event is redacted after tracebacks were made and before it is rendered, whoever wrote it. What Python itself
writes on standard error goes the same way: a fault that nobody caught, in a thread, in a destructor, in gevent's hub.
"""

import logging
import sys
import threading
import traceback
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any

import structlog

from worker_app import secret


def configure(level: str, form: str) -> None:
    """Send structlog's and the standard library's records to standard error as `json` or `text`, from `level` on."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,  # the other ones show the values of variables
        )
    )
    handler = _Handler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _redact,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("alembic").setLevel("WARNING")
    sys.excepthook = _tell_uncaught
    threading.excepthook = _tell_thread
    sys.unraisablehook = _tell_unraisable


def redact_hub(hub: Any) -> None:
    """Make gevent's hub redact the faults that it writes about greenlets which nobody waits for."""
    hub.exception_stream = _RedactedError()


def _redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {str(name): secret.redacted_tree(value) for name, value in event.items()}


class _Handler(logging.StreamHandler[Any]):
    """Writes to standard error. A record that cannot be written is told without its arguments, which Python would print."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of logging
        _write(f"a log record of {record.name}, {record.pathname}:{record.lineno}, cannot be written\n{_traceback()}")


class _RedactedError:
    """Standard error as it is at the moment, for writers of whole lines."""

    def write(self, text: str) -> int:
        _write(text)
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _traceback() -> str:
    return "".join(traceback.format_exception(*sys.exc_info()))


def _write(text: str) -> None:
    if sys.stderr is not None:  # at the end of a process
        sys.stderr.write(secret.redacted(text))


def _tell_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _write("".join(traceback.format_exception(kind, error, trace)))


def _tell_thread(told: threading.ExceptHookArgs) -> None:
    if told.exc_type is not SystemExit:
        name = told.thread.name if told.thread else "that has ended"
        shown = traceback.format_exception(told.exc_type, told.exc_value, told.exc_traceback)
        _write(f"Exception in thread {name}:\n{''.join(shown)}")


def _tell_unraisable(told: "sys.UnraisableHookArgs") -> None:
    shown = traceback.format_exception(told.exc_type, told.exc_value, told.exc_traceback)
    _write(f"{told.err_msg or 'Exception ignored in'}: {told.object!r}\n{''.join(shown)}")

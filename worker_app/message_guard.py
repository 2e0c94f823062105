"""The publish guard: what a message may hold. Ids and numbers; a message lies in Redis, in events and in Flower for all to read.

Each task of ours declares its arguments here, and nothing undeclared is sent. Whatever else a message carries, and what
foreign tasks carry, is searched for secrets. A refusal names the task and the key, never the value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from worker_app import errors, jobs, secret
from worker_app.secret import Secret

PREFIX = "worker_app.tasks."  # of the names of our tasks


class Kind(StrEnum):
    """What an argument may be, as it stands in JSON."""

    UUID = "uuid"  # a text in the usual form: 8-4-4-4-12 small hexadecimal digits
    INT = "int"
    DATE = "date"  # a text: YYYY-MM-DD


ARGUMENTS: Mapping[str, Mapping[str, Kind]] = {
    "dispatch_scheduled_syncs": {"epoch": Kind.INT},
    "rescue": {"epoch": Kind.INT},
    "prune": {"epoch": Kind.INT},
    "dispatch_sync_run": {"run_id": Kind.UUID},
    "finish_sync_run": {"run_id": Kind.UUID},
    "run_sync_batch": {"batch_id": Kind.UUID},
    "compute_daily_metrics": {"run_id": Kind.UUID},
    "render_report": {"run_id": Kind.UUID},
}


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


_IS_OF: Mapping[Kind, Callable[[object], bool]] = {
    Kind.UUID: lambda value: isinstance(value, str) and str(jobs.uuid_of(value)) == value,
    Kind.INT: lambda value: type(value) is int,
    Kind.DATE: _is_date,
}


def check(task: str, args: object = None, kwargs: object = None, options: Mapping[str, object] | None = None) -> None:
    """Raises UnsafeMessage where a message of `task` must not be sent; `options` is what it carries beside its arguments."""
    if task.startswith(PREFIX):
        _check_declared(task, args, kwargs)
    else:
        _check_text(task, "name", task)
        _check_content(task, "args", args)
        _check_content(task, "kwargs", kwargs)
    for name, value in (options or {}).items():
        _check_content(task, name, value)


def _check_declared(task: str, args: object, kwargs: object) -> None:
    declared = ARGUMENTS.get(task.removeprefix(PREFIX))
    if declared is None:
        raise _unsafe(task, "name", "no such task declares its arguments")
    if args:
        raise _unsafe(task, "args", "its arguments go by name")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise _unsafe(task, "kwargs", "its arguments are a mapping of names")
    for name, value in (kwargs or {}).items():
        kind = declared.get(name)
        if kind is None:
            raise _unsafe(task, f"kwargs.{name}", f"it is not declared; there is {', '.join(declared)}")
        if not _IS_OF[kind](value):
            raise _unsafe(task, f"kwargs.{name}", f"it is declared as {kind}; send ids, and let the task read the rest")


def _check_content(task: str, key: str, content: object) -> None:
    """Search a tree: no Secret and no text that holds one, and every signature in it as if it was sent now."""
    for path, value in _leaves(key, content):
        if isinstance(value, Secret):
            raise _unsafe(task, path, "it is a Secret; send the id of its credential")
        if isinstance(value, Mapping):
            check(str(value["task"]), value.get("args"), value.get("kwargs"))
        elif isinstance(value, bytes | bytearray):
            _check_text(task, path, value.decode(errors="replace"))
        elif not isinstance(value, bool | int | float | None):
            _check_text(task, path, str(value))


def _check_text(task: str, path: str, text: str) -> None:
    if secret.redacted(text) != text:
        raise _unsafe(task, path, "it holds what looks like a secret; send the id of its credential")


def _leaves(key: str, content: object) -> Iterator[tuple[str, object]]:
    """Everything in a tree that holds nothing itself, with its place; also the names in mappings, and each signature."""
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(key, content)]
    while waiting:
        path, value = waiting.pop()
        held = _held(value)
        if held is None:
            yield path, value
        elif id(value) not in seen:  # a tree may be a ring
            seen.add(id(value))
            if isinstance(value, Mapping):
                yield from ((f"{path}.{name}", name) for name in value)
                if isinstance(value.get("task"), str):
                    yield path, value
            waiting += [(f"{path}.{name}", item) for name, item in held]


def _held(value: object) -> list[tuple[object, Any]] | None:
    """What a value holds, with the names; None for one that holds nothing."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, set | frozenset) or (
        isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
    ):
        return list(enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return None


def _unsafe(task: str, key: str, why: str) -> errors.UnsafeMessage:
    named, place = secret.sanitized(task, 200), secret.sanitized(key, 200)  # what stands in a name may be a secret too
    return errors.UnsafeMessage(f"the message of task {named} is not sent: {place}: {why}", task=named, key=place)

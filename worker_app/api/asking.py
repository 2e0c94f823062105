"""Asking: what a request brings, checked against its operation before a view sees it: query, body, idempotency key.

Every fault is a UsageError that names the field, its value and the remedy.
"""

import dataclasses
from typing import Any, TypeVar

from flask import current_app, g, request
from werkzeug.exceptions import RequestEntityTooLarge

from worker_app import errors
from worker_app.api.operation import Access, Operation, Parameter

OPERATIONS = "dev_hops_operations"  # in the extensions of the application: endpoint -> operation
LONGEST_KEY = 255  # characters of an idempotency key
SHOWN = 100  # characters of a value in a message
Body = TypeVar("Body")


def check() -> None:
    """Read the query of a request, before its view does; a probe may send what it likes."""
    operation = current_app.extensions[OPERATIONS].get(request.endpoint)
    if operation is not None and operation.access is not Access.OPEN:
        g.query = _query(operation)


def query() -> dict[str, Any]:
    """The parameters of the query, each by its name; one that was not given has its default."""
    found: dict[str, Any] = g.query
    return found


def _query(operation: Operation) -> dict[str, Any]:
    given, known = request.args.to_dict(flat=False), {item.name: item for item in operation.parameters}
    for name, values in given.items():
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there are none"
            raise errors.UsageError(f"{_cut(name)} is no parameter here: {there}")
        if len(values) > 1:
            raise errors.UsageError(f"{name} is there {len(values)} times: give it once")
    return {name: _value(item, given[name][0]) if name in given else item.default for name, item in known.items()}


def _value(item: Parameter, text: str) -> str | int:
    if item.choices and text not in item.choices:
        raise errors.UsageError(f"{item.name} is {_cut(text)!r}: give {listed(item.choices)}")
    return _whole_number(item, text) if item.kind is int else text


def _whole_number(item: Parameter, text: str) -> int:
    least, most = item.least or 0, item.most or 0
    # isdecimal alone takes the digits of every script; int reads them all, but a query is written in ASCII.
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not (is_number and least <= int(text) <= most):
        raise errors.UsageError(f"{item.name} is {_cut(text)!r}: give a whole number from {least} to {most}")
    return int(text)


def key() -> str | None:
    """The idempotency key; None where none was sent."""
    given = request.headers.get("Idempotency-Key")
    if given is not None and not 1 <= len(given) <= LONGEST_KEY:
        raise errors.UsageError(f"Idempotency-Key has {len(given)} characters: give 1 to {LONGEST_KEY}")
    return given


def body(wanted: type[Body]) -> Body:
    """The JSON object of the body as `wanted`, whose field metadata says what each may hold.

    Raises what becomes 400, 413 and 415.
    """
    if len(request.get_data()) >= (request.max_content_length or 0):
        raise RequestEntityTooLarge  # a body in chunks is cut there without a word
    try:
        given = request.get_json()
    except RecursionError:
        raise errors.UsageError(f"the body is nested too deeply: send {_example(wanted)}") from None
    if not isinstance(given, dict):
        raise errors.UsageError(f"the body is no object: send {_example(wanted)}")
    fields = {item.name: item for item in dataclasses.fields(wanted)}  # type: ignore[arg-type]
    for name in sorted(given.keys() - fields):
        raise errors.UsageError(f"{_cut(name)} is no field here: there are {', '.join(fields)}")
    return wanted(**{name: _field(item, given.get(name)) for name, item in fields.items()})


def _field(item: "dataclasses.Field[Any]", value: Any) -> Any:
    """The value of one field; its default where it may be left out and is null."""
    may = item.metadata
    if value is None and may.get("is_optional"):
        return None
    if "most" in may:
        return _number(item, value)
    if not isinstance(value, str) or len(value) < may.get("shortest", 0) or value not in may.get("choices", (value,)):
        raise errors.UsageError(f"{item.name} is {_cut(value)!r}: {may['remedy']}")
    return value


def _number(item: "dataclasses.Field[Any]", value: Any) -> int:
    # 3.0 is a whole number to JSON, and True is one to Python.
    is_number = not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )
    least, most = item.metadata["least"], item.metadata["most"]
    if not (is_number and least <= value <= most):
        raise errors.UsageError(f"{item.name} is {_cut(value)!r}: give a whole number from {least} to {most}")
    return int(value)


def _example(wanted: type[Any]) -> str:
    named = [item.name for item in dataclasses.fields(wanted) if not item.metadata.get("is_optional")]
    return "{" + ", ".join(f'"{name}": …' for name in named) + "}"


def listed(words: tuple[str, ...]) -> str:
    """`a, b or c`."""
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _cut(value: Any) -> Any:
    """A value short enough for a message."""
    if isinstance(value, str):
        return value if len(value) <= SHOWN else value[:SHOWN] + "…"
    text = repr(value)
    return value if len(text) <= SHOWN else text[:SHOWN] + "…"

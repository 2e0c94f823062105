"""What the page about HTTP says: the operations of worker_app/api/routes.py, their parameters, and the fields of bodies."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from worker_app.api.operation import Access, Operation, Parameter
from worker_app.api.routes import OPERATIONS


def operations(access: str) -> Iterator[tuple[str, ...]]:
    """One row for each operation of this access: request, what it does, parameters, answers."""
    for item in OPERATIONS:
        if item.access is Access[access]:
            path = re.sub("<.*?>", "ID", item.rule)
            yield f"`{item.method} {path}`", _says(item), ", ".join(_parameters(item)) or "–", _answers(item)


def _says(item: Operation) -> str:
    return " ".join([item.says, *(f"{answer.status}: {answer.says}." for answer in item.answers)])


def _parameters(item: Operation) -> Iterator[str]:
    yield from (_parameter(parameter) for parameter in item.parameters)
    if item.body is not None:
        yield f"body [{item.body.__name__}](#{item.body.__name__.lower()})"
    if item.is_keyed:
        yield "`Idempotency-Key`"
    yield from (f"`{name}` of a form" for name in item.form)


def _parameter(item: Parameter) -> str:
    said = f"{item.least} to {item.most}" if item.kind is int else ", ".join(item.choices)
    default = "" if item.default is None else f"({item.default})"
    return " ".join(part for part in (f"`{item.name}`", said, default) if part)


def _answers(item: Operation) -> str:
    found = sorted({*(answer.status for answer in item.answers), *item.problem_statuses})
    return ", ".join(map(str, found))


def parameters() -> Iterator[tuple[str, ...]]:
    """One row for each parameter of a query: name, meaning."""
    known = {item.name: item.says for operation in OPERATIONS for item in operation.parameters}
    yield from ((f"`{name}`", says) for name, says in known.items())


def bodies() -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """For each body its name, and one row for each field: name, whether it may be left out, what it may be, meaning."""
    for item in OPERATIONS:
        if item.body is not None:
            yield item.body.__name__, [_field(field) for field in dataclasses.fields(item.body)]


def _field(field: "dataclasses.Field[Any]") -> tuple[str, ...]:
    is_needed = "no" if field.metadata.get("is_optional") else "yes"
    return f"`{field.name}`", is_needed, _may(field), field.metadata["says"]


def _may(field: "dataclasses.Field[Any]") -> str:
    may = field.metadata
    if "choices" in may:
        return ", ".join(f"`{choice}`" for choice in may["choices"])
    return f"{may['least']} to {may['most']}" if "most" in may else "text"

"""Output: one document as JSON on standard output, or a table for people. Notes and errors go to standard error."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any, TypeVar
from uuid import UUID

import click
from rich.console import Console
from rich.table import Table

Seen = TypeVar("Seen")

WATCH_SECONDS = 1.0  # between two drawings
PIPE_WIDTH = 4096  # columns: no line that somebody cuts and pastes is folded

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


def document(value: Any) -> Any:
    """`value` as what JSON can hold: dataclasses as objects, ids as text, times in UTC with `Z`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: document(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {str(key): document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [document(item) for item in value]
    return value


def emit(value: Any, *, as_json: bool, show: Callable[[Console], None]) -> None:
    """Print `value` as JSON, or let `show` draw it for a person."""
    if as_json:
        click.echo(json.dumps(document(value), indent=2, ensure_ascii=False))
    else:
        show(person())


def watch(
    read: Callable[[], Seen],
    draw: Callable[[Seen, Console], None],
    *,
    is_watched: bool,
    as_json: bool,
    answer: Callable[[Seen], Any] = lambda seen: seen,
) -> None:
    """Draw what `read` gives, once or again every second until Ctrl-C; as JSON print `answer` of it, once all the same."""
    while True:
        seen = read()
        if as_json:
            emit(answer(seen), as_json=True, show=lambda _: None)
            return
        console = person()
        if is_watched:
            console.clear()
        draw(seen, console)
        if not is_watched:
            return
        time.sleep(WATCH_SECONDS)


def person() -> Console:
    """Standard output for a person; where it is no terminal, wide enough that no table is folded."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def table(*columns: str, rows: Sequence[Sequence[object]], empty: str) -> Callable[[Console], None]:
    """Draws rows under `columns`, or the sentence `empty` where there are none."""

    def show(console: Console) -> None:
        if not rows:
            console.print(empty, markup=False)
            return
        drawn = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            drawn.add_column(column, overflow="fold")
        for row in rows:
            drawn.add_row(*(cell(item) for item in row))
        console.print(drawn, markup=False)

    return show


def sentence(text: str) -> Callable[[Console], None]:
    """Draws one sentence."""
    return lambda console: console.print(text, markup=False)


def cell(value: object) -> str:
    """A value as a person reads it in a table."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return ", ".join(cell(item) for item in value) or "-"
    return str(value)


def note(text: str) -> None:
    """Say something beside the answer, on standard error."""
    click.echo(text, err=True)

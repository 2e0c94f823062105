"""Markdown: tables and cells that hold foreign text safely. A name is text: never markup, never HTML, never a second row."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

NO_DATA = "no data"
CELL_LENGTH = 300  # characters of a text that people read in a table; the JSON holds all of it
MARKUP = re.compile(r"([\\`*_{}\[\]|~#])")
HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))  # of an age, in seconds
MARKS = {"up": "↑", "down": "↓", "same": "→"}


def text(value: str) -> str:
    """`value` as plain text on one line, safe between other words and in a table."""
    line = " ".join("".join(char if char.isprintable() else " " for char in value).split())
    cut = line if len(line) <= CELL_LENGTH else line[: CELL_LENGTH - 1] + "…"
    html_free = "".join(HTML.get(char, char) for char in cut)
    return MARKUP.sub(r"\\\1", html_free)


def cell(value: object) -> str:
    """A value as a person reads it in a table; nothing known is "no data", never 0."""
    if value is None:
        return NO_DATA
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    return text(str(value)) or NO_DATA


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str = "") -> str:
    """Rows under `columns`, or the sentence `empty` where there are none. Columns and `empty` are our own words."""
    if not rows:
        return empty
    lines = [list(columns), ["---"] * len(columns), *([cell(item) for item in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def share(value: float | None) -> str:
    """A part of one as a percentage, cut and not rounded: 94.99 % is not the 95 % that something asks for."""
    if value is None:
        return NO_DATA
    tenths = math.floor(round(value * 1000, 6))  # the inner rounding undoes 0.29 * 1000 = 289.99…
    return f"{tenths // 10}%" if tenths % 10 == 0 else f"{tenths / 10:.1f}%"


def age(seconds: float | None) -> str:
    """A span in its two largest units."""
    if seconds is None:
        return NO_DATA
    left, parts = int(seconds), []
    for name, size in UNITS:
        count, left = divmod(left, size)
        parts.append((count, name))
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count} {name}" for count, name in parts[:2] if count) or "0 s"

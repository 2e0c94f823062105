"""What a revision must not do while an older program serves: hold a table for long, or take away what that program uses.

It reads the SQL that Alembic writes for one revision. It knows the statements of our revisions, not all of Postgres.
"""

import io
import re
from collections.abc import Iterator, Set

from alembic import command

from worker_app.migrate.postgres import configuration
from worker_app.migrate.steps import Series

NAME = r"(?:public\.)?(?P<name>\w+)"
CREATED = re.compile(rf"CREATE TABLE (?:IF NOT EXISTS )?{NAME}", re.IGNORECASE)
INDEX = re.compile(
    r"CREATE (?:UNIQUE )?INDEX (?P<concurrently>CONCURRENTLY )?(?:IF NOT EXISTS )?(?P<name>\w+) ON (?:ONLY )?"
    r"(?:public\.)?(?P<table>\w+)",
    re.IGNORECASE,
)
ALTERED = re.compile(r"ALTER TABLE (?:IF EXISTS )?(?:ONLY )?(?:public\.)?(?P<table>\w+) (?P<actions>.*)", re.IGNORECASE)
TAKEN_AWAY = re.compile(
    r"(DROP TABLE|DROP COLUMN|RENAME\b|ALTER TABLE .* DROP (?!CONSTRAINT|COLUMN)\w+)", re.IGNORECASE
)
VOLATILE = re.compile(r"DEFAULT (?!now\(\))\w+\(", re.IGNORECASE)


def written(series: Series, number: int) -> str:
    """The SQL of one revision's upgrade, as Alembic writes it without a database."""
    config = configuration(series)
    config.output_buffer = io.StringIO()
    before = f"{number - 1:04}" if number > 1 else "base"
    command.upgrade(config, f"{before}:{number:04}", sql=True)
    return config.output_buffer.getvalue()


def faults(sql: str, *, has_raised: bool) -> list[str]:
    """What is wrong with a revision, a sentence each; `has_raised` tells that it shuts out older programs."""
    statements = _statements(sql)
    created = {match["name"].lower() for item in statements if (match := CREATED.match(item))}
    found = [
        fault for item in statements for fault in (*_of_index(item, statements, created), *_of_table(item, created))
    ]
    if not has_raised:
        found += [
            f"takes away what older programs use, and COMPATIBLE_FROM is not raised: {item}"
            for item in statements
            if TAKEN_AWAY.search(item)
        ]
    return found


def _statements(sql: str) -> list[str]:
    """One line each, without comments."""
    bare = re.sub(r"--[^\n]*", "", sql)
    return [" ".join(item.split()) for item in bare.split(";") if item.strip()]


def _of_index(statement: str, statements: list[str], created: Set[str]) -> Iterator[str]:
    found = INDEX.match(statement)
    if found is None or found["table"].lower() in created:
        return
    if not found["concurrently"]:
        yield f"keeps writers waiting while it builds; use indexes.build: {statement}"
    elif f"DROP INDEX CONCURRENTLY IF EXISTS {found['name']}" not in statements:
        yield f"cannot be repeated after a build that failed; use indexes.build: {statement}"


def _of_table(statement: str, created: Set[str]) -> Iterator[str]:
    found = ALTERED.match(statement)
    if found is None or found["table"].lower() in created:
        return
    for action in _actions(found["actions"]):
        words = action.upper()
        if words.startswith("ADD COLUMN") and "NOT NULL" in words and "DEFAULT" not in words:
            yield f"fails on a table with rows; give a constant default: {action}"
        if words.startswith("ADD COLUMN") and VOLATILE.search(action):
            yield f"rewrites the table; give a constant default: {action}"
        if re.search(r"\bTYPE\b", words) and words.startswith("ALTER"):
            yield f"rewrites the table under an exclusive lock; add a column and move: {action}"
        if "SET NOT NULL" in words:
            yield f"reads the whole table under an exclusive lock; add a constraint NOT VALID first: {action}"
        if re.match(r"ADD (CONSTRAINT|CHECK|FOREIGN|UNIQUE|PRIMARY)", words) and not re.search(
            "NOT VALID|USING INDEX", words
        ):
            yield f"reads the whole table under a lock; add it NOT VALID, or by an index: {action}"


def _actions(text: str) -> list[str]:
    """The parts of an ALTER TABLE, split at the commas that stand in no bracket."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]

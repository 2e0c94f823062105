"""ClickHouse's engine in this process, one statement at a time: chdb, on a folder that outlives every client.

The engine lives in one thread. Each request gets a session of its own, so that no database, setting or parameter of one is
seen by the next.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chdb.state.sqlitelike import Connection

CODE = re.compile(r"Code: (\d+)\. DB::Exception: ")
UNKNOWN = 1001  # what ClickHouse calls an exception that is none of its own


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement with everything that came beside it."""

    text: str
    database: str = "default"
    settings: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    default_format: str = "TabSeparated"
    is_read_only: bool = False
    rows: bytes | None = None  # of an INSERT, in the format that the text names in place of `{rows}`


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine gave: the bytes of the result, and how many rows went in or were read."""

    body: bytes
    rows: int
    byte_count: int


class Refused(Exception):
    """The engine's own words for what is wrong with a statement."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        found = CODE.search(text)
        self.code = int(found[1]) if found else UNKNOWN


class Engine:
    """Answers statements one after the other, whichever thread asks."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._rows_file = folder / "rows"
        self._data = str(folder / "data")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chdb")
        # The engine ends with its last session: this one keeps it.
        self._keeper = self._thread.submit(Connection, self._data).result()
        self.timezone = self.answer(Asked("SELECT serverTimezone()")).body.decode().strip()

    def answer(self, asked: Asked) -> Answer:
        """Run one statement. Raises Refused."""
        return self._thread.submit(self._answer, asked).result()

    def _answer(self, asked: Asked) -> Answer:
        session = Connection(self._data)
        try:
            for statement in _preparations(asked):
                session.query(statement)
            result: Any = session.query(self._complete(asked), asked.default_format, params=asked.parameters)
            return Answer(result.bytes(), result.rows_read(), result.bytes_read())
        except RuntimeError as error:
            raise Refused(str(error)) from error
        finally:
            session.close()

    def _complete(self, asked: Asked) -> str:
        """The statement as chdb takes it: rows come from a file, since its text cannot hold binary ones."""
        if asked.rows is None:
            return asked.text
        self._rows_file.write_bytes(asked.rows)
        return asked.text.replace("{rows}", f"FROM INFILE {_quoted(str(self._rows_file))}", 1)


def _preparations(asked: Asked) -> list[str]:
    settings = [f"SET {_name(name)} = {_quoted(value)}" for name, value in asked.settings.items()]
    read_only = ["SET readonly = 2"] if asked.is_read_only else []
    # The engine in a process takes an expression for a SELECT; the server does not.
    return [f"USE {_name(asked.database)}", "SET implicit_select = 0", *settings, *read_only]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _name(text: str) -> str:
    return "`" + text.replace("\\", "\\\\").replace("`", "\\`") + "`"

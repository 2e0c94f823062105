"""`dev-hops` within the test's own process: the same door, from the arguments to the exit code, without a start of Python.

For verbs that ask and answer, and for what a role becomes. A terminal and a signal need a process: see `tests.processes`.
"""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from unittest.mock import patch

import structlog

from worker_app import core_dumps, logs
from worker_app.cli import main


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Replaced(BaseException):
    """The command would be another program from here on. No `except` on its way takes it."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        super().__init__()
        self.argv, self.environment = argv, environment


def dev_hops(*words: str, environment: Mapping[str, str]) -> Ended:
    """Run one command with this environment and no other variable; it reads nothing from standard input."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with _inside(words, environment), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main()
        except SystemExit as end:
            code = _number(end)
    return Ended(code, out.getvalue(), err.getvalue())


def replaced(*words: str, environment: Mapping[str, str]) -> Replaced | None:
    """What `dev-hops worker` and its like become; None for a command that ends instead."""
    with patch.object(os, "execve", _replace):
        try:
            dev_hops(*words, environment=environment)
        except Replaced as made:
            return made
    return None


@contextlib.contextmanager
def _inside(words: tuple[str, ...], environment: Mapping[str, str]) -> Iterator[None]:
    with (
        patch.dict(os.environ, environment, clear=True),
        patch.object(sys, "argv", ["dev-hops", *words]),
        patch.object(sys, "stdin", io.StringIO()),
        patch.object(tempfile, "tempdir", None),  # found once a process, and this environment may name another
        patch.object(core_dumps, "forbid"),  # a limit of the whole process, which no test takes back
        patch.object(logs, "configure"),  # likewise
        structlog.testing.capture_logs(),
    ):
        yield


def _number(end: SystemExit) -> int:
    assert end.code is None or isinstance(end.code, int), end.code  # a text would be written, and mean 1
    return end.code or 0


def _replace(_: str, argv: list[str], environment: dict[str, str]) -> None:
    raise Replaced(argv, environment)

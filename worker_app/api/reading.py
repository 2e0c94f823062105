"""Reading for a request: transactions that end in time, on a schema that this program can use, and what the request asks."""

from collections.abc import Iterator
from contextlib import contextmanager

from flask import request

from worker_app import errors
from worker_app.api import deadline
from worker_app.migrate import gate, steps
from worker_app.store.postgres import Postgres, Transaction

REQUEST_SECONDS = 5.0  # a person waits no longer, and a stopping server neither


class Reader:
    """Postgres as requests see it: it answers in time, or the request is a 503."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._is_current = False  # looked at until it was seen once: only the migration job changes it, and forwards

    @contextmanager
    def transaction(self, seconds: float = REQUEST_SECONDS) -> Iterator[Transaction]:
        """A transaction that ends after `seconds`. Raises StoreAway, SchemaBehind, SchemaAhead."""
        with deadline.within(seconds, "Postgres"):
            if not self._is_current:
                gate.require_current(self._postgres, (steps.postgres(),), 0, lambda _: None)
                self._is_current = True
            with self._postgres.transaction() as tx:
                yield tx


def parameters(*names: str) -> dict[str, str]:
    """The query's parameters, those that are given. Raises UsageError for one that is not in `names`."""
    given = request.args.to_dict()
    for name in given:
        if name not in names:
            known = f"there are {', '.join(names)}" if names else "there are none"
            raise errors.UsageError(f"{name} is no parameter here: {known}")
    return given


def whole_number(given: dict[str, str], name: str, default: int, highest: int) -> int:
    """A parameter from 1 to `highest`. Raises UsageError naming it, its value and the remedy."""
    value = given.get(name, str(default))
    # isdecimal alone takes the digits of every script; int reads them all, but a query is written in ASCII.
    if not (value.isascii() and value.isdecimal() and len(value) <= len(str(highest)) and 1 <= int(value) <= highest):
        raise errors.UsageError(f"{name} is {value!r}: give a whole number from 1 to {highest}")
    return int(value)

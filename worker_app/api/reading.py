"""Reading for a request: transactions that end in time, on a schema that this program can use."""

from collections.abc import Iterator
from contextlib import contextmanager

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

"""Blockers: who keeps a migration waiting, seen from a second session while it waits. Never what they say: a query holds data."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from worker_app.store import schema
from worker_app.store.schema import Blocker

LOOK_SECONDS = 0.4  # several looks fit into one lock timeout


@contextmanager
def watch(engine: Engine, pid: int) -> Iterator[list[Blocker]]:
    """A list that holds, from the first wait of session `pid` on, those for whom it waited last."""
    seen: list[Blocker] = []
    over = threading.Event()
    watcher = threading.Thread(target=_look, args=(engine, pid, seen, over), name="blockers", daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def sentence(seen: Sequence[Blocker]) -> str:
    """Who they are, for the log of the job."""
    if not seen:
        return "who held it had let go by then"
    return "blocked by " + ", ".join(
        f"pid {item.pid} ({item.application_name or 'no name'}, {item.state}, transaction open for {item.seconds:.0f} s)"
        for item in seen
    )


def _look(engine: Engine, pid: int, seen: list[Blocker], over: threading.Event) -> None:
    """In autocommit: a snapshot of the watcher's own would keep an index from being built concurrently."""
    with (
        contextlib.suppress(DBAPIError),  # the migration itself will say that Postgres is lost
        engine.connect() as plain,
        plain.execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        while not over.wait(LOOK_SECONDS):
            if found := schema.blockers(connection, pid):
                seen[:] = found

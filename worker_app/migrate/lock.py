"""The mutex of the migration jobs: one Postgres advisory lock for both stores, polled and never waited for.

A job that waited inside `pg_advisory_lock` would hold a snapshot; an index that the holder builds concurrently waits for that
snapshot, and neither ends. Page: https://www.postgresql.org/docs/current/sql-createindex.html#SQL-CREATEINDEX-CONCURRENTLY
"""

import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from worker_app import errors
from worker_app.store import postgres, schema

WAIT_SECONDS = 900.0  # a job that waits longer has a dead peer or an endless migration before it
POLL_SECONDS = 0.5
REPORT_SECONDS = 30.0
LOST = ("08", "57P")  # SQLSTATE: the connection broke, the server stops or starts

T = TypeVar("T")


def run_alone(url: str, report: Callable[[str], None], wait_seconds: float, work: Callable[[Engine], T]) -> T:
    """What `work` returns, which runs while no other job does. It gets an engine whose every connection is a session of its own.

    Raises TransientError when another job holds the lock for `wait_seconds`, StoreAway when Postgres is lost, before or in
    the work; any other fault of a statement comes out as it is. Freed by the end, or by the death of the session.
    """
    engine = postgres.single_connection(url, application_name="dev-hops-migrate")
    deadline = time.monotonic() + wait_seconds
    said_at = float("-inf")
    while True:
        try:
            with schema.migration_lock(engine) as is_ours:
                if is_ours:
                    return work(engine)
        except DBAPIError as error:
            if not is_lost(error):
                raise
            raise errors.StoreAway(f"Postgres does not answer: {first_line(error)}") from error
        now = time.monotonic()
        if now >= deadline:
            raise errors.TransientError(
                f"another migration job has held the lock for {wait_seconds:.0f} s; try again later"
            )
        if now - said_at >= REPORT_SECONDS:
            report("another migration job is running; waiting for it")
            said_at = now
        time.sleep(min(POLL_SECONDS, deadline - now))


def is_lost(error: DBAPIError) -> bool:
    """Whether the connection is what failed, and not the statement."""
    code = getattr(error.orig, "pgcode", None)
    return error.connection_invalidated or code is None or code.startswith(LOST)


def first_line(error: DBAPIError) -> str:
    """The first line of the driver's words: those below quote rows and statements."""
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else type(error).__name__

"""The ledger of schema changes, and the lock that makes the migration job one of a kind. One ledger for both stores."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.engine import Connection, Engine

from worker_app.store.postgres import Transaction

LEDGER = """
CREATE TABLE IF NOT EXISTS schema_ledger (
  store text NOT NULL CHECK (store IN ('postgres', 'clickhouse')), number integer NOT NULL CHECK (number > 0), name text NOT NULL,
  checksum bytea NOT NULL, state text NOT NULL CHECK (state IN ('started', 'finished')),
  compatible_from integer NOT NULL CHECK (compatible_from <= number), app_version text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(), finished_at timestamptz, PRIMARY KEY (store, number),
  CHECK ((state = 'finished') = (finished_at IS NOT NULL)))
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One numbered change of a store's schema, as this program knows it."""

    number: int
    name: str
    checksum: bytes  # SHA-256 of its file
    compatible_from: int  # the oldest program number that may run on it


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a store's schema is, as the ledger says."""

    have: int  # the newest finished number, 0 for none
    in_progress: bool  # a step has started and not finished
    needs: int  # the oldest program number that may use what is newer than :code, 0 where nothing is newer


def read(tx: Transaction, store: str, code: int) -> Ledger:
    """The state of `store` as seen by a program whose newest step is `code`. A missing ledger counts as empty."""
    if tx.execute(text("SELECT to_regclass('schema_ledger')")).scalar_one() is None:
        return Ledger(have=0, in_progress=False, needs=0)
    row = tx.execute(
        text(
            "SELECT coalesce(max(number) FILTER (WHERE state = 'finished'), 0) AS have, "
            "coalesce(bool_or(state = 'started'), false) AS in_progress, "
            "coalesce(max(compatible_from) FILTER (WHERE number > :code), 0) AS needs FROM schema_ledger WHERE store = :store"
        ),
        {"store": store, "code": code},
    ).one()
    return Ledger(have=row.have, in_progress=row.in_progress, needs=row.needs)


def checksums(tx: Transaction, store: str) -> dict[int, bytes]:
    """The checksum of every applied step by number; empty where there is no ledger."""
    if tx.execute(text("SELECT to_regclass('schema_ledger')")).scalar_one() is None:
        return {}
    rows = tx.execute(text("SELECT number, checksum FROM schema_ledger WHERE store = :store"), {"store": store})
    return {row.number: bytes(row.checksum) for row in rows}


@contextmanager
def migration_lock(engine: Engine) -> Iterator[bool]:
    """Try to be the only migration job; yields whether it worked. Freed at the end, or by the death of the session.

    Its own connection in autocommit: a waiter inside a transaction would hold a snapshot for which an index that is built
    concurrently waits for ever.
    """
    with engine.connect() as plain, plain.execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        taken = connection.execute(
            text("SELECT pg_try_advisory_lock(hashtextextended('dev-hops/migrate', 0))")
        ).scalar_one()
        try:
            yield bool(taken)
        finally:
            if taken:
                connection.execute(text("SELECT pg_advisory_unlock(hashtextextended('dev-hops/migrate', 0))"))


def create_ledger(connection: Connection) -> None:
    """Make the ledger where it does not stand yet."""
    connection.execute(text(LEDGER))


def start(connection: Connection, store: str, step: Step, app_version: str) -> None:
    """Write that a step has started; a step that an earlier job left in the middle starts again."""
    connection.execute(
        text(
            "INSERT INTO schema_ledger (store, number, name, checksum, state, compatible_from, app_version) "
            "VALUES (:store, :number, :name, :checksum, 'started', :compatible_from, :app_version) "
            "ON CONFLICT (store, number) DO UPDATE SET state = 'started', started_at = now(), finished_at = NULL, "
            "checksum = excluded.checksum, app_version = excluded.app_version"
        ),
        {
            "store": store,
            "number": step.number,
            "name": step.name,
            "checksum": step.checksum,
            "compatible_from": step.compatible_from,
            "app_version": app_version,
        },
    )


def finish(connection: Connection, store: str, number: int) -> None:
    """Write that a step is done."""
    connection.execute(
        text(
            "UPDATE schema_ledger SET state = 'finished', finished_at = now() WHERE store = :store AND number = :number"
        ),
        {"store": store, "number": number},
    )

"""The ledger of schema changes, and the lock that makes the migration job one of a kind. One ledger for both stores."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ProgrammingError

from worker_app import errors
from worker_app.store.postgres import Transaction

NO_RIGHT = "42501"  # SQLSTATE insufficient_privilege
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


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session for which another one waits."""

    pid: int  # 0: a prepared transaction, which belongs to no session
    application_name: str
    state: str  # as in pg_stat_activity: active, idle in transaction
    seconds: float  # since its transaction began


# The state of each store as seen by a program whose newest step is `code`, in one read of the ledger.
READ = text("""
SELECT known.store, coalesce(max(number) FILTER (WHERE state = 'finished'), 0) AS have,
       coalesce(bool_or(state = 'started'), false) AS in_progress,
       coalesce(max(compatible_from) FILTER (WHERE number > known.code), 0) AS needs
FROM unnest(CAST(:stores AS text[]), CAST(:codes AS integer[])) AS known (store, code)
LEFT JOIN schema_ledger USING (store) GROUP BY known.store
""")

# Whom session `pid` waits for; it takes the lock tables of the server for a moment, so it is asked seldom.
BLOCKERS = text("""
SELECT waited.pid, coalesce(application_name, '') AS application_name, coalesce(state, 'prepared transaction') AS state,
       coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0) AS seconds
FROM unnest(pg_blocking_pids(:pid)) AS waited (pid) LEFT JOIN pg_stat_activity USING (pid) ORDER BY seconds DESC
""")


def read(tx: Transaction, codes: Mapping[str, int]) -> dict[str, Ledger]:
    """The state of each store in `codes`, which holds the newest step of the program that asks. No ledger counts as empty.

    Raises StoreRefused where the user may not read it.
    """
    if not _is_there(tx, "schema_ledger"):
        return {store: Ledger(have=0, in_progress=False, needs=0) for store in codes}
    try:
        rows = tx.execute(READ, {"stores": list(codes), "codes": list(codes.values())}).all()
    except ProgrammingError as error:
        if getattr(error.orig, "pgcode", None) != NO_RIGHT:
            raise
        raise errors.StoreRefused(
            f"Postgres: the user {tx.engine.url.username} of DATABASE_URL may not read schema_ledger; as the owner of the "
            "tables, grant it what docs/howto/run-roles-yourself.md lists under users of the database",
            code=None,
        ) from error
    return {row.store: Ledger(have=row.have, in_progress=row.in_progress, needs=row.needs) for row in rows}


def checksums(tx: Transaction, store: str) -> dict[int, bytes]:
    """The checksum of every finished step by number; empty where there is no ledger."""
    if not _is_there(tx, "schema_ledger"):
        return {}
    rows = tx.execute(
        text("SELECT number, checksum FROM schema_ledger WHERE store = :store AND state = 'finished'"), {"store": store}
    )
    return {row.number: bytes(row.checksum) for row in rows}


def is_started(tx: Transaction, store: str, number: int) -> bool:
    """Whether a job is in this step, or was killed in it."""
    found = tx.execute(
        text("SELECT 1 FROM schema_ledger WHERE store = :store AND number = :number AND state = 'started'"),
        {"store": store, "number": number},
    )
    return found.one_or_none() is not None


def alembic_number(tx: Transaction) -> int:
    """The revision that Alembic's own table names; 0 where it names none."""
    if not _is_there(tx, "alembic_version"):
        return 0
    return int(tx.execute(text("SELECT max(version_num) FROM alembic_version")).scalar_one() or 0)


def invalid_indexes(tx: Transaction) -> list[str]:
    """Indexes of this schema whose concurrent build did not end."""
    rows = tx.execute(
        text(
            "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
            "WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace ORDER BY relname"
        )
    )
    return list(rows.scalars())


def blockers(connection: Connection, pid: int) -> list[Blocker]:
    """The sessions for which session `pid` waits now, the oldest transaction first; none when it waits for nobody."""
    rows = connection.execute(BLOCKERS, {"pid": pid})
    return [Blocker(row.pid, row.application_name, row.state, float(row.seconds)) for row in rows]


def _is_there(tx: Transaction, table: str) -> bool:
    return tx.execute(text("SELECT to_regclass(:name)"), {"name": table}).scalar_one() is not None


@contextmanager
def migration_lock(engine: Engine) -> Iterator[bool]:
    """Try to be the only migration job; yields whether it worked. Freed at the end, or by the death of the session.

    Its own connection in autocommit: a waiter inside a transaction would hold a snapshot for which an index that is built
    concurrently waits for ever.
    """
    with engine.connect() as plain, plain.execution_options(isolation_level="AUTOCOMMIT") as connection:
        # A server that ends idle sessions would end the lock with this one. Versions before 14 have no such setting.
        connection.execute(
            text(
                "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', 'idle_session_timeout')"
            )
        )
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

"""Postgres: applies the pending revisions one at a time, each in a transaction of its own, and writes the ledger around it.

A revision that waits for a table gives up after two seconds and is tried again: whoever comes after a waiting migration waits
behind it, readers too. `started` is committed before a revision and `finished` after it, so a job that was killed is simply
run again.
"""

import random
import time
from collections.abc import Callable
from importlib import metadata, resources

from alembic import command
from alembic.config import Config
from sqlalchemy import text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from worker_app import errors
from worker_app.migrate import blockers, lock, steps
from worker_app.migrate.steps import Series
from worker_app.store import postgres, schema
from worker_app.store.schema import Step
from worker_app.sync import engine as cron_engine

LOCK_TIMEOUT = "2s"  # readers of a table never wait longer than this for a migration
LOCK_TRIES = 10
STATEMENT_TIMEOUT = "15min"
MOST_PAUSE_SECONDS = 8.0

# Without it the statement of a killed job runs to its end and keeps its locks. Some servers have no such setting.
NOTICE_DEATH = text("""
DO $$ BEGIN
  PERFORM set_config('client_connection_check_interval', '1s', false);
EXCEPTION WHEN undefined_object OR invalid_parameter_value THEN
  NULL;
END $$
""")


def migrate_postgres(
    url: str, report: Callable[[str], None], wait_seconds: float = lock.WAIT_SECONDS, series: Series | None = None
) -> int:
    """Bring Postgres to the end of `series`, this program's unless given; returns how many revisions were applied.

    Raises TransientError (exit 75) when another job holds the lock for too long or a table stays locked, StoreAway (75),
    MigrationFailed (exit 1), SettingsError (exit 78) when an applied revision's file was edited or the schema is newer.
    """
    wanted = series or steps.postgres()
    return lock.run_alone(url, report, wait_seconds, lambda engine: _upgrade(engine, wanted, report))


def configuration(series: Series) -> Config:
    """Alembic's, for the revisions of `series`."""
    config = Config()
    config.set_main_option("script_location", str(resources.files("worker_app.migrations") / "postgres"))
    config.set_main_option("version_locations", str(series.folder))
    config.set_main_option("path_separator", "newline")
    return config


def _upgrade(engine: Engine, series: Series, report: Callable[[str], None]) -> int:
    with engine.begin() as connection:
        schema.create_ledger(connection)
        applied = schema.checksums(connection, series.store)
        steps.refuse_foreign(series, schema.read(connection, {series.store: series.newest})[series.store], applied)
    pending = [step for step in series.steps if step.number not in applied]
    for step in pending:
        report(f"applying {step.name}")
        with engine.begin() as connection:
            schema.start(connection, series.store, step, metadata.version("dev-hops"))
        _apply(engine, series, step, report)
        with engine.begin() as connection:
            _refuse_invalid_indexes(connection, step)
            schema.finish(connection, series.store, step.number)
    _recompute_slots(engine, report)
    return len(pending)


def _apply(engine: Engine, series: Series, step: Step, report: Callable[[str], None]) -> None:
    """One revision; where a table stays locked it is tried again, so that readers never wait long."""
    for attempt in range(1, LOCK_TRIES + 1):
        with engine.connect() as connection, blockers.watch(engine, _session(connection)) as seen:
            try:
                _run(connection, series, step)
            except DBAPIError as error:
                _judge(error, step)
            else:
                return
        report(f"{step.name}: a table is locked, try {attempt} of {LOCK_TRIES}; {blockers.sentence(seen)}")
        if attempt < LOCK_TRIES:
            time.sleep(_pause_seconds(attempt))
    raise errors.TransientError(f"{step.name}: a table stayed locked in {LOCK_TRIES} tries; try again later")


def _session(connection: Connection) -> int:
    """The process id of a session that gives up on locks soon. Committed: Alembic begins its transactions itself."""
    connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
    connection.execute(text(f"SET statement_timeout = '{STATEMENT_TIMEOUT}'"))
    connection.execute(NOTICE_DEATH)
    number: int = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    connection.commit()
    return number


def _run(connection: Connection, series: Series, step: Step) -> None:
    config = configuration(series)
    config.attributes["connection"] = connection
    command.upgrade(config, f"{step.number:04}")


def _judge(error: DBAPIError, step: Step) -> None:
    """Return where another try may help. Raises the error itself where Postgres is lost, MigrationFailed for all others."""
    code = getattr(error.orig, "pgcode", None)
    if code in (postgres.LOCK_TIMEOUT, postgres.DEADLOCK):
        return
    if lock.is_lost(error):
        raise error
    raise errors.MigrationFailed(
        f"revision {step.name} failed: {lock.first_line(error)} (SQLSTATE {code}); its open transaction was rolled back. "
        "Mend the cause and run `dev-hops migrate postgres` again"
    ) from error


def _pause_seconds(attempt: int) -> float:
    most: float = min(MOST_PAUSE_SECONDS, 0.5 * 2.0**attempt)
    return most * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret


def _refuse_invalid_indexes(connection: Connection, step: Step) -> None:
    """An index that was built concurrently and failed stays, costs every writer and serves no reader."""
    if names := schema.invalid_indexes(connection):
        raise errors.MigrationFailed(
            f"revision {step.name} left an invalid index: {', '.join(names)}; drop it and run `dev-hops migrate postgres` again"
        )


def _recompute_slots(engine: Engine, report: Callable[[str], None]) -> None:
    """Next slots by this program's cron engine, where an older one had computed them; short steps, safe to repeat."""
    total = 0
    while True:
        with engine.begin() as connection:
            now = connection.execute(text("SELECT now()")).scalar_one()
            found = cron_engine.recompute(connection, now)
        if not found:
            break
        total += found
    if total:
        report(f"computed the next slots of {total} schedules anew: the cron library or the time zones are newer")

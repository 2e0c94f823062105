"""Gate 3: the one job that changes a schema, and the check that keeps every other process off an old one.

The job takes a polled advisory lock, so that several jobs at once apply each revision once; it upgrades one revision at a
time, each in its own transaction with a short lock timeout, and writes started and finished into a ledger. A job that was
killed is simply run again.
"""

import hashlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from worker_app import errors
from worker_app.store import postgres, schema
from worker_app.store.schema import Ledger, Step
from worker_app.sync import engine as cron_engine

LOCK_WAIT_SECONDS = 900.0  # a job that waits longer has a dead peer or an endless migration before it
LOCK_POLL_SECONDS = 0.5
LOCK_TIMEOUT = "2s"  # readers of a table never wait longer than this for a migration
LOCK_TRIES = 10
# revision -> the oldest program number that may run on it; a contracting revision raises it
COMPATIBLE_FROM = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1}


@dataclass(frozen=True, slots=True)
class Status:
    """A store's schema beside what this program needs."""

    store: str
    have: int
    want: int
    in_progress: bool
    state: str  # current, behind, ahead, unusable

    @property
    def message(self) -> str:
        """One sentence with both numbers and the remedy."""
        if self.state == "current":
            return f"{self.store}: schema {self.have} is current"
        if self.state == "ahead":
            return f"{self.store}: schema {self.have} is newer than this program ({self.want}), and compatible"
        if self.state == "unusable":
            return f"{self.store}: schema {self.have} is newer than this program ({self.want}) can use; deploy the newer one"
        busy = " and a migration is running" if self.in_progress else ""
        return f"{self.store}: schema {self.have} is behind {self.want}{busy}; run `dev-hops migrate {self.store}`"


def steps() -> list[Step]:
    """The Postgres revisions that this program brings, in order."""
    found = []
    for script in reversed(list(_scripts().walk_revisions())):
        number = int(script.revision)
        content = Path(script.path).read_bytes()
        compatible_from = COMPATIBLE_FROM.get(number, number)
        found.append(Step(number, Path(script.path).stem, hashlib.sha256(content).digest(), compatible_from))
    return found


def status(store: postgres.Postgres) -> Status:
    """How the schema of Postgres stands. Raises StoreAway when it does not answer."""
    want = steps()[-1].number
    with store.transaction() as tx:
        ledger = schema.read(tx, "postgres", want)
    return Status("postgres", ledger.have, want, ledger.in_progress, _state(ledger, want))


def _state(ledger: Ledger, want: int) -> str:
    if ledger.in_progress or ledger.have < want:
        return "behind"
    if ledger.have == want:
        return "current"
    return "ahead" if ledger.needs <= want else "unusable"


def require_current(
    store: postgres.Postgres,
    wait_seconds: float,
    report: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once the schema can be used; look again until `wait_seconds` are over.

    Raises SchemaBehind (exit 75) with both numbers and the remedy, SchemaAhead (exit 78) when waiting cannot help.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        seen = status(store)
        if seen.state in ("current", "ahead"):
            if seen.state == "ahead":
                report(seen.message)
            return
        if seen.state == "unusable":
            raise errors.SchemaAhead(seen.message)
        if time.monotonic() >= deadline:
            raise errors.SchemaBehind(seen.message)
        report(seen.message)
        sleep(min(2.0, max(0.1, deadline - time.monotonic())))


def migrate_postgres(url: str, report: Callable[[str], None], wait_seconds: float = LOCK_WAIT_SECONDS) -> int:
    """Bring Postgres to this program's schema; returns how many revisions were applied, 0 when it was current.

    Raises TransientError (exit 75) when another job holds the lock for too long or a table stays locked, SettingsError
    (exit 78) when an applied revision's file was edited or the schema is newer than this program.
    """
    engine = postgres.single_connection(url, application_name="dev-hops-migrate")
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            with schema.migration_lock(engine) as is_ours:
                if is_ours:
                    return _upgrade(engine, report)
        except OperationalError as error:
            raise errors.StoreAway(f"Postgres does not answer: {str(error.orig).strip().splitlines()[0]}") from error
        if time.monotonic() >= deadline:
            raise errors.TransientError(
                f"another migration job has held the lock for {wait_seconds:.0f} s; try again later"
            )
        report("another migration job is running; waiting for it")
        time.sleep(LOCK_POLL_SECONDS)


def _upgrade(engine: Engine, report: Callable[[str], None]) -> int:
    wanted = steps()
    with engine.begin() as connection:
        schema.create_ledger(connection)
        applied = schema.checksums(connection, "postgres")
        ledger = schema.read(connection, "postgres", wanted[-1].number)
    if edited := [step.name for step in wanted if ledger.have >= step.number and applied[step.number] != step.checksum]:
        raise errors.SettingsError(f"the file of an applied revision was edited: {', '.join(edited)}; restore it")
    if ledger.have > wanted[-1].number:
        raise errors.SettingsError(
            f"schema {ledger.have} is newer than this program ({wanted[-1].number}); deploy the newer one"
        )
    pending = [step for step in wanted if step.number > ledger.have]
    for step in pending:
        report(f"applying {step.name}")
        with engine.begin() as connection:
            schema.start(connection, "postgres", step, metadata.version("dev-hops"))
        _apply(engine, step, report)
        with engine.begin() as connection:
            schema.finish(connection, "postgres", step.number)
    _recompute_slots(engine, report)
    return len(pending)


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


def _apply(engine: Engine, step: Step, report: Callable[[str], None]) -> None:
    """One revision in its own transaction; a table that stays locked is tried again, so that readers never wait long."""
    for attempt in range(1, LOCK_TRIES + 1):
        try:
            with engine.begin() as connection:
                connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
                connection.execute(text("SET statement_timeout = '15min'"))
                config = _config()
                config.attributes["connection"] = connection
                command.upgrade(config, f"{step.number:04}")
        except OperationalError as error:
            if getattr(error.orig, "pgcode", None) != postgres.LOCK_TIMEOUT or attempt == LOCK_TRIES:
                raise
            report(f"{step.name}: a table is locked, try {attempt} of {LOCK_TRIES}")
            time.sleep(min(8.0, 0.5 * 2**attempt) * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret
        else:
            return


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("worker_app.migrations") / "postgres"))
    config.set_main_option("path_separator", "os")
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())

"""ClickHouse: applies the pending steps one at a time, and writes both ledgers around each.

ClickHouse has no transaction for DDL. So a step is one statement that may be repeated, `started` is committed to the ledger in
Postgres before it, and afterwards ClickHouse's own table and then the ledger say that it is done. A job that was killed anywhere
between is simply run again: it repeats that one step. A step that ClickHouse itself does not know is applied again, whatever the
ledger says: it was emptied, or restored from an older copy.
"""

from collections.abc import Callable, Mapping
from importlib import metadata

from sqlalchemy.engine import Engine

from worker_app import errors
from worker_app.migrate import lock, steps
from worker_app.migrate.status import Witness
from worker_app.migrate.steps import Series
from worker_app.store import clickhouse, clickhouse_schema, schema
from worker_app.store.clickhouse import ClickHouse
from worker_app.store.postgres import Transaction
from worker_app.store.schema import Step

STATEMENT_SECONDS = 300  # an ALTER waits for what runs on the table
LOOK_SECONDS = 3  # a witness is heard inside a transaction, which Postgres ends when nothing comes for 10 s
STORE = "clickhouse"


def migrate_clickhouse(
    database_url: str,
    url: str,
    report: Callable[[str], None],
    wait_seconds: float = lock.WAIT_SECONDS,
    series: Series | None = None,
) -> int:
    """Bring the ClickHouse at `url` to the end of `series`, this program's unless given; returns how many steps were applied.

    `database_url` is the Postgres of the lock and the ledger. Raises TransientError when another job holds the lock for too
    long and StoreAway when either store is lost (both exit 75), MigrationFailed (exit 1) with step and code, SettingsError
    (exit 78) when an applied step's file was edited or either ledger is newer than this program.
    """
    wanted = series or steps.clickhouse()
    client = clickhouse.connect(url, call_seconds=STATEMENT_SECONDS)
    try:
        return lock.run_alone(
            database_url, report, wait_seconds, lambda engine: _upgrade(engine, client, wanted, report)
        )
    finally:
        client.close()


def agrees(url: str) -> Witness:
    """The witness of the ClickHouse at `url`: what its own table says otherwise than the ledger."""

    def said(tx: Transaction, applied: Mapping[int, bytes]) -> str:
        client = clickhouse.connect(url, call_seconds=LOOK_SECONDS)
        try:
            present = clickhouse_schema.checksums(client)
        finally:
            client.close()
        started = {number for number in present if schema.is_started(tx, STORE, number)}
        return _disagreement(applied, {number: present[number] for number in present.keys() - started})

    return said


def _disagreement(applied: Mapping[int, bytes], present: Mapping[int, bytes]) -> str:
    if missing := sorted(applied.keys() - present.keys()):
        return (
            f"ClickHouse lacks step {_numbers(missing)}, which the ledger calls finished: it was emptied or restored; run "
            "`dev-hops migrate clickhouse`, then `dev-hops metrics recompute`"
        )
    if foreign := sorted(present.keys() - applied.keys()):
        return (
            f"ClickHouse has step {_numbers(foreign)}, of which the ledger knows nothing: Postgres was restored, or it is "
            "another one; run `dev-hops migrate clickhouse`"
        )
    if other := sorted(number for number in applied if applied[number] != present[number]):
        return f"ClickHouse had step {_numbers(other)} from another file than the ledger says; name the right database"
    return ""


def _numbers(numbers: list[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def _upgrade(engine: Engine, client: ClickHouse, series: Series, report: Callable[[str], None]) -> int:
    with engine.begin() as connection:
        schema.create_ledger(connection)
        applied = schema.checksums(connection, STORE)
        steps.refuse_foreign(series, schema.read(connection, {STORE: series.newest})[STORE], applied)
    client.create_database()
    clickhouse_schema.create(client)
    present = clickhouse_schema.checksums(client)
    _refuse_foreign(series, present)
    if lost := sorted(applied.keys() - present.keys()):
        report(f"ClickHouse lacks step {_numbers(lost)}, which the ledger calls finished; applying again")
    pending = [step for step in series.steps if step.number not in applied or step.number not in present]
    for step in pending:
        report(f"applying {step.name}")
        with engine.begin() as connection:
            schema.start(connection, STORE, step, metadata.version("dev-hops"))
        _apply(client, series, step)
        clickhouse_schema.stamp(client, step)
        with engine.begin() as connection:
            schema.finish(connection, STORE, step.number)
    return len(pending)


def _refuse_foreign(series: Series, present: Mapping[int, bytes]) -> None:
    if names := steps.edited(series, present):
        raise errors.SettingsError(f"ClickHouse has another {', '.join(names)}: the file was edited since; restore it")
    if (newest := max(present, default=0)) > series.newest:
        raise errors.SettingsError(
            f"ClickHouse has step {newest}, newer than this program ({series.newest}); deploy the newer one"
        )


def _apply(client: ClickHouse, series: Series, step: Step) -> None:
    try:
        client.command((series.folder / f"{step.name}.sql").read_text(encoding="utf-8"))
    except errors.StoreRefused as error:
        raise errors.MigrationFailed(
            f"step {step.name} failed: {error}. Mend the cause and run `dev-hops migrate clickhouse` again"
        ) from error

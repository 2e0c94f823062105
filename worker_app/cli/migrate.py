"""Migrate: the one-shot job that changes a schema, and the look at what it did."""

from dataclasses import asdict

import click

from worker_app import settings
from worker_app.cli import context, exits, output
from worker_app.migrate import clickhouse, postgres
from worker_app.migrate.examination import examine
from worker_app.migrate.status import Status

EXIT_CODES = {
    "current": 0,
    "ahead": 0,
    "behind": exits.EXIT_LATER,
    "disagrees": exits.EXIT_FAILED,
    "unusable": exits.EXIT_CONFIGURATION,
}


@click.group("migrate")
def migrate_group() -> None:
    """Change the schema. This one-shot job alone does; every role waits for it and refuses an old one."""


@migrate_group.command("postgres")
@output.json_option
def migrate_postgres(as_json: bool) -> None:
    """Bring Postgres to this program's schema. Safe to run again and several times at once."""
    applied = postgres.migrate_postgres(settings.load().require_database(), output.note)
    text = f"postgres: {applied} revisions applied" if applied else "postgres: nothing to do"
    output.emit({"store": "postgres", "applied": applied}, as_json=as_json, show=output.sentence(text))


@migrate_group.command("clickhouse")
@output.json_option
def migrate_clickhouse(as_json: bool) -> None:
    """Bring ClickHouse to this program's schema; without CLICKHOUSE_URL there is nothing to do."""
    chosen = settings.load()
    if chosen.clickhouse_url is None:
        applied, text = 0, "clickhouse: CLICKHOUSE_URL is not set, nothing to do"
    else:
        url = chosen.clickhouse_url.get_secret_value()
        applied = clickhouse.migrate_clickhouse(chosen.require_database(), url, output.note)
        text = f"clickhouse: {applied} steps applied" if applied else "clickhouse: nothing to do"
    output.emit({"store": "clickhouse", "applied": applied}, as_json=as_json, show=output.sentence(text))


@migrate_group.command("status")
@click.option(
    "--check",
    is_flag=True,
    help="Exit 0 when current, 75 when behind, 1 when ledgers disagree, 78 when too new for this program.",
)
@output.json_option
def migrate_status(check: bool, as_json: bool) -> None:
    """Show the schema of each store beside what this program needs. Read only."""
    with context.opened() as runtime:
        seen = examine(runtime.postgres, runtime.settings)
    text = "\n".join(item.message for item in seen)
    output.emit([asdict(item) for item in seen], as_json=as_json, show=output.sentence(text))
    if check:
        raise SystemExit(_exit_code(seen))


def _exit_code(seen: tuple[Status, ...]) -> int:
    """The worst of all: what a person has to mend before what time mends."""
    codes = {EXIT_CODES[item.state] for item in seen}
    worst_first = (exits.EXIT_FAILED, exits.EXIT_CONFIGURATION, exits.EXIT_LATER)
    return next((code for code in worst_first if code in codes), 0)


COMMANDS = (migrate_group,)

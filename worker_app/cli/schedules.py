"""Schedules: standing orders to sync a source or to compute metrics."""

import click
from rich.console import Console

from worker_app.cli import context, output
from worker_app.cli.directory import org_option
from worker_app.store import schedules, sources
from worker_app.store.schedules import Schedule
from worker_app.sync import orders


@click.group("schedules")
def schedules_group() -> None:
    """Schedules: when a source is synced, by a cron line and a time zone."""


@schedules_group.command("add")
@click.argument("source")
@org_option
@click.option(
    "--cron",
    "cron_line",
    required=True,
    help="Five fields, a macro (@daily), or H for a spread minute: 'H/15 * * * *'.",
)
@click.option("--tz", help="IANA time zone of the cron line; the organisation's unless named.")
@click.option("--overlap", type=click.Choice(["skip", "buffer_one", "allow"]), default="skip", show_default=True,
              help="What a slot does while the run before it is active.")  # fmt: skip
@click.option("--catchup", type=click.Choice(["none", "latest", "all"]), default="latest", show_default=True,
              help="Which of the slots missed in an outage still run.")  # fmt: skip
@click.option(
    "--jitter", default=0, type=click.IntRange(0, 86_400), help="Most seconds by which a run may start later."
)
@output.json_option
def add_schedule(
    source: str,
    org_name: str | None,
    cron_line: str,
    tz: str | None,
    overlap: str,
    catchup: str,
    jitter: int,
    as_json: bool,
) -> None:
    """Sync SOURCE (name or id) whenever the cron line says."""
    with context.opened() as runtime:
        with runtime.postgres.transaction() as tx:
            found = sources.source(tx, source, sources.org(tx, org_name).id if org_name else None)
        added = orders.add_sync(
            runtime.postgres,
            found,
            cron_line=cron_line,
            tz=tz or orders.zone_of(runtime.postgres, found.org_id),
            least_seconds=runtime.settings.schedule_min_interval_seconds,
            overlap=overlap,
            catchup=catchup,
            max_jitter_seconds=jitter,
        )
    text = f"schedule {added.id} added; its first slot is {output.cell(added.next_run_at)}"
    output.emit(added, as_json=as_json, show=output.sentence(text))


@schedules_group.command("list")
@org_option
@output.json_option
def list_schedules(org_name: str | None, as_json: bool) -> None:
    """List the schedules, the next one first."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        org_id = sources.org(tx, org_name).id if org_name else None
        found = schedules.schedules(tx, org_id)
    rows = [
        (
            str(item.id)[:8],
            item.kind,
            item.sources or item.org,
            item.cron_source,
            item.tz,
            item.enabled,
            item.next_run_at,
            item.fault,
        )
        for item in found
    ]
    columns = ("SCHEDULE", "KIND", "SOURCE", "CRON", "TIME ZONE", "ENABLED", "NEXT", "FAULT")
    empty = "no schedule yet; add one with `dev-hops schedules add SOURCE --cron '*/15 * * * *'`"
    output.emit(found, as_json=as_json, show=output.table(*columns, rows=rows, empty=empty))


@schedules_group.command("show")
@click.argument("schedule")
@output.json_option
def show_schedule(schedule: str, as_json: bool) -> None:
    """Show one SCHEDULE (its id, the beginning of it, or its source)."""
    with context.opened() as runtime:
        found = orders.find(runtime.postgres, schedule)
    output.emit(found, as_json=as_json, show=lambda console: _show(console, found))


@schedules_group.command("pause")
@click.argument("schedule")
@output.json_option
def pause_schedule(schedule: str, as_json: bool) -> None:
    """Serve no slot of SCHEDULE until it is resumed; an active run goes on."""
    with context.opened() as runtime:
        found = orders.pause(runtime.postgres, orders.find(runtime.postgres, schedule))
    output.emit(found, as_json=as_json, show=output.sentence(f"schedule {found.id} is paused"))


@schedules_group.command("resume")
@click.argument("schedule")
@output.json_option
def resume_schedule(schedule: str, as_json: bool) -> None:
    """Let SCHEDULE go on with its next slot; clears a quarantine."""
    with context.opened() as runtime:
        found = orders.resume(runtime.postgres, orders.find(runtime.postgres, schedule))
    text = f"schedule {found.id} goes on; its next slot is {output.cell(found.next_run_at)}"
    output.emit(found, as_json=as_json, show=output.sentence(text))


@schedules_group.command("remove")
@click.argument("schedule")
@output.json_option
def remove_schedule(schedule: str, as_json: bool) -> None:
    """Forget SCHEDULE; its runs stay."""
    with context.opened() as runtime:
        found = orders.find(runtime.postgres, schedule)
        orders.remove(runtime.postgres, found)
    output.emit(found, as_json=as_json, show=output.sentence(f"schedule {found.id} removed"))


@schedules_group.command("next")
@click.argument("schedule")
@click.option("--count", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many slots.")
@output.json_option
def next_slots(schedule: str, count: int, as_json: bool) -> None:
    """Show the next slots of SCHEDULE, in UTC and on its own clock."""
    with context.opened() as runtime:
        found = orders.find(runtime.postgres, schedule)
        slots = orders.next_slots(found, runtime.postgres.now(), count)
    rows = [(slot.utc, f"{slot.local} {found.tz}") for slot in slots]
    output.emit(slots, as_json=as_json, show=output.table("UTC", "LOCAL", rows=rows, empty="no slot"))


def _show(console: Console, schedule: Schedule) -> None:
    for name, value in output.document(schedule).items():
        console.print(f"{name:>20}  {output.cell(value)}", markup=False)


COMMANDS = (schedules_group,)

"""Schedules: standing orders to sync sources, to compute metrics or to render a report."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import click
from rich.console import Console

from worker_app import errors, jobs
from worker_app.cli import context, output
from worker_app.cli.directory import org_option
from worker_app.runtime import Runtime
from worker_app.store import schedules, sources
from worker_app.store.schedules import Schedule
from worker_app.sync import edits, orders
from worker_app.sync.edits import Changes
from worker_app.sync.orders import Outlook, Policies

KINDS = ("sync", "metrics", "report")
PERIOD_DAYS = 7
WINDOW = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[dhm])")
UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
OVERLAPS = {
    "skip": "a slot that meets an active run is written down as skipped",
    "buffer_one": "a slot that meets an active run waits for its end; a newer one takes its place",
    "allow": "runs may overlap",
    "cancel_other": "a slot that meets an active run asks it to end, and waits for that",
}


@click.group("schedules")
def schedules_group() -> None:
    """Schedules: when sources are synced, metrics computed or a report rendered, by a cron line and a time zone."""


def _policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options for slots that meet an active run, were missed, or share a minute."""
    for option in (
        click.option("--jitter", default=0, show_default=True, type=int,
                     help=f"Most seconds by which a run may start later; {orders.JITTER_MOST_SECONDS} at most."),
        click.option("--catchup-window", help="How far back missed slots are looked for: 10m to 7d, 7d unless named."),
        click.option("--catchup-max", type=int, help="Most runs of one catch-up, 1 to 100; for --catchup all. [default: 24]"),
        click.option("--catchup", type=click.Choice(orders.CATCHUPS), default="latest", show_default=True,
                     help="Which of the slots missed in an outage still run."),
        click.option("--overlap", type=click.Choice(orders.OVERLAPS), default="skip", show_default=True,
                     help="What a slot does while the run before it is active."),
    ):  # fmt: skip
        command = option(command)
    return command


@schedules_group.command("add")
@click.argument("source", required=False)
@org_option
@click.option("--kind", type=click.Choice(KINDS), default="sync", show_default=True, help="What the schedule starts.")
@click.option("--provider", help="Sync every source of this provider, in place of SOURCE.")
@click.option("--template", help=f"What a report is made by, for --kind report: {', '.join(jobs.REPORT_TEMPLATES)}.")
@click.option("--period-days", type=int, help=f"How many days a report is about. [default: {PERIOD_DAYS}]")
@click.option(
    "--cron",
    "cron_line",
    required=True,
    help="Five fields, a macro (@daily), or H for a spread minute: 'H/15 * * * *'.",
)
@click.option("--tz", help="IANA time zone of the cron line; the organisation's unless named.")
@_policy_options
@output.json_option
def add_schedule(as_json: bool, **given: Any) -> None:
    """Sync SOURCE (name or id) whenever the cron line says; or, by --kind, compute metrics or render a report."""
    _refuse_contradictions(given)
    policies = _policies(given)
    with context.opened() as runtime:
        added = _add(runtime, given, policies)
    text = f"schedule {added.id} added: {_subject(added)}; its first slot is {output.cell(added.next_run_at)}"
    output.emit(added, as_json=as_json, show=output.sentence(text))


def _refuse_contradictions(given: Mapping[str, Any]) -> None:
    """Raise UsageError for options that say nothing together; what each may hold is checked where it is written."""
    kind, source, provider = given["kind"], given["source"], given["provider"]
    if kind == "sync" and source is None and provider is None:
        raise errors.UsageError("SOURCE is missing: name a source, or give --provider for every source of a provider")
    if source is not None and provider is not None:
        raise errors.UsageError(f"--provider is {provider!r} beside SOURCE {source!r}: leave one of them out")
    for name, value in (("SOURCE", source), ("--provider", provider)):
        if kind != "sync" and value is not None:
            raise errors.UsageError(
                f"{name} is {value!r} and --kind is {kind}, of a whole organisation: give --org instead"
            )
    for name, value in (("--template", given["template"]), ("--period-days", given["period_days"])):
        if kind != "report" and value is not None:
            raise errors.UsageError(f"{name} is {value!r} and --kind is {kind}: leave it out, or let --kind be report")
    if kind == "report" and given["template"] is None:
        raise errors.UsageError(f"--template is missing for --kind report: give {' or '.join(jobs.REPORT_TEMPLATES)}")
    if given["catchup_max"] is not None and given["catchup"] != "all":
        raise errors.UsageError(
            f"--catchup-max is {given['catchup_max']} and --catchup is {given['catchup']}, which mints one run at most: "
            "leave it out, or give --catchup all --overlap allow"
        )


def _policies(given: Mapping[str, Any]) -> Policies:
    default, window = orders.DEFAULT, given["catchup_window"]
    return Policies(
        overlap=given["overlap"],
        catchup=given["catchup"],
        catchup_max=default.catchup_max if given["catchup_max"] is None else given["catchup_max"],
        catchup_window=default.catchup_window if window is None else _window(window),
        max_jitter_seconds=given["jitter"],
    )


def _window(text: str) -> timedelta:
    match = WINDOW.fullmatch(text)
    if match is None:
        raise errors.UsageError(f"--catchup-window is {text!r}: give a number and d, h or m, like 7d, 36h or 90m")
    return int(match["count"]) * UNITS[match["unit"]]


def _add(runtime: Runtime, given: Mapping[str, Any], policies: Policies) -> Schedule:
    source = None
    with runtime.postgres.transaction() as tx:
        org = sources.org(tx, given["org_name"]) if given["org_name"] or given["source"] is None else None
        if given["source"] is not None:
            source = sources.source(tx, given["source"], org.id if org else None)
        org = org or sources.org(tx, source.org_id if source else None)
    when: dict[str, Any] = {
        "cron_line": given["cron_line"],
        "tz": given["tz"] or org.tz,
        "least_seconds": runtime.settings.schedule_min_interval_seconds,
        "policies": policies,
    }
    if source is not None:
        return orders.add_sync(runtime.postgres, source, **when)
    if given["kind"] == "sync":
        added = orders.add_provider_sync(runtime.postgres, org, given["provider"], **when)
        with runtime.postgres.transaction() as tx:
            if not sources.sources(tx, org.id, given["provider"]):
                output.note(f"{org.name} has no source of {added.provider} yet: the schedule serves those that you add")
        return added
    if given["kind"] == "metrics":
        return orders.add_metrics(runtime.postgres, org, **when)
    period_days = PERIOD_DAYS if given["period_days"] is None else given["period_days"]
    return orders.add_report(runtime.postgres, org, given["template"], period_days=period_days, **when)


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
            _subject(item),
            item.cron_source,
            item.tz,
            item.enabled,
            item.next_run_at,
            item.fault,
        )
        for item in found
    ]
    columns = ("SCHEDULE", "KIND", "OF", "CRON", "TIME ZONE", "ENABLED", "NEXT", "FAULT")
    empty = "no schedule yet; add one with `dev-hops schedules add SOURCE --cron '*/15 * * * *'`"
    output.emit(found, as_json=as_json, show=output.table(*columns, rows=rows, empty=empty))


@schedules_group.command("show")
@click.argument("schedule")
@output.json_option
def show_schedule(schedule: str, as_json: bool) -> None:
    """Show one SCHEDULE (its id, the beginning of it, or its source): its rules, its next slots, the next clock changes."""
    with context.opened() as runtime:
        found, now = orders.find(runtime.postgres, schedule), runtime.postgres.now()
    outlook = orders.outlook(found, now)
    value = {**output.document(found), "next": outlook.next, "clock_changes": outlook.clock_changes}
    output.emit(value, as_json=as_json, show=lambda console: _show(console, found, outlook, now))


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
    """Let SCHEDULE go on with its next slot; one that was set aside is tried again by the next tick."""
    with context.opened() as runtime:
        found = orders.resume(runtime.postgres, orders.find(runtime.postgres, schedule))
    text = f"schedule {found.id} goes on; its next slot is {output.cell(found.next_run_at)}"
    output.emit(found, as_json=as_json, show=output.sentence(text))


@schedules_group.command("edit")
@click.argument("schedule")
@click.option("--cron", "cron_line", help="Another line; the schedule goes on with its next slot from now.")
@click.option("--tz", help="Another IANA time zone for its line.")
@click.option(
    "--overlap", type=click.Choice(orders.OVERLAPS), help="What a slot does while the run before it is active."
)
@click.option("--catchup", type=click.Choice(orders.CATCHUPS), help="Which of the slots missed in an outage still run.")
@click.option("--catchup-max", type=int, help="Most runs of one catch-up, 1 to 100; for --catchup all.")
@click.option("--catchup-window", help="How far back missed slots are looked for: 10m to 7d.")
@click.option("--jitter", "max_jitter_seconds", type=int, help="Most seconds by which a run may start later.")
@output.json_option
def edit_schedule(schedule: str, as_json: bool, catchup_window: str | None, **given: Any) -> None:
    """Change what is named of SCHEDULE; the rest, its runs and its ledger stay. One that was set aside is tried again."""
    changes = Changes(catchup_window=None if catchup_window is None else _window(catchup_window), **given)
    if changes == Changes():
        raise errors.UsageError("nothing is named to be changed: give --cron, --tz, --overlap, --catchup or --jitter")
    with context.opened() as runtime:
        least_seconds = runtime.settings.schedule_min_interval_seconds
        found = orders.find(runtime.postgres, schedule)
        edited = edits.edit(runtime.postgres, found, changes, least_seconds=least_seconds)
    coming = f"its next slot is {output.cell(edited.next_run_at)}" if edited.enabled else "it is paused"
    output.emit(edited, as_json=as_json, show=output.sentence(f"schedule {edited.id} is changed; {coming}"))


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


def _subject(item: Schedule) -> str:
    """What a schedule is of."""
    if item.kind == "report":
        days = "" if item.period_days is None else f", {item.period_days} days"
        return f"{item.template or 'report without a template'} of {item.org}{days}"
    if item.kind == "metrics":
        return item.org
    if item.source_ids:
        return ", ".join(item.sources) or "a source that is gone"
    return f"every {item.provider} source of {item.org}"


def _show(console: Console, item: Schedule, outlook: Outlook, now: datetime) -> None:
    rows = [
        ("schedule", str(item.id)),
        (item.kind, _subject(item)),
        ("state", _state(item, now)),
        ("line", _line(item)),
    ]
    rows += [("next", f"{output.cell(slot.utc)}  {slot.local} {item.tz}") for slot in outlook.next]
    rows += [("next", "none while it is paused")] if not item.enabled else []
    rows += [("next", f"none: {outlook.problem}")] if outlook.problem else []
    rows += [
        ("clock change", f"{output.cell(change.at)}  {change.offset_before} to {change.offset_after}: {change.effect}")
        for change in outlook.clock_changes
    ]
    rows += [
        ("overlap", f"{item.overlap}: {OVERLAPS[item.overlap]}"),
        ("catch-up", f"{item.catchup}: {_catchup(item)}"),
    ]
    rows += [("jitter", f"a run begins up to {item.max_jitter_seconds} s later, the same for the same slot")
             if item.max_jitter_seconds else ("jitter", "none")]  # fmt: skip
    rows += (
        [("waiting", f"slot {output.cell(item.buffered_slot)}, for the active run to end")]
        if item.buffered_slot
        else []
    )
    before = ""
    for name, text in rows:
        console.print(f"{name if name != before else '':>12}  {text}", markup=False)
        before = name


def _state(item: Schedule, now: datetime) -> str:
    if not item.enabled:
        return f"paused; `dev-hops schedules resume {str(item.id)[:8]}` lets it go on"
    if item.fault is not None:
        until = item.quarantined_until
        tried = (
            f"tried again at {output.cell(until)}"
            if until is not None and until > now
            else "tried again by the next tick"
        )
        return (
            f"set aside after {item.fault_count} fault{'s' * (item.fault_count != 1)} in a row, {tried}: {item.fault}; "
            f"`dev-hops schedules edit {str(item.id)[:8]}` changes line and zone; what else was mended is tried by "
            f"`dev-hops schedules resume {str(item.id)[:8]}`"
        )
    if item.next_run_at is not None and item.next_run_at <= now:
        return f"due since {output.cell(item.next_run_at)}"
    return "active"


def _line(item: Schedule) -> str:
    drawn = f", which is {item.cron} here" if item.cron != item.cron_source else ""
    return f"{item.cron_source}{drawn}, in {item.tz}"


def _catchup(item: Schedule) -> str:
    window = f"none older than {_span(item.catchup_window_seconds)}"
    if item.catchup == "all":
        return f"the newest {item.catchup_max} missed slots run, each for itself; {window}"
    if item.catchup == "latest":
        return f"the newest missed slot runs, the others are counted; {window}"
    return "a missed slot runs only if it is younger than ten minutes"


def _span(seconds: int) -> str:
    """A window as it is typed."""
    for unit, length in UNITS.items():
        count, rest = divmod(timedelta(seconds=seconds), length)
        if not rest:
            return f"{count}{unit}"
    return f"{seconds} s"


COMMANDS = (schedules_group,)

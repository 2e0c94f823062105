"""Edits: a schedule gets another line, zone or rules and stays the same one, with its ledger, its runs and its place."""

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from worker_app import errors
from worker_app.store import schedules
from worker_app.store.postgres import Postgres
from worker_app.store.schedules import Schedule
from worker_app.sync import cron, cron_lines, orders
from worker_app.sync.orders import Policies


@dataclass(frozen=True, slots=True)
class Changes:
    """What of a schedule is to be another; None stays as it is."""

    cron_line: str | None = None
    tz: str | None = None
    overlap: str | None = None
    catchup: str | None = None
    catchup_max: int | None = None
    catchup_window: timedelta | None = None
    max_jitter_seconds: int | None = None


def edit(postgres: Postgres, schedule: Schedule, changes: Changes, *, least_seconds: int) -> Schedule:
    """Change a schedule, all of it or nothing. Raises UsageError as adding one does.

    One whose line and zone stay keeps its place, so no due slot is lost; with another line or zone it goes on with the next
    slot from now. A paused one stays paused, a quarantine ends. What it is now is read under the lock.
    """
    now = postgres.now()
    with postgres.transaction() as tx:
        current = schedules.lock(tx, schedule.id)
        rules = _rules(current, changes)
        edited = _at_its_times(current, changes, now, least_seconds)
        schedules.rewrite(
            tx,
            replace(
                edited,
                overlap=rules.overlap,
                catchup=rules.catchup,
                catchup_max=rules.catchup_max,
                catchup_window_seconds=int(rules.catchup_window.total_seconds()),
                max_jitter_seconds=rules.max_jitter_seconds,
            ),
            cron_engine=None if edited is current else cron.ENGINE,
        )
        (written,) = schedules.schedules(tx, job_id=current.id)
    return written


def _at_its_times(current: Schedule, changes: Changes, now: datetime, least_seconds: int) -> Schedule:
    """The schedule with its line and zone; itself where they are named as they are."""
    tz = changes.tz or current.tz
    line = current.cron_source if changes.cron_line is None else " ".join(changes.cron_line.split())
    plain = current.cron if changes.cron_line is None else cron_lines.expand(line, current.id)
    if (line, plain, tz) == (current.cron_source, current.cron, current.tz):
        return current
    cron.check_zone(tz)
    next_at = cron_lines.check_distance(plain, tz, now, least_seconds, line)
    return replace(current, cron_source=line, cron=plain, tz=tz, next_run_at=next_at if current.enabled else None)


def _rules(current: Schedule, changes: Changes) -> Policies:
    """The rules as they are to be. Raises UsageError where they say nothing together."""
    before = Policies(
        overlap=current.overlap,
        catchup=current.catchup,
        catchup_max=current.catchup_max,
        catchup_window=timedelta(seconds=current.catchup_window_seconds),
        max_jitter_seconds=current.max_jitter_seconds,
    )
    named = {item.name: getattr(changes, item.name) for item in fields(Policies)}
    rules = replace(before, **{name: value for name, value in named.items() if value is not None})
    orders.check_policies(rules)
    if changes.catchup_max is not None and rules.catchup != "all":
        raise errors.UsageError(
            f"catchup-max is {changes.catchup_max} and catchup is {rules.catchup}, which mints one run at most: leave it out, "
            "or let catchup be all and overlap be allow"
        )
    return rules

"""Orders: what people ask of schedules, checked before it is written. Command line and API both come here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from worker_app import errors, jobs
from worker_app.providers import registry
from worker_app.records import Source
from worker_app.store import schedules, sources
from worker_app.store.postgres import Postgres
from worker_app.store.schedules import NewSchedule, Schedule
from worker_app.store.sources import Org
from worker_app.sync import cron, cron_lines
from worker_app.sync.cron import ClockChange

OVERLAPS = ("skip", "buffer_one", "allow", "cancel_other")
CATCHUPS = ("none", "latest", "all")
CATCHUP_MOST = 100  # runs that one outage may mint for a schedule
WINDOW_LEAST, WINDOW_MOST = timedelta(minutes=10), timedelta(days=7)  # the tick looks no further back
JITTER_MOST_SECONDS = 86_400
PERIOD_MOST_DAYS = 366  # a year; each day is a row that people read
UNSET = datetime.max.replace(tzinfo=UTC)  # until the line has been checked


@dataclass(frozen=True, slots=True)
class Policies:
    """What becomes of slots that meet an active run, were missed, or share a minute with many."""

    overlap: str = "skip"
    catchup: str = "latest"
    catchup_max: int = 24  # runs
    catchup_window: timedelta = WINDOW_MOST
    max_jitter_seconds: int = 0


DEFAULT = Policies()


@dataclass(frozen=True, slots=True)
class NextSlot:
    """One slot to come, by both clocks."""

    utc: datetime
    local: str  # ISO 8601 with the zone's offset


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to come of a schedule; a paused one and one that cannot be read have neither slots nor changes."""

    next: tuple[NextSlot, ...] = ()
    clock_changes: tuple[ClockChange, ...] = ()
    problem: str | None = None  # why its line or its zone cannot be read


def add_sync(
    postgres: Postgres,
    source: Source,
    *,
    cron_line: str,
    tz: str,
    least_seconds: int,
    policies: Policies = DEFAULT,
    job_id: UUID | None = None,
) -> Schedule:
    """A standing order to sync one source. Raises UsageError naming the field, its value and the remedy.

    The same `job_id` and the same order twice are one schedule; Conflict where it names another. So for every kind.
    """
    of, ids = source.provider, (source.id,)
    wanted = _new(source.org_id, "sync", cron_line, tz, policies, provider=of, source_ids=ids, job_id=job_id)
    return _add(postgres, wanted, least_seconds)


def add_provider_sync(
    postgres: Postgres,
    org: Org,
    provider: str,
    *,
    cron_line: str,
    tz: str,
    least_seconds: int,
    policies: Policies = DEFAULT,
    job_id: UUID | None = None,
) -> Schedule:
    """A standing order to sync whatever sources of a provider the organisation has at each slot. Raises UsageError."""
    registry.provider(provider)
    return _add(
        postgres, _new(org.id, "sync", cron_line, tz, policies, provider=provider, job_id=job_id), least_seconds
    )


def add_metrics(
    postgres: Postgres,
    org: Org,
    *,
    cron_line: str,
    tz: str,
    least_seconds: int,
    policies: Policies = DEFAULT,
    job_id: UUID | None = None,
) -> Schedule:
    """A standing order to compute the organisation's metrics. Raises UsageError."""
    return _add(postgres, _new(org.id, "metrics", cron_line, tz, policies, job_id=job_id), least_seconds)


def add_report(
    postgres: Postgres,
    org: Org,
    template: str,
    *,
    period_days: int = 7,
    cron_line: str,
    tz: str,
    least_seconds: int,
    policies: Policies = DEFAULT,
    job_id: UUID | None = None,
) -> Schedule:
    """A standing order to render a report about the `period_days` days before each slot. Raises UsageError."""
    _one_of("template", template, jobs.REPORT_TEMPLATES)
    _within("period-days", period_days, 1, PERIOD_MOST_DAYS)
    params = {"template": template, "period_days": period_days}
    return _add(postgres, _new(org.id, "report", cron_line, tz, policies, params=params, job_id=job_id), least_seconds)


def _new(
    org_id: UUID,
    kind: str,
    cron_line: str,
    tz: str,
    policies: Policies,
    *,
    provider: str | None = None,
    source_ids: tuple[UUID, ...] = (),
    params: Mapping[str, Any] | None = None,
    job_id: UUID | None = None,
) -> NewSchedule:
    return NewSchedule(
        id=job_id or uuid4(),
        org_id=org_id,
        kind=kind,
        provider=provider,
        source_ids=source_ids,
        params=params or {},
        cron_source=" ".join(cron_line.split()),
        cron="",
        tz=tz,
        next_run_at=UNSET,
        cron_engine=cron.ENGINE,
        overlap=policies.overlap,
        catchup=policies.catchup,
        catchup_max=policies.catchup_max,
        catchup_window=policies.catchup_window,
        max_jitter_seconds=policies.max_jitter_seconds,
    )


def _add(postgres: Postgres, wanted: NewSchedule, least_seconds: int) -> Schedule:
    cron.check_zone(wanted.tz)
    check_policies(wanted)
    plain = cron_lines.expand(wanted.cron_source, wanted.id)
    first = cron_lines.check_distance(plain, wanted.tz, postgres.now(), least_seconds, wanted.cron_source)
    with postgres.transaction() as tx:
        schedules.add(tx, replace(wanted, cron=plain, next_run_at=first))
        (added,) = schedules.schedules(tx, job_id=wanted.id)
    if not _is_same(added, wanted):
        raise errors.Conflict(f"schedule {added.id} has this id and is another one; give another idempotency key")
    return added


def _is_same(added: Schedule, wanted: NewSchedule) -> bool:
    """Whether a schedule is what was ordered; its id may have been given before."""
    same = ("org_id", "kind", "provider", "source_ids", "cron_source", "tz", "overlap", "catchup", "max_jitter_seconds")
    return all(getattr(added, name) == getattr(wanted, name) for name in same)


def check_policies(wanted: NewSchedule | Policies) -> None:
    """Raises UsageError for rules that are out of bounds or say nothing together, naming the rule, its value and the remedy."""
    _one_of("overlap", wanted.overlap, OVERLAPS)
    _one_of("catchup", wanted.catchup, CATCHUPS)
    _within("catchup-max", wanted.catchup_max, 1, CATCHUP_MOST)
    _within("jitter", wanted.max_jitter_seconds, 0, JITTER_MOST_SECONDS)
    if not WINDOW_LEAST <= wanted.catchup_window <= WINDOW_MOST:
        raise errors.UsageError(
            f"catchup-window is {wanted.catchup_window.total_seconds():.0f} s: give 10m to 7d; the tick looks no further back"
        )
    if wanted.catchup == "all" and wanted.overlap != "allow":
        raise errors.UsageError(
            f"catchup is all and overlap is {wanted.overlap}: catch-up mints several runs at once, so let overlap be allow, "
            "or catchup be latest"
        )


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise errors.UsageError(
            f"{name} is {value!r}: give {' or '.join(filter(None, (', '.join(known[:-1]), known[-1])))}"
        )


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise errors.UsageError(f"{name} is {value}: give {least} to {most}")


def find(postgres: Postgres, schedule: str) -> Schedule:
    """The schedule with this id, this beginning of an id, or the only one of a source. Raises UsageError."""
    with postgres.transaction() as tx:
        every = schedules.schedules(tx)
    exact = [
        item for item in every if (schedule and str(item.id).startswith(schedule.lower())) or _is_of(item, schedule)
    ]
    if len(exact) == 1:
        return exact[0]
    what = "there is no schedule" if not exact else f"{len(exact)} schedules fit"
    raise errors.UsageError(f"{what} {schedule!r}; `dev-hops schedules list` shows those there are")


def _is_of(item: Schedule, source: str) -> bool:
    """Whether the schedule syncs the source with this name, or with this end of a name."""
    end = "/" + source.strip("/")
    return end != "/" and any(name == source or name.removesuffix(".git").endswith(end) for name in item.sources)


def pause(postgres: Postgres, schedule: Schedule) -> Schedule:
    """Serve no slot until it is resumed. Raises UsageError when it is gone."""
    with postgres.transaction() as tx:
        if schedules.lock(tx, schedule.id).enabled:
            schedules.set_enabled(tx, schedule.id, next_run_at=None)
        (paused,) = schedules.schedules(tx, job_id=schedule.id)
    return paused


def resume(postgres: Postgres, schedule: Schedule) -> Schedule:
    """Let a paused schedule go on with its next slot from now; what was missed stays missed. Raises UsageError.

    One that is not paused keeps its place, so no due slot is lost; a quarantine of it ends, and the next tick tries again.
    Line and zone are read under the lock: an edit at the same moment is either seen or comes after.
    """
    now = postgres.now()
    with postgres.transaction() as tx:
        current = schedules.lock(tx, schedule.id)
        cron.check_zone(current.tz)
        next_at = cron.next_after(current.cron, current.tz, now)
        if not current.enabled:
            schedules.set_enabled(tx, current.id, next_run_at=next_at)
        elif current.fault is not None:
            schedules.forgive(tx, current.id)
        (resumed,) = schedules.schedules(tx, job_id=current.id)
    return resumed


def remove(postgres: Postgres, schedule: Schedule) -> None:
    """Forget the schedule; its runs stay. Raises UsageError when it is gone already."""
    with postgres.transaction() as tx:
        schedules.lock(tx, schedule.id)
        schedules.remove(tx, schedule.id)


def next_slots(schedule: Schedule, now: datetime, count: int) -> list[NextSlot]:
    """The next `count` slots after `now`, in UTC and on the schedule's own clock. Raises UsageError."""
    zone = ZoneInfo(cron.check_zone(schedule.tz))
    found = islice(cron.slots(schedule.cron, schedule.tz, now), count)
    return [NextSlot(utc=slot, local=slot.astimezone(zone).isoformat(timespec="minutes")) for slot in found]


def outlook(schedule: Schedule, now: datetime, count: int = 3) -> Outlook:
    """The next `count` slots of a schedule and what the next changes of its clock do to it."""
    if not schedule.enabled:
        return Outlook()
    try:
        found = next_slots(schedule, now, count)
        return Outlook(tuple(found), tuple(cron.clock_changes(schedule.cron, schedule.tz, now)))
    except errors.UsageError as error:
        return Outlook(problem=str(error))


def zone_of(postgres: Postgres, org_id: UUID) -> str:
    """The zone of an organisation: the default of its schedules."""
    with postgres.transaction() as tx:
        return sources.org(tx, org_id).tz

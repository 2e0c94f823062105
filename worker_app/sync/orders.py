"""Orders: what people ask of schedules, checked before it is written. Command line and API both come here."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from worker_app import errors
from worker_app.records import Source
from worker_app.store import schedules, sources
from worker_app.store.postgres import Postgres
from worker_app.store.schedules import NewSchedule, Schedule
from worker_app.sync import cron

UNSET = datetime.max.replace(tzinfo=UTC)  # until the line has been checked


@dataclass(frozen=True, slots=True)
class NextSlot:
    """One slot to come, by both clocks."""

    utc: datetime
    local: str  # ISO 8601 with the zone's offset


def add_sync(
    postgres: Postgres,
    source: Source,
    *,
    cron_line: str,
    tz: str,
    least_seconds: int,
    overlap: str = "skip",
    catchup: str = "latest",
    max_jitter_seconds: int = 0,
) -> Schedule:
    """A standing order to sync one source. Raises UsageError naming the line or zone and the remedy."""
    return _add(
        postgres,
        NewSchedule(
            id=uuid4(),
            org_id=source.org_id,
            kind="sync",
            provider=source.provider,
            source_ids=(source.id,),
            cron_source=cron_line,
            cron="",
            tz=tz,
            next_run_at=UNSET,
            overlap=overlap,
            catchup=catchup,
            max_jitter_seconds=max_jitter_seconds,
        ),
        least_seconds,
    )


def _add(postgres: Postgres, wanted: NewSchedule, least_seconds: int) -> Schedule:
    cron.check_zone(wanted.tz)
    if wanted.catchup == "all" and wanted.overlap != "allow":
        raise errors.UsageError("catch-up is all: it mints several runs at once, so overlap must be allow")
    plain = cron.expand(wanted.cron_source, wanted.id)
    first = cron.check_distance(plain, wanted.tz, postgres.now(), least_seconds)
    with postgres.transaction() as tx:
        schedules.add(tx, replace(wanted, cron=plain, next_run_at=first))
    return find(postgres, str(wanted.id))


def find(postgres: Postgres, schedule: str) -> Schedule:
    """The schedule with this id, this beginning of an id, or the only one of a source. Raises UsageError."""
    with postgres.transaction() as tx:
        every = schedules.schedules(tx)
        exact = [item for item in every if str(item.id).startswith(schedule.lower()) or _is_of(item, schedule)]
    if len(exact) == 1:
        return exact[0]
    what = "there is no schedule" if not exact else f"{len(exact)} schedules fit"
    raise errors.UsageError(f"{what} {schedule!r}; `dev-hops schedules list` shows those there are")


def _is_of(item: Schedule, source: str) -> bool:
    """Whether the schedule syncs the source with this name, or with this end of a name."""
    return any(name == source or name.removesuffix(".git").endswith("/" + source.strip("/")) for name in item.sources)


def pause(postgres: Postgres, schedule: Schedule) -> Schedule:
    """Serve no slot until it is resumed."""
    with postgres.transaction() as tx:
        schedules.set_enabled(tx, schedule.id, next_run_at=None)
    return find(postgres, str(schedule.id))


def resume(postgres: Postgres, schedule: Schedule) -> Schedule:
    """Go on with the next slot from now; what was missed while paused stays missed. Clears a quarantine."""
    next_at = cron.next_after(schedule.cron, schedule.tz, postgres.now())
    with postgres.transaction() as tx:
        schedules.set_enabled(tx, schedule.id, next_run_at=next_at)
    return find(postgres, str(schedule.id))


def remove(postgres: Postgres, schedule: Schedule) -> None:
    """Forget the schedule; its runs stay."""
    with postgres.transaction() as tx:
        schedules.remove(tx, schedule.id)


def next_slots(schedule: Schedule, now: datetime, count: int) -> list[NextSlot]:
    """The next `count` slots after `now`, in UTC and on the schedule's own clock."""
    zone = ZoneInfo(schedule.tz)
    found = islice(cron.slots(schedule.cron, schedule.tz, now), count)
    return [NextSlot(utc=slot, local=slot.astimezone(zone).isoformat(timespec="minutes")) for slot in found]


def zone_of(postgres: Postgres, org_id: UUID) -> str:
    """The zone of an organisation: the default of its schedules."""
    with postgres.transaction() as tx:
        return sources.org(tx, org_id).tz

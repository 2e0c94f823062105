"""Scheduled jobs: the tick's claim and write, and the standing orders that people add and change."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from worker_app import errors, jobs
from worker_app.jobs import DueJob, Slot
from worker_app.store import postgres, told
from worker_app.store.postgres import Transaction, statement

CLAIM_SIZE = 200  # jobs per transaction: small enough that the longest stays under 250 ms


@dataclass(frozen=True, slots=True)
class Schedule:
    """A scheduled job as people see it."""

    id: UUID
    org_id: UUID
    org: str
    kind: str
    provider: str | None
    source_ids: tuple[UUID, ...]
    sources: tuple[str, ...]
    template: str | None  # kind report alone
    period_days: int | None  # kind report alone
    cron_source: str  # as typed
    cron: str  # five plain fields
    tz: str
    enabled: bool
    next_run_at: datetime | None
    buffered_slot: datetime | None  # waits for the active run
    catchup: str
    catchup_max: int
    catchup_window_seconds: int
    overlap: str
    max_jitter_seconds: int
    fault: str | None
    fault_count: int
    quarantined_until: datetime | None


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A scheduled job to add; its cron line and zone have been checked."""

    id: UUID
    org_id: UUID
    kind: str
    provider: str | None
    source_ids: tuple[UUID, ...]
    cron_source: str
    cron: str
    tz: str
    next_run_at: datetime
    cron_engine: int = 1  # that has computed it
    params: Mapping[str, Any] = field(default_factory=dict)  # beside the sources: what the kind needs to know
    catchup: str = "latest"
    catchup_max: int = 24
    catchup_window: timedelta = timedelta(days=7)
    overlap: str = "skip"
    max_jitter_seconds: int = 0


def claim_due(tx: Transaction, batch: int = CLAIM_SIZE) -> tuple[datetime | None, list[DueJob]]:
    """Lock up to `batch` due jobs, shared fairly between organisations, and say what time the database has."""
    # Every table is read by key here. The tick itself makes the rows that statistics do not know of yet, and a planner that
    # believes in a small table reads all of a large one, for each claim anew: half of the time of a large tick.
    tx.execute(
        text("SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '5s'; SET LOCAL enable_seqscan = off")
    )
    rows = tx.execute(statement("claim_due_jobs"), {"batch": batch}).all()
    due = [
        DueJob(
            id=row.id,
            cron=row.cron,
            tz=row.tz,
            next_run_at=row.next_run_at,
            catchup=row.catchup,
            catchup_max=row.catchup_max,
            catchup_window=row.catchup_window,
            max_jitter_seconds=row.max_jitter_seconds,
        )
        for row in rows
    ]
    return (rows[0].at if rows else None), due


def has_due(tx: Transaction) -> bool:
    """Whether a job is due that is not set aside, locked by somebody or not."""
    return bool(
        tx.execute(
            text(
                "SELECT EXISTS (SELECT 1 FROM scheduled_jobs WHERE enabled AND next_run_at <= now() "
                "AND (quarantined_until IS NULL OR quarantined_until <= now()))"
            )
        ).scalar_one()
    )


@dataclass(frozen=True, slots=True)
class Minted:
    """What one write of the tick did, as counts of slots; those that were folded into a newer one count as skipped."""

    slots: int = 0  # that the tick had decided about
    repeated: int = 0  # that the ledger held already
    minted: int = 0
    buffered: int = 0
    skipped_overlap: int = 0
    skipped_catchup: int = 0
    armed: int = 0  # messages that the outbox owes
    cancelled: int = 0  # active runs that were asked to end
    stamped: int = 0  # jobs

    def __add__(self, other: "Minted") -> "Minted":
        return Minted(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def mint(tx: Transaction, slots: Sequence[Slot], stamps: Sequence[tuple[UUID, datetime]], dispatcher: str) -> Minted:
    """Write run, ledger row and outbox row of every slot and the next slot of every job, in one statement.

    Raises RowRefused when a row breaks a rule of the schema; then nothing of it is written and the transaction goes on.
    """
    given = {
        "job_ids": _array(slot.job_id for slot in slots),
        "slots": _array(slot.scheduled_for for slot in slots),
        "run_ids": _array(slot.run_id for slot in slots),
        "mint": _array(slot.is_minted for slot in slots),
        "skipped": _array(slot.skipped_slots for slot in slots),
        "send_at": _array(slot.send_at for slot in slots),
        "stamped_ids": _array(job_id for job_id, _ in stamps),
        "next_at": _array(next_at for _, next_at in stamps),
        "dispatcher": dispatcher,
    }
    with postgres.refusable(tx):
        return Minted(**tx.execute(statement("mint_slots"), given).mappings().one())


def _array(values: Iterable[UUID | datetime | bool | int]) -> str:
    """An array as one text: of a list each item is quoted by the driver and parsed by Postgres as an expression of its own.

    Page: https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
    """
    return "{" + ",".join(map(str, values)) + "}"


def quarantine(tx: Transaction, job_id: UUID, fault: str) -> None:
    """Set a job aside with its reason: 5 minutes, doubled with each further fault, at most a day."""
    tx.execute(
        text(
            "UPDATE scheduled_jobs SET fault = :fault, fault_count = fault_count + 1, "
            "quarantined_until = now() + least(interval '5 minutes' * power(2, least(fault_count, 12)), interval '24 hours') "
            "WHERE id = :id"
        ),
        {"id": job_id, "fault": told.text(fault)},
    )


def of_older_engine(tx: Transaction, engine: int, most: int) -> list[tuple[UUID, str, str, datetime]]:
    """Lock enabled jobs whose next slot an older cron engine has computed: (job, cron, zone, next slot)."""
    rows = tx.execute(
        text(
            "SELECT id, cron, tz, next_run_at FROM scheduled_jobs WHERE cron_engine < :engine AND next_run_at IS NOT NULL "
            "ORDER BY id LIMIT :most FOR UPDATE"
        ),
        {"engine": engine, "most": most},
    )
    return [(row.id, row.cron, row.tz, row.next_run_at) for row in rows]


def set_engine(tx: Transaction, engine: int, stamps: Sequence[tuple[UUID, datetime]]) -> None:
    """Write the next slots that the cron engine of this number has computed."""
    tx.execute(
        text(
            "UPDATE scheduled_jobs s SET next_run_at = t.at, cron_engine = :engine "
            "FROM unnest(CAST(:ids AS uuid[]), CAST(:at AS timestamptz[])) AS t (id, at) WHERE s.id = t.id"
        ),
        {"engine": engine, "ids": [job_id for job_id, _ in stamps], "at": [at for _, at in stamps]},
    )


def free_buffered(tx: Transaction, job_id: UUID | None = None) -> list[tuple[UUID, datetime]]:
    """Lock the jobs, or the one job, whose buffered slot has no active run left to wait for: (job, slot)."""
    return [(row.id, row.buffered_slot) for row in tx.execute(statement("free_buffered_slots"), {"job_id": job_id})]


def mint_buffered(tx: Transaction, waiting: Sequence[tuple[UUID, datetime, UUID]]) -> int:
    """Mint the runs of buffered slots, (job, slot, run id) each, with their messages; returns how many.

    A slot is kept where another run of its job has become active meanwhile.
    """
    given = {
        "job_ids": [job_id for job_id, _, _ in waiting],
        "slots": [slot for _, slot, _ in waiting],
        "run_ids": [run_id for _, _, run_id in waiting],
    }
    minted: int = tx.execute(statement("mint_buffered_slots"), given).scalar_one()
    return minted


def add(tx: Transaction, schedule: NewSchedule) -> None:
    """Write a new scheduled job; one whose id is there stays as it is. Raises UsageError when a source that it names is gone."""
    ids = [str(item) for item in schedule.source_ids]
    held = tx.execute(statement("hold_sources"), {"org_id": schedule.org_id, "ids": ids}).scalar_one()
    if held != len(ids):
        raise errors.UsageError(
            f"source is {', '.join(ids)}: it was removed; `dev-hops sources list` shows those there are"
        )
    tx.execute(
        statement("add_schedule"),
        {
            "id": schedule.id,
            "org_id": schedule.org_id,
            "kind": schedule.kind,
            "provider": schedule.provider,
            "params": json.dumps({**schedule.params, **({"sources": ids} if ids else {})}),
            "cron_source": schedule.cron_source,
            "cron": schedule.cron,
            "tz": schedule.tz,
            "next_run_at": schedule.next_run_at,
            "cron_engine": schedule.cron_engine,
            "catchup": schedule.catchup,
            "catchup_max": schedule.catchup_max,
            "catchup_window": schedule.catchup_window,
            "overlap": schedule.overlap,
            "max_jitter_seconds": schedule.max_jitter_seconds,
        },
    )


def schedules(tx: Transaction, org_id: UUID | None = None, job_id: UUID | None = None) -> list[Schedule]:
    """The scheduled jobs of an organisation (None: of all), the next one first; that one alone where `job_id` is given."""
    rows = tx.execute(statement("list_schedules"), {"org_id": org_id, "job_id": job_id}).mappings()
    return [
        Schedule(
            **{
                **row,
                "source_ids": _ids(row["source_ids"]),
                "sources": tuple(row["sources"]),
            }
        )
        for row in rows
    ]


def lock(tx: Transaction, job_id: UUID) -> Schedule:
    """The scheduled job as it is now, kept from ticks and edits until the transaction ends. Raises UsageError when it is gone."""
    tx.execute(text("SELECT 1 FROM scheduled_jobs WHERE id = :id FOR UPDATE"), {"id": job_id})
    found = schedules(tx, job_id=job_id)  # a second statement: its snapshot is younger than the lock
    if not found:
        raise errors.UsageError(
            f"there is no schedule {str(job_id)!r}; `dev-hops schedules list` shows those there are"
        )
    return found[0]


def set_enabled(tx: Transaction, job_id: UUID, *, next_run_at: datetime | None) -> None:
    """Pause a job (None) or let it go on with its next slot; clears a quarantine."""
    tx.execute(
        text(
            "UPDATE scheduled_jobs SET enabled = CAST(:at AS timestamptz) IS NOT NULL, next_run_at = :at, "
            "revision = revision + 1, fault = NULL, fault_count = 0, quarantined_until = NULL, buffered_slot = NULL "
            "WHERE id = :id"
        ),
        {"id": job_id, "at": next_run_at},
    )


def rewrite(tx: Transaction, schedule: Schedule, *, cron_engine: int | None) -> None:
    """Write line, zone, rules and next slot of a locked job as given; ends a quarantine. `cron_engine`: None as it is."""
    tx.execute(
        statement("rewrite_schedule"),
        {
            "id": schedule.id,
            "cron_source": schedule.cron_source,
            "cron": schedule.cron,
            "tz": schedule.tz,
            "next_run_at": schedule.next_run_at,
            "cron_engine": cron_engine,
            "overlap": schedule.overlap,
            "catchup": schedule.catchup,
            "catchup_max": schedule.catchup_max,
            "catchup_window_seconds": schedule.catchup_window_seconds,
            "max_jitter_seconds": schedule.max_jitter_seconds,
        },
    )


def forgive(tx: Transaction, job_id: UUID) -> None:
    """End a quarantine; the job keeps its place, so the next tick serves what is due."""
    tx.execute(
        text("UPDATE scheduled_jobs SET fault = NULL, fault_count = 0, quarantined_until = NULL WHERE id = :id"),
        {"id": job_id},
    )


def remove(tx: Transaction, job_id: UUID) -> None:
    """Delete a scheduled job; its ledger and its runs stay."""
    tx.execute(text("DELETE FROM scheduled_jobs WHERE id = :id"), {"id": job_id})


def _ids(found: object) -> tuple[UUID, ...]:
    """The ids among what a row names as its sources; what is none is left out, the run says so when it is planned."""
    every = [jobs.uuid_of(item) for item in found] if isinstance(found, list) else []
    return tuple(item for item in every if item is not None)

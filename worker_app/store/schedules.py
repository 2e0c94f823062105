"""Scheduled jobs: the tick's claim and write, and the standing orders that people add and change."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from worker_app.jobs import DueJob, Slot
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
    cron_source: str  # as typed
    cron: str  # five plain fields
    tz: str
    enabled: bool
    next_run_at: datetime | None
    catchup: str
    overlap: str
    max_jitter_seconds: int
    fault: str | None
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
    catchup: str = "latest"
    overlap: str = "skip"
    max_jitter_seconds: int = 0


def claim_due(tx: Transaction, batch: int = CLAIM_SIZE) -> tuple[datetime | None, list[DueJob]]:
    """Lock up to `batch` due jobs, shared fairly between organisations, and say what time the database has."""
    tx.execute(text("SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '5s'"))
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


@dataclass(frozen=True, slots=True)
class Minted:
    """What one write of the tick did, as counts."""

    slots: int
    minted: int
    repeated: int
    armed: int  # messages that the outbox owes


def mint(tx: Transaction, slots: Sequence[Slot], dispatcher: str) -> Minted:
    """Write run, ledger row, outbox row and stamp of every slot, in one statement."""
    row = tx.execute(
        statement("mint_slots"),
        {
            "job_ids": [slot.job_id for slot in slots],
            "slots": [slot.scheduled_for for slot in slots],
            "run_ids": [slot.run_id for slot in slots],
            "mint": [slot.is_minted for slot in slots],
            "skipped": [slot.skipped_slots for slot in slots],
            "send_at": [slot.send_at for slot in slots],
            "next_at": [slot.next_at for slot in slots],
            "dispatcher": dispatcher,
        },
    ).one()
    return Minted(slots=row.slots, minted=row.minted, repeated=row.repeated, armed=row.armed)


def stamp(tx: Transaction, job_id: UUID, next_at: datetime) -> None:
    """Move a job on that had no slot to serve."""
    tx.execute(text("UPDATE scheduled_jobs SET next_run_at = :at WHERE id = :id"), {"id": job_id, "at": next_at})


def quarantine(tx: Transaction, job_id: UUID, fault: str) -> None:
    """Set a job aside with its reason: 5 minutes, doubled with each further fault, at most a day."""
    tx.execute(
        text(
            "UPDATE scheduled_jobs SET fault = :fault, fault_count = fault_count + 1, "
            "quarantined_until = now() + least(interval '5 minutes' * power(2, least(fault_count, 12)), interval '24 hours') "
            "WHERE id = :id"
        ),
        {"id": job_id, "fault": fault},
    )


def add(tx: Transaction, schedule: NewSchedule) -> None:
    """Write a new scheduled job."""
    tx.execute(
        text(
            "INSERT INTO scheduled_jobs (id, org_id, kind, provider, params, cron_source, cron, tz, next_run_at, catchup, "
            "overlap, max_jitter_seconds) VALUES (:id, :org_id, :kind, :provider, CAST(:params AS jsonb), :cron_source, :cron, "
            ":tz, :next_run_at, :catchup, :overlap, :max_jitter_seconds)"
        ),
        {
            "id": schedule.id,
            "org_id": schedule.org_id,
            "kind": schedule.kind,
            "provider": schedule.provider,
            "params": json.dumps(
                {"sources": [str(item) for item in schedule.source_ids]} if schedule.source_ids else {}
            ),
            "cron_source": schedule.cron_source,
            "cron": schedule.cron,
            "tz": schedule.tz,
            "next_run_at": schedule.next_run_at,
            "catchup": schedule.catchup,
            "overlap": schedule.overlap,
            "max_jitter_seconds": schedule.max_jitter_seconds,
        },
    )


def schedules(tx: Transaction, org_id: UUID | None = None) -> list[Schedule]:
    """The scheduled jobs of an organisation (None: of all), the next one first."""
    rows = tx.execute(statement("list_schedules"), {"org_id": org_id}).mappings()
    return [
        Schedule(
            **{
                **row,
                "source_ids": tuple(UUID(item) for item in row["source_ids"] or ()),
                "sources": tuple(row["sources"]),
            }
        )
        for row in rows
    ]


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


def remove(tx: Transaction, job_id: UUID) -> None:
    """Delete a scheduled job; its ledger and its runs stay."""
    tx.execute(text("DELETE FROM scheduled_jobs WHERE id = :id"), {"id": job_id})

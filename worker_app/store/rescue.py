"""Rescue: what is found when a process died, each step one short transaction that skips what others hold."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from worker_app.store.postgres import Transaction, statement

EPOCH_KEY = "redis_epoch"


@dataclass(frozen=True, slots=True)
class BufferedSlot:
    """A slot that waited for an active run which is over."""

    job_id: UUID
    org_id: UUID
    kind: str
    provider: str | None
    slot: datetime


def rearm_runs(tx: Transaction, max_attempts: int) -> int:
    """Arm runs whose lease is over again, fail those out of attempts; returns how many."""
    rescued: int = tx.execute(statement("rescue_runs"), {"max_attempts": max_attempts}).one().rescued
    return rescued


def rearm_batches(tx: Transaction, max_attempts: int) -> int:
    """Arm batches whose lease is over again; returns how many."""
    return len(tx.execute(statement("rescue_batches"), {"max_attempts": max_attempts}).all())


def take_exhausted(tx: Transaction, max_attempts: int, owner: UUID) -> list[UUID]:
    """Take the batches that are out of attempts, for the caller to close."""
    rows = tx.execute(statement("take_exhausted_batches"), {"max_attempts": max_attempts, "owner": owner})
    return [row.id for row in rows]


def rearm_waiting(tx: Transaction, *, age_seconds: int, redis_was_emptied: bool) -> int:
    """Arm again what waits for a message that may be lost; returns how many."""
    given = {"age_seconds": age_seconds, "redis_was_emptied": redis_was_emptied}
    return len(tx.execute(statement("rearm_waiting"), given).all())


def redis_epoch(tx: Transaction) -> str | None:
    """The epoch of the Redis that this database last worked with."""
    return tx.execute(text("SELECT value FROM fleet_state WHERE key = :key"), {"key": EPOCH_KEY}).scalar_one_or_none()


def set_redis_epoch(tx: Transaction, epoch: str) -> None:
    """Remember the epoch, in the transaction that armed what was lost with the old one."""
    tx.execute(
        text(
            "INSERT INTO fleet_state (key, value) VALUES (:key, :value) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = now()"
        ),
        {"key": EPOCH_KEY, "value": epoch},
    )


def lose_late_runs(tx: Transaction) -> int:
    """Close runs past their deadline as lost; returns how many."""
    return len(tx.execute(statement("lose_runs")).all())


def recount(tx: Transaction) -> int:
    """Mend counters that disagree with their batches; returns how many runs went on to finish."""
    return len(tx.execute(statement("recount_runs")).all())


def planned_places(tx: Transaction) -> list[tuple[UUID, str]]:
    """Where batches wait for a free place: (organisation, provider)."""
    rows = tx.execute(text("SELECT DISTINCT org_id, provider FROM sync_batches WHERE state = 'planned' ORDER BY 1, 2"))
    return [(row.org_id, row.provider) for row in rows]


def free_buffered(tx: Transaction) -> list[BufferedSlot]:
    """Lock the jobs whose buffered slot has nothing left to wait for."""
    return [BufferedSlot(*row) for row in tx.execute(statement("promote_slots"))]


def clear_buffered(tx: Transaction, job_id: UUID) -> None:
    """Forget a buffered slot, in the transaction that minted its run."""
    tx.execute(text("UPDATE scheduled_jobs SET buffered_slot = NULL WHERE id = :id"), {"id": job_id})


def mint_buffered(tx: Transaction, slot: BufferedSlot, run_id: UUID) -> None:
    """Mint the run of a buffered slot with its message; a run of that slot that exists already is left alone."""
    tx.execute(
        statement("mint_buffered_run"),
        {
            "id": run_id,
            "job_id": slot.job_id,
            "slot": slot.slot,
            "org_id": slot.org_id,
            "kind": slot.kind,
            "provider": slot.provider,
        },
    )

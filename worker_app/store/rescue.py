"""Rescue: what is found when a process died, each step one short transaction that skips what others hold."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from worker_app.store.postgres import Transaction, statement

EPOCH_KEY = "redis_epoch"


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


def rearm_waiting(tx: Transaction, armed_before: datetime, *, waits_for_locks: bool = False) -> int:
    """Arm again what has waited since before a moment of the database's clock for a message that is not owed; how many.

    `waits_for_locks`: also what somebody holds just now, and may let go without a change. Raises StoreAway after 5 s of that.
    """
    wanted = statement("rearm_waiting")
    if waits_for_locks:
        tx.execute(text("SET LOCAL lock_timeout = '5s'"))
        wanted = text(wanted.text.replace(" SKIP LOCKED", ""))
    return len(tx.execute(wanted, {"armed_before": armed_before}).all())


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


def cancelled_runs(tx: Transaction) -> list[UUID]:
    """Runs that somebody wants to end and of which something has not begun."""
    rows = tx.execute(
        text(
            "SELECT r.id FROM sync_runs r WHERE r.cancel_requested_at IS NOT NULL AND (r.state = 'queued' OR r.state = 'running' "
            "AND (r.kind IN ('metrics', 'report') OR EXISTS (SELECT 1 FROM sync_batches b "
            "WHERE b.run_id = r.id AND b.state IN ('planned', 'queued', 'deferred')))) ORDER BY r.id LIMIT 500"
        )
    )
    return [row.id for row in rows]


def planned_places(tx: Transaction) -> list[tuple[UUID, str]]:
    """Where batches wait for a free place: (organisation, provider)."""
    rows = tx.execute(text("SELECT DISTINCT org_id, provider FROM sync_batches WHERE state = 'planned' ORDER BY 1, 2"))
    return [(row.org_id, row.provider) for row in rows]

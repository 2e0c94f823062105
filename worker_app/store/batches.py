"""Sync batches: claim, checkpoint, give back and close. Every statement compares the owner of the lease."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from worker_app import errors, jobs
from worker_app.jobs import Batch, BatchEnd, BatchState, WaitingBatch
from worker_app.records import CredentialStamp, Page
from worker_app.store import run_credentials, runs, told
from worker_app.store.postgres import Transaction, statement

REFUSED_SECONDS = 15  # a batch that may not run beside another one lets those in that may


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """Batches that nobody has claimed and that might be claimed now, by what they read."""

    queue: str
    org_id: UUID
    provider: str
    host: str
    dataset: str
    number: int


def claim(tx: Transaction, batch_id: UUID, owner: UUID, *, lease_seconds: int, cap: int) -> Batch | None:
    """Take a batch under a lease. None: a duplicate message, or one that may not run now and went back to planned.

    It may not while the cap is reached, or while another batch walks the same dataset of its source. Then its place is given
    to others, so the caller may owe messages all the same.
    """
    place = tx.execute(text("SELECT org_id, provider FROM sync_batches WHERE id = :id"), {"id": batch_id}).one_or_none()
    if place is None:
        return None
    runs.lock_cap(tx, place.org_id, place.provider)
    row = tx.execute(
        statement("claim_batch"), {"batch_id": batch_id, "owner": owner, "lease_seconds": lease_seconds, "cap": cap}
    ).one_or_none()
    if row is not None:
        credential_id, stamp = _credential(tx, row)
        return Batch(
            id=row.id,
            run_id=row.run_id,
            org_id=row.org_id,
            provider=row.provider,
            source_id=row.source_id,
            dataset=row.dataset,
            owner=owner,
            attempt=row.attempt,
            claimed_at=row.claimed_at,
            walk=row.walk,
            position=row.position,
            is_over=row.is_over,
            incomplete_reason=row.incomplete_reason,
            is_cancelled=row.is_cancelled,
            credential_id=credential_id,
            stamp=stamp,
        )
    refused = tx.execute(
        text(
            "UPDATE sync_batches SET state = 'planned', not_before = now() + make_interval(secs => :seconds) WHERE id = :id "
            "AND state IN ('queued', 'deferred') AND (not_before IS NULL OR not_before <= now())"
        ),
        {"id": batch_id, "seconds": REFUSED_SECONDS},
    )
    if refused.rowcount:
        runs.release(tx, place.org_id, place.provider, cap)
    return None


def waiting(tx: Transaction, batch_id: UUID) -> WaitingBatch | None:
    """A batch that may be claimed now and has a source; None: a duplicate message, or one that comes too early."""
    row = tx.execute(
        text(
            "SELECT b.id, b.org_id, b.provider, s.host, b.dataset, b.deferrals, "
            "coalesce(extract(epoch FROM now() - b.stalled_since), 0)::float8 AS stalled_seconds "
            "FROM sync_batches b JOIN sources s ON s.org_id = b.org_id AND s.id = b.source_id "
            "WHERE b.id = :id AND b.state IN ('queued', 'deferred') AND (b.not_before IS NULL OR b.not_before <= now())"
        ),
        {"id": batch_id},
    ).one_or_none()
    return None if row is None else WaitingBatch(**row._mapping)


def begin(tx: Transaction, batch: Batch, walk: Mapping[str, object] | None) -> None:
    """Store the frozen frame of the walk (None: forget it) and start at its first position. Raises LeaseLost."""
    done = tx.execute(
        text(
            "UPDATE sync_batches SET walk = CAST(:walk AS jsonb), cursor = NULL, incomplete_reason = NULL "
            "WHERE id = :id AND lease_owner = :owner "
            "AND state = 'running'"
        ),
        {"id": batch.id, "owner": batch.owner, "walk": None if walk is None else json.dumps(walk)},
    )
    _require(done.rowcount, batch)


def checkpoint(tx: Transaction, batch: Batch, page: Page, lease_seconds: int) -> bool:
    """Store where the walk stands, before the page's records, in the same transaction. Raises LeaseLost: write nothing.

    The last page and a page that was cut are remembered: a worker that takes over must not read or believe anew. Returns
    whether somebody wants the run to end: the page is stored, and no other is read.
    """
    row = tx.execute(
        statement("checkpoint_batch"),
        {
            "id": batch.id,
            "owner": batch.owner,
            "position": page.next,
            "is_over": page.next is None,
            "records": page.counted,
            "replaced": page.replaced_bytes,
            "incomplete_reason": None if page.complete else told.text(page.reason or "a page was cut"),
            "lease_seconds": lease_seconds,
        },
    ).one_or_none()
    _require(int(row is not None), batch)
    return row is not None and bool(row.is_cancelled)


def standstill(tx: Transaction, batch: Batch) -> tuple[float, int]:
    """Seconds since the first wait after the last page, and how many waits there were; database clock."""
    row = tx.execute(
        text(
            "SELECT coalesce(extract(epoch FROM now() - stalled_since), 0)::float8 AS seconds, deferrals "
            "FROM sync_batches WHERE id = :id"
        ),
        {"id": batch.id},
    ).one_or_none()
    return (0.0, 0) if row is None else (row.seconds, row.deferrals)


def renew(tx: Transaction, batch: Batch, lease_seconds: int) -> bool:
    """Push the end of the lease out; False when another owner has the batch."""
    done = tx.execute(
        text(
            "UPDATE sync_batches SET lease_until = now() + make_interval(secs => :lease) "
            "WHERE id = :id AND lease_owner = :owner AND state = 'running'"
        ),
        {"id": batch.id, "owner": batch.owner, "lease": lease_seconds},
    )
    return done.rowcount == 1


def give_back(
    tx: Transaction,
    batch: Batch,
    state: BatchState,
    *,
    wait_seconds: float = 0,
    is_fault: bool = False,
    error: str | None = None,
    error_class: str | None = None,
    defer_reason: Mapping[str, str] | None = None,
) -> bool:
    """Give the batch back with its cursor: planned or queued (a drain, a deadline, a fault) or deferred (a wait).

    A batch given back as planned needs `runs.release` in the same transaction. False when another owner has it.
    """
    return _give_back(
        tx,
        batch.id,
        batch.owner,
        state,
        wait_seconds=wait_seconds,
        is_fault=is_fault,
        error=error,
        error_class=error_class,
        defer_reason=defer_reason,
    )


def defer_unclaimed(
    tx: Transaction, batch: WaitingBatch, *, wait_seconds: float, defer_reason: Mapping[str, str]
) -> bool:
    """Let a batch wait that nobody has claimed; False when somebody has meanwhile."""
    return _give_back(tx, batch.id, None, BatchState.DEFERRED, wait_seconds=wait_seconds, defer_reason=defer_reason)


def _give_back(
    tx: Transaction,
    batch_id: UUID,
    owner: UUID | None,
    state: BatchState,
    *,
    wait_seconds: float,
    is_fault: bool = False,
    error: str | None = None,
    error_class: str | None = None,
    defer_reason: Mapping[str, str] | None = None,
) -> bool:
    row = tx.execute(
        statement("give_back_batch"),
        {
            "batch_id": batch_id,
            "owner": owner,
            "state": state.value,
            "wait_seconds": wait_seconds,
            "spent": int(is_fault),
            "error": told.text(error),
            "error_class": error_class,
            "defer_reason": told.document(defer_reason),
        },
    ).one()
    return bool(row.given)


def close(tx: Transaction, batch_id: UUID, owner: UUID, end: BatchEnd) -> bool:
    """Close the batch and count it in its run, once; False when another owner was here."""
    row = tx.execute(
        statement("close_batch"),
        {
            "batch_id": batch_id,
            "owner": owner,
            "state": end.state.value,
            "complete": end.is_complete,
            "incomplete_reason": told.text(end.incomplete_reason),
            "error_class": end.error_class,
            "error": told.text(end.error),
        },
    ).one()
    return bool(row.closed)


def wake_deferred(tx: Transaction, org_id: UUID, provider: str, host: str, spread_seconds: float) -> int:
    """Let the deferred batches of an organisation at a host go on within `spread_seconds`, each at a moment of its own.

    None waits longer by it. Returns how many there are; one that somebody changes just now is left as it is.
    """
    runs.lock_cap(tx, org_id, provider)
    given = {"org_id": org_id, "provider": provider, "host": host, "spread": spread_seconds}
    woken: int = tx.execute(statement("wake_deferred"), given).scalar_one()
    return woken


def unclaimed(tx: Transaction, keys: Collection[tuple[UUID, str, str]]) -> list[Unclaimed]:
    """The batches of some (organisation, provider, host) whose message lies in its queue or was just taken, in groups."""
    given = {
        "org_ids": [org_id for org_id, _, _ in keys],
        "providers": [provider for _, provider, _ in keys],
        "hosts": [host for _, _, host in keys],
    }
    return [Unclaimed(**row) for row in tx.execute(statement("unclaimed_batches"), given).mappings()]


def _credential(tx: Transaction, row: Row[Any]) -> tuple[UUID | None, CredentialStamp | None]:
    """What a batch that was just claimed was planned with."""
    is_stamped = row.credential_id == jobs.NO_CREDENTIAL or row.version is not None
    if not is_stamped:
        return run_credentials.adopt(tx, row.run_id, row.id)
    return run_credentials.planned(row.credential_id, row.version, row.fingerprint)


def _require(changed: int, batch: Batch) -> None:
    if changed != 1:
        raise errors.LeaseLost(f"batch {batch.id} belongs to another worker or is closed")

"""Sync runs: minted by hand, claimed, planned, closed and listed. The tick mints its own in `schedules`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from worker_app import errors, jobs
from worker_app.jobs import NewBatch, Run, RunState
from worker_app.store.postgres import Transaction, statement

ADD_TRIES = 3  # the active run may end between the refusal and the look at it
CLAIMS = {  # step: the state that waits for it, and the state while it runs
    "plan": ("queued", "planning"),
    "compute": ("queued", "running"),
    "finish": ("finishing", "finishing"),
}


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as people see it; the field names are public."""

    id: UUID
    org: str
    source: str | None
    kind: str
    state: str
    trigger: str
    batches_total: int | None
    batches_done: int
    batches_failed: int
    records: int
    attempt: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    scheduled_for: datetime | None
    expected: int | None  # records that the walks announced, None where one of them does not know


def add_manual(tx: Transaction, org_id: UUID, provider: str, source_id: UUID, run_id: UUID) -> UUID:
    """A run of one source now, with its message. The same id twice is one run. Raises Conflict naming the active run."""
    given = {"id": run_id, "org_id": org_id, "provider": provider, "source_id": source_id}
    active = None
    for _ in range(ADD_TRIES):
        if tx.execute(statement("add_manual_run"), given).one_or_none() is not None:
            return run_id
        active = tx.execute(
            text(
                "SELECT id FROM sync_runs WHERE exclusive_key = :key "
                "AND state IN ('queued', 'planning', 'running', 'finishing')"
            ),
            {"key": source_id},
        ).scalar_one_or_none()
        if active is not None:
            break
    raise errors.Conflict(f"run {active} of this source is active; watch it with `dev-hops runs watch {active}`")


def claim(tx: Transaction, run_id: UUID, owner: UUID, step: str, lease_seconds: int) -> Run | None:
    """Take a run for one step (`plan`, `compute`, `finish`); None for a duplicate message, a closed or an unknown run."""
    waiting, becomes = CLAIMS[step]
    row = tx.execute(
        statement("claim_run"),
        {
            "id": run_id,
            "owner": owner,
            "lease_seconds": lease_seconds,
            "waiting": waiting,
            "becomes": becomes,
        },
    ).one_or_none()
    return None if row is None else Run(*row)


def renew(tx: Transaction, run_id: UUID, owner: UUID, lease_seconds: int) -> bool:
    """Push the end of a run's lease out; False when another owner has it."""
    done = tx.execute(
        text(
            "UPDATE sync_runs SET lease_until = now() + make_interval(secs => :lease) WHERE id = :id AND lease_owner = :owner"
        ),
        {"id": run_id, "owner": owner, "lease": lease_seconds},
    )
    return done.rowcount == 1


def job_source_ids(tx: Transaction, job_id: UUID) -> list[UUID] | None:
    """The sources that a scheduled job names; None where it means every source of its provider."""
    ids = tx.execute(
        text("SELECT params -> 'sources' FROM scheduled_jobs WHERE id = :id"), {"id": job_id}
    ).scalar_one_or_none()
    return None if ids is None else [UUID(item) for item in ids]


def lock_cap(tx: Transaction, org_id: UUID, provider: str) -> None:
    """Take the cap key of (organisation, provider) until the transaction ends. First in the lock order."""
    tx.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended('cap/' || CAST(:org_id AS text) || '/' || :provider, 0))"),
        {"org_id": org_id, "provider": provider},
    )


def plan(tx: Transaction, run: Run, owner: UUID, batches: Sequence[NewBatch], cap: int) -> int:
    """Write a run's batches and release as many as the cap allows; returns how many messages are owed.

    The caller holds the cap key. Raises LeaseLost when another owner plans this run. A run without batches is finished next.
    """
    locked = tx.execute(
        text("SELECT 1 FROM sync_runs WHERE id = :id AND lease_owner = :owner AND state = 'planning' FOR UPDATE"),
        {"id": run.id, "owner": owner},
    ).one_or_none()
    if locked is None:
        raise errors.LeaseLost(f"run {run.id} is planned by another worker")
    tx.execute(
        statement("insert_batches"),
        {
            "run_id": run.id,
            "org_id": run.org_id,
            "provider": run.provider,
            "ids": [batch.id for batch in batches],
            "source_ids": [batch.source_id for batch in batches],
            "datasets": [batch.dataset for batch in batches],
            "starts": [batch.window_start for batch in batches],
            "ends": [batch.window_end for batch in batches],
            "queues": [batch.queue for batch in batches],
        },
    )
    state = tx.execute(
        statement("start_run"),
        {"id": run.id, "total": len(batches)},
    ).scalar_one()
    return 1 if state == "finishing" else release(tx, run.org_id, run.provider or "", cap)


def release(tx: Transaction, org_id: UUID, provider: str, cap: int) -> int:
    """Let planned batches in up to the cap, under the cap key; returns how many."""
    return len(tx.execute(statement("release_batches"), {"org_id": org_id, "provider": provider, "cap": cap}).all())


def finish(tx: Transaction, run: Run, owner: UUID) -> RunState:
    """Close a run by what its batches became, and owe the metrics run that follows. Raises LeaseLost.

    Succeeded: every batch read all there was. Failed: every batch failed. Partial: anything between.
    """
    row = tx.execute(
        statement("finish_run"),
        {"id": run.id, "owner": owner},
    ).one_or_none()
    if row is None:
        raise errors.LeaseLost(f"run {run.id} is finished by another worker")
    tx.execute(
        statement("mint_metrics_run"),
        {"id": jobs.metrics_run_id(run.id), "org_id": run.org_id, "trigger": run.trigger},
    )
    return RunState(row.state)


def close(
    tx: Transaction,
    run_id: UUID,
    owner: UUID,
    state: RunState,
    error: str | None = None,
    error_class: str | None = None,
) -> bool:
    """Close a run that has no batches, or one that cannot be planned; False when another owner has it."""
    done = tx.execute(
        text(
            "UPDATE sync_runs SET state = :state, lease_owner = NULL, lease_until = NULL, finished_at = now(), error = :error, "
            "error_class = :error_class WHERE id = :id AND lease_owner = :owner"
        ),
        {"id": run_id, "owner": owner, "state": state.value, "error": error, "error_class": error_class},
    )
    return done.rowcount == 1


def views(tx: Transaction, run_id: UUID | None = None, org_id: UUID | None = None, limit: int = 20) -> list[RunView]:
    """Runs as people see them, the newest first; one run where its id is given."""
    rows = tx.execute(statement("list_runs"), {"run_id": run_id, "org_id": org_id, "limit": limit}).mappings()
    return [RunView(**row) for row in rows]

"""Sync runs: minted by hand, claimed, planned, closed and listed. The tick mints its own in `schedules`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from worker_app import errors, jobs
from worker_app.jobs import NewBatch, Run, RunState
from worker_app.store import postgres, run_credentials, told
from worker_app.store.pages import Mark
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


@dataclass(frozen=True, slots=True)
class _Place:
    """What a run shares a cap with, and what it keeps away."""

    org_id: UUID
    provider: str  # empty for a run without one
    exclusive_key: UUID | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a request to end a run did at once."""

    state: str  # of the run now; what runs ends at its next page
    closed: int  # batches that had not begun


def add_manual(tx: Transaction, org_id: UUID, provider: str, source_id: UUID, run_id: UUID) -> UUID:
    """A run of one source now, with its message. The same id twice is one run.

    Raises Conflict naming the active run, or the run of another source that has this id.
    """
    given = {"id": run_id, "org_id": org_id, "provider": provider, "source_id": source_id}
    active = None
    for _ in range(ADD_TRIES):
        if tx.execute(statement("add_manual_run"), given).one_or_none() is not None:
            return run_id
        active = active_run(tx, source_id)
        if active is not None:
            break
    if active is None:
        raise errors.Conflict(f"this idempotency key names run {run_id} of another source; give another key")
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


def wanted_source_ids(tx: Transaction, run: Run) -> list[UUID] | None:
    """The sources that a run is about, as its scheduled job named them when the slot was served; None: all of its provider.

    Raises UsageError where what is named is no source, or where nobody can tell any more, LeaseLost where the run is gone.
    """
    if run.source_id is not None:
        return [run.source_id]
    if run.job_id is None:
        return None
    row = tx.execute(
        text(
            "SELECT coalesce(r.params, j.params) AS params FROM sync_runs r LEFT JOIN scheduled_jobs j ON j.id = r.job_id "
            "WHERE r.id = :id"
        ),
        {"id": run.id},
    ).one_or_none()
    if row is None:
        raise errors.LeaseLost(f"run {run.id} was deleted while it was planned")
    if row.params is None:  # minted by an older program, and its job is gone: "all" would be a guess
        raise errors.UsageError(
            f"schedule {run.job_id} was removed before its run was planned; sync the source by hand"
        )
    named = row.params.get("sources")
    if named is None:
        return None
    found = [jobs.uuid_of(item) for item in named] if isinstance(named, list) else [None]
    if None in found:
        raise errors.UsageError(
            f"params.sources of schedule {run.job_id} is {str(named)[:200]}: it is a list of ids of sources; "
            "remove the schedule and add it anew"
        )
    return [item for item in found if item is not None]


def lock_cap(tx: Transaction, org_id: UUID, provider: str) -> None:
    """Take the cap key of (organisation, provider) until the transaction ends. First in the lock order."""
    tx.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended('cap/' || CAST(:org_id AS text) || '/' || :provider, 0))"),
        {"org_id": org_id, "provider": provider},
    )


def plan(tx: Transaction, run: Run, owner: UUID, batches: Sequence[NewBatch], cap: int) -> int:
    """Write a run's batches, stamp their credentials, release as many as the cap allows; returns how many messages are owed.

    The caller holds the cap key. Raises LeaseLost when another owner plans this run. A run without batches is finished next,
    one that was cancelled meanwhile gets none.
    """
    locked = tx.execute(
        text(
            "SELECT cancel_requested_at IS NOT NULL AS is_cancelled FROM sync_runs "
            "WHERE id = :id AND lease_owner = :owner AND state = 'planning' FOR UPDATE"
        ),
        {"id": run.id, "owner": owner},
    ).one_or_none()
    if locked is None:
        raise errors.LeaseLost(f"run {run.id} is planned by another worker")
    if locked.is_cancelled:
        close(tx, run.id, owner, RunState.CANCELLED, "it was cancelled", "cancelled")
        return 0
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
            "no_credential": jobs.NO_CREDENTIAL,
        },
    )
    run_credentials.stamp(tx, run.id)
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
    row = tx.execute(statement("finish_run"), {"id": run.id, "owner": owner}).one_or_none()
    if row is None:
        raise errors.LeaseLost(f"run {run.id} is finished by another worker")
    add_metrics(tx, run.org_id, jobs.metrics_run_id(run.id, row.retries), run.trigger, follows=run.id)
    return RunState(row.state)


def add_metrics(tx: Transaction, org_id: UUID, run_id: UUID, trigger: str, *, follows: UUID | None = None) -> None:
    """A run that computes what was touched of an organisation, with its message. The same id twice is one run.

    `follows` is the sync run whose end it belongs to.
    """
    given = {"id": run_id, "org_id": org_id, "trigger": trigger, "follows": follows and str(follows)}
    tx.execute(statement("mint_metrics_run"), given)


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
        {"id": run_id, "owner": owner, "state": state.value, "error": told.text(error), "error_class": error_class},
    )
    return done.rowcount == 1


def cancel(tx: Transaction, run_id: UUID, cap: int) -> Cancelled:
    """Ask a run to end, close what of it has not begun, and let other batches in. Raises Conflict where it is too late."""
    place = _place(tx, run_id)
    tx.execute(
        text(
            "UPDATE sync_runs SET cancel_requested_at = coalesce(cancel_requested_at, now()) "
            "WHERE id = :id AND state IN ('queued', 'planning', 'running')"
        ),
        {"id": run_id},
    )
    row = tx.execute(statement("cancel_run"), {"id": run_id}).one_or_none()
    if row is None:
        raise errors.Conflict(f"run {run_id} is {_locked_state(tx, run_id)}: there is nothing of it left to cancel")
    release(tx, place.org_id, place.provider, cap)
    return Cancelled(row.state, row.closed)


def retry(tx: Transaction, run_id: UUID, cap: int) -> int:
    """Open a closed run again for what failed of it; returns how many batches. A run without batches begins anew: 0.

    What is opened again is read with the credential that its source has now, in the newest version.
    Raises Conflict where the run is open, has nothing that failed, or another run of the same job or source is active.
    """
    place = _place(tx, run_id)
    state = _locked_state(tx, run_id)
    active = None if place.exclusive_key is None else active_run(tx, place.exclusive_key)
    if state in jobs.OPEN_STATES:
        raise errors.Conflict(
            f"run {run_id} is {state}: it is not over yet; watch it with `dev-hops runs watch {run_id}`"
        )
    if active is not None:
        raise errors.Conflict(f"run {active} is active in its place; watch it with `dev-hops runs watch {active}`")
    try:
        with postgres.refusable(tx):
            row = tx.execute(statement("retry_run"), {"id": run_id, "no_credential": jobs.NO_CREDENTIAL}).one_or_none()
    except errors.RowRefused:
        raise errors.Conflict(f"another run became active in place of {run_id}; try again when it is over") from None
    if row is None:
        raise errors.Conflict(f"run {run_id} is {state}: nothing of it failed; start a new one with `dev-hops sync`")
    run_credentials.stamp(tx, run_id)
    release(tx, place.org_id, place.provider, cap)
    return int(row.reopened)


def active_run(tx: Transaction, exclusive_key: UUID) -> UUID | None:
    """The open run of this job or source that keeps others away; None where there is none."""
    found: UUID | None = tx.execute(
        text(
            "SELECT id FROM sync_runs WHERE exclusive_key = :key AND state IN ('queued', 'planning', 'running', 'finishing')"
        ),
        {"key": exclusive_key},
    ).scalar_one_or_none()
    return found


def beginning_with(tx: Transaction, beginning: str, most: int = 10) -> list[UUID]:
    """Ids of the runs that begin so, up to `most`."""
    span = jobs.id_range(beginning)
    if span is None:
        return []
    query = "SELECT id FROM sync_runs WHERE id BETWEEN :low AND :high ORDER BY id LIMIT :most"
    return list(tx.execute(text(query), {"low": span[0], "high": span[1], "most": most}).scalars())


def is_known(tx: Transaction, row_id: UUID) -> bool:
    """Whether there is a run or a batch of this id."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM sync_runs WHERE id = :id) OR EXISTS (SELECT 1 FROM sync_batches WHERE id = :id)"
    )
    return bool(tx.execute(text(query), {"id": row_id}).scalar_one())


def defer(tx: Transaction, run: Run, owner: UUID, seconds: float) -> None:
    """Put a run of metrics or of a report back to wait for so long; it spends no attempt. Raises LeaseLost."""
    given = {"id": run.id, "owner": owner, "seconds": seconds}
    if tx.execute(statement("defer_run"), given).one_or_none() is None:
        raise errors.LeaseLost(f"run {run.id} was taken over")


def job_of(tx: Transaction, run_id: UUID) -> UUID | None:
    """The scheduled job that a run serves; None for one that serves none."""
    found: UUID | None = tx.execute(
        text("SELECT job_id FROM sync_runs WHERE id = :id"), {"id": run_id}
    ).scalar_one_or_none()
    return found


def _place(tx: Transaction, run_id: UUID) -> _Place:
    """Where a run belongs, with the cap key of that place taken. Raises UsageError where there is no such run."""
    row = tx.execute(
        text("SELECT org_id, provider, exclusive_key FROM sync_runs WHERE id = :id"), {"id": run_id}
    ).one_or_none()
    if row is None:
        raise errors.UsageError(f"there is no run {run_id}; `dev-hops runs list` shows the latest")
    place = _Place(row.org_id, row.provider or "", row.exclusive_key)
    lock_cap(tx, place.org_id, place.provider)
    return place


def _locked_state(tx: Transaction, run_id: UUID) -> str:
    state: str | None = tx.execute(
        text("SELECT state FROM sync_runs WHERE id = :id FOR UPDATE"), {"id": run_id}
    ).scalar_one_or_none()
    return state or "gone"


def views(
    tx: Transaction,
    run_id: UUID | None = None,
    org_id: UUID | None = None,
    limit: int = 20,
    *,
    source_id: UUID | None = None,
    state: RunState | None = None,
    after: Mark | None = None,
) -> list[RunView]:
    """Runs as people see them, the newest first; one run where its id is given, those behind `after` where that is."""
    given = {
        "run_id": run_id,
        "org_id": org_id,
        "source_id": source_id,
        "state": state and state.value,
        "after_at": after and after.created_at,
        "after_id": after and after.id,
        "limit": limit,
    }
    return [RunView(**row) for row in tx.execute(statement("list_runs"), given).mappings()]

"""Explain: what Postgres knows about one job, run or batch that may not be running, in one snapshot. Facts, no judgement.

Nothing here takes a lock on a row: a tick and a rescue skip what somebody holds, so a look must not hold anything.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from worker_app import jobs
from worker_app.store import schedules
from worker_app.store.postgres import Transaction, now, statement
from worker_app.store.schedules import Schedule

FITS_SHOWN = 10  # of each sort; a person gives more of the id then
LEDGER_SHOWN = 10  # slots


@dataclass(frozen=True, slots=True)
class Fit:
    """Something that a person may mean."""

    what: str  # job, run, batch; source: one that has no job of its own to explain
    id: UUID
    org: str
    detail: str  # a few words that tell it from others


@dataclass(frozen=True, slots=True)
class Owed:
    """The outbox row of the message that a run or a batch waits for."""

    available_at: datetime
    claimed_until: datetime | None  # by a relay
    attempts: int  # how often a relay has taken it


@dataclass(frozen=True, slots=True)
class Rival:
    """Another batch that walks the same dataset of the same source under a live lease."""

    id: UUID
    run_id: UUID
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class PlannedCredential:
    """The version of a credential that a run was planned with."""

    name: str
    host: str
    version: int
    state: str  # active, superseded, revoked


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """One batch."""

    now: datetime
    id: UUID
    run_id: UUID
    org_id: UUID
    org: str
    provider: str
    source: str
    dataset: str
    queue: str
    state: str
    pages: int
    records: int
    lease_until: datetime | None
    not_before: datetime | None
    defer_reason: dict[str, Any] | None
    deferrals: int
    attempt: int
    wakes: int
    complete: bool | None
    incomplete_reason: str | None
    error_class: str | None
    error: str | None
    created_at: datetime
    armed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None  # of its run
    deadline_at: datetime  # of its run
    owed: Owed | None
    rival: Rival | None
    credential: PlannedCredential | None = None  # None: it is read without one, or nothing was noted


@dataclass(frozen=True, slots=True)
class Place:
    """What holds the places of one organisation at one provider."""

    provider: str
    released: int  # batches queued, running or deferred
    holders: tuple[tuple[UUID, int], ...]  # run -> batches, the most first
    deferred: int = 0  # of the released


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run with its open batches."""

    now: datetime
    id: UUID
    org_id: UUID
    org: str
    kind: str
    provider: str | None
    trigger: str
    job_id: UUID | None
    scheduled_for: datetime | None
    state: str
    batches_total: int | None
    batches_done: int
    batches_failed: int
    lease_until: datetime | None
    attempt: int
    wakes: int
    cancel_requested_at: datetime | None
    deadline_at: datetime
    error_class: str | None
    error: str | None
    created_at: datetime
    armed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    owed: Owed | None
    counts: dict[str, int]  # of all its batches: state -> batches
    batches: tuple[BatchFacts, ...]  # the open ones
    place: Place | None  # None: of no provider
    credentials: tuple[PlannedCredential, ...] = ()


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """An open run of a job."""

    id: UUID
    state: str
    created_at: datetime
    is_exclusive: bool  # keeps other runs of the job away


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A slot in the ledger."""

    scheduled_for: datetime
    outcome: str
    skipped_slots: int
    observed_at: datetime
    run_id: UUID | None
    run_state: str | None  # None: it has no run, or the run is forgotten


@dataclass(frozen=True, slots=True)
class Lock:
    """Another transaction that holds a row."""

    since: datetime | None  # when that transaction began; None: we may not see it
    application: str  # as it names itself to Postgres; may be empty


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One scheduled job with its newest slots and its open runs."""

    now: datetime
    schedule: Schedule
    lock: Lock | None
    ledger: tuple[Occurrence, ...]  # the newest first
    active: tuple[ActiveRun, ...]  # the one that keeps others away first, then the newest
    run: RunFacts | None  # the first of the active ones


def snapshot(tx: Transaction) -> None:
    """Let all that `tx` reads be of one moment. Comes before its first statement."""
    tx.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))


def fits(tx: Transaction, named: str) -> list[Fit]:
    """What has this id, this beginning of an id, or is the job of a source of this name; at most some of each sort."""
    low, high = jobs.id_range(named) or (None, None)
    given = {"text": named, "tail": "/" + named.strip("/"), "low": low, "high": high, "most": FITS_SHOWN + 1}
    return [Fit(*row) for row in tx.execute(statement("explain_fits"), given)]


def job(tx: Transaction, job_id: UUID) -> JobFacts | None:
    """The facts about a scheduled job; None where it is gone."""
    found = schedules.schedules(tx, job_id=job_id)
    if not found:
        return None
    lock = tx.execute(statement("explain_lock"), {"id": job_id}).one_or_none()
    ledger = tx.execute(statement("explain_ledger"), {"id": job_id, "most": LEDGER_SHOWN})
    active = tuple(
        ActiveRun(*row)
        for row in tx.execute(
            text(
                "SELECT id, state, created_at, exclusive_key IS NOT NULL AND exclusive_key = job_id FROM sync_runs "
                "WHERE job_id = :id AND state IN ('queued', 'planning', 'running', 'finishing') "
                "ORDER BY 4 DESC, created_at DESC, id"
            ),
            {"id": job_id},
        )
    )
    return JobFacts(
        now=now(tx),
        schedule=found[0],
        lock=None if lock is None else Lock(*lock),
        ledger=tuple(Occurrence(*row) for row in ledger),
        active=active,
        run=run(tx, active[0].id) if active else None,
    )


def run(tx: Transaction, run_id: UUID) -> RunFacts | None:
    """The facts about a run; None where it is gone."""
    row = tx.execute(statement("explain_run"), {"id": run_id}).mappings().one_or_none()
    if row is None:
        return None
    values = dict(row)
    owed = _owed(values)
    counts = tx.execute(
        text("SELECT state, count(*) AS n FROM sync_batches WHERE run_id = :id GROUP BY state ORDER BY state"),
        {"id": run_id},
    )
    return RunFacts(
        **values,
        owed=owed,
        counts={row.state: row.n for row in counts},
        batches=_batches(tx, run_id=run_id),
        place=None if row["provider"] is None else place(tx, row["org_id"], row["provider"]),
        credentials=tuple(
            PlannedCredential(*item) for item in tx.execute(statement("explain_credentials"), {"run_id": run_id})
        ),
    )


def batch(tx: Transaction, batch_id: UUID) -> BatchFacts | None:
    """The facts about a batch; None where it is gone."""
    found = _batches(tx, batch_id=batch_id)
    return found[0] if found else None


def place(tx: Transaction, org_id: UUID, provider: str) -> Place:
    """Who holds the places of an organisation at a provider."""
    rows = tx.execute(
        text(
            "SELECT run_id, count(*) AS released, count(*) FILTER (WHERE state = 'deferred') AS deferred FROM sync_batches "
            "WHERE org_id = :org_id AND provider = :provider AND state IN ('queued', 'running', 'deferred') "
            "GROUP BY run_id ORDER BY 2 DESC, 1"
        ),
        {"org_id": org_id, "provider": provider},
    ).all()
    holders = tuple((row.run_id, row.released) for row in rows)
    return Place(provider, sum(row.released for row in rows), holders, sum(row.deferred for row in rows))


def _batches(tx: Transaction, run_id: UUID | None = None, batch_id: UUID | None = None) -> tuple[BatchFacts, ...]:
    rows = tx.execute(statement("explain_batches"), {"run_id": run_id, "batch_id": batch_id}).mappings()
    return tuple(_batch(dict(row)) for row in rows)


def _batch(values: dict[str, Any]) -> BatchFacts:
    other = values.pop("rival_id"), values.pop("rival_run_id"), values.pop("rival_until")
    planned = tuple(values.pop(f"credential_{name}") for name in ("name", "host", "version", "state"))
    owed = _owed(values)
    return BatchFacts(
        **values,
        owed=owed,
        rival=None if other[0] is None else Rival(*other),
        credential=None if planned[0] is None else PlannedCredential(*planned),
    )


def _owed(values: dict[str, Any]) -> Owed | None:
    """Take the columns of the outbox out of a row; None where the message is not owed any more."""
    row = values.pop("available_at"), values.pop("claimed_until"), values.pop("relay_attempts")
    return None if row[0] is None else Owed(*row)

"""Jobs: the values of dispatch, planning and finishing, and the rule that gives each of them its id.

Ids are uuid5 of what a thing is for, so it can be minted twice and exist once. Nothing here touches a store or a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID, uuid5

from worker_app.records import CredentialStamp

NAMESPACE = UUID("6f2c0c5e-6c0b-5d0e-9f0d-3a4a1f7b9c11")  # fixed for ever: every id of a run and a batch hangs on it


class RunState(StrEnum):
    """The life of a sync run; `DEFERRED` is shown, never stored: all that is left of the run waits for a moment."""

    QUEUED = "queued"
    PLANNING = "planning"
    RUNNING = "running"
    DEFERRED = "deferred"
    FINISHING = "finishing"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


OPEN_STATES = frozenset({RunState.QUEUED, RunState.PLANNING, RunState.RUNNING, RunState.DEFERRED, RunState.FINISHING})


class BatchState(StrEnum):
    """The life of a sync batch."""

    PLANNED = "planned"
    QUEUED = "queued"
    RUNNING = "running"
    DEFERRED = "deferred"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


HEX_DIGITS = 32  # of a uuid
NO_CREDENTIAL = UUID(int=0)  # of a batch whose source had none in the plan; an older program's plan leaves it out
REPORT_TEMPLATES = ("sync-health",)  # what a report may be made by


@dataclass(frozen=True, slots=True)
class DueJob:
    """A scheduled job that the tick has locked, with what is needed to decide about its slots."""

    id: UUID
    cron: str  # five plain fields
    tz: str  # IANA name
    next_run_at: datetime  # the first slot not served, aware UTC
    catchup: str  # none, latest, all
    catchup_max: int  # slots
    catchup_window: timedelta
    max_jitter_seconds: int


@dataclass(frozen=True, slots=True)
class Slot:
    """What the tick decided about one slot of one job."""

    job_id: UUID
    scheduled_for: datetime
    run_id: UUID
    is_minted: bool  # False: written to the ledger as skipped by catch-up
    skipped_slots: int  # older slots folded into this one
    send_at: datetime  # when its message may leave the outbox


@dataclass(frozen=True, slots=True)
class Run:
    """A claimed run: what planning, finishing and computing need to know of it."""

    id: UUID
    org_id: UUID
    kind: str  # sync, backfill, metrics, report
    provider: str | None
    source_id: UUID | None
    job_id: UUID | None
    trigger: str  # schedule, manual, webhook


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A batch as planned: one source, one dataset, one window."""

    id: UUID
    source_id: UUID
    dataset: str
    queue: str
    window_start: datetime | None = None
    window_end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch under a live lease."""

    id: UUID
    run_id: UUID
    org_id: UUID
    provider: str
    source_id: UUID
    dataset: str
    owner: UUID  # of the lease; every later statement compares it
    attempt: int  # faults so far
    claimed_at: datetime  # database clock, aware UTC
    walk: Mapping[str, object] | None  # the frozen frame of the walk, None before it began
    position: str | None  # opaque, of the reader
    is_over: bool  # the last page is stored, only the end is not
    incomplete_reason: str | None  # why a page before this lease was not complete
    is_cancelled: bool = False  # somebody wants its run to end
    credential_id: UUID | None = None  # that it was planned with; None: it is read without one
    stamp: CredentialStamp | None = None  # None: there is no row of that credential


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """A batch that may be claimed now, and whose requests it is going to make."""

    id: UUID
    org_id: UUID
    provider: str
    host: str
    dataset: str
    deferrals: int  # waits since the last page
    stalled_seconds: float  # since the first of them; database clock


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """How a batch ends, as it is written."""

    state: BatchState
    is_complete: bool | None = None
    incomplete_reason: str | None = None
    error_class: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One row of the outbox: a Celery message that is owed. `kwargs` holds ids and nothing else."""

    id: int
    dedupe: str
    task: str
    queue: str
    kwargs: Mapping[str, str] = field(default_factory=dict)
    age_seconds: float = 0.0  # since it might leave, when it was claimed; database clock
    origin: Mapping[str, str] = field(default_factory=dict)  # what it is about, for log lines: org_id, run_id, …


def instant_text(instant: datetime | None) -> str:
    """The text of `instant` that ids are made from: `2026-11-01T05:30:00Z`, or nothing for None."""
    return "" if instant is None else instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_id(job_id: UUID, slot: datetime) -> UUID:
    """The id of the run that serves `slot` of a scheduled job."""
    return uuid5(NAMESPACE, f"{job_id}|{instant_text(slot)}")


def metrics_run_id(sync_run_id: UUID, retries: int = 0) -> UUID:
    """The id of the metrics run that follows a sync run: another one each time that the run was opened again."""
    return uuid5(NAMESPACE, f"{sync_run_id}|metrics" + (f"|{retries}" if retries else ""))


def keyed_run_id(org_id: UUID, key: str) -> UUID:
    """The id of a manual run that a caller names by an idempotency key."""
    return uuid5(NAMESPACE, f"{org_id}|manual|{key}")


def keyed_job_id(org_id: UUID, key: str) -> UUID:
    """The id of a scheduled job that a caller names by an idempotency key."""
    return uuid5(NAMESPACE, f"{org_id}|schedule|{key}")


def batch_id(run: UUID, source: UUID, dataset: str, start: datetime | None = None, end: datetime | None = None) -> UUID:
    """The id of the batch that reads one window of one dataset of one source in a run."""
    return uuid5(NAMESPACE, f"{run}|{source}|{dataset}|{instant_text(start)}|{instant_text(end)}")


def message_id(dedupe: str) -> UUID:
    """The Celery task id of an outbox row: the same row published twice is the same task."""
    return uuid5(NAMESPACE, dedupe)


def id_range(beginning: str) -> tuple[UUID, UUID] | None:
    """The lowest and the highest id that begin so; None where no id does."""
    written = beginning.strip().lower()
    digits = written.replace("-", "")
    if not digits or len(digits) > HEX_DIGITS or any(digit not in "0123456789abcdef" for digit in digits):
        return None
    low, high = UUID(digits.ljust(HEX_DIGITS, "0")), UUID(digits.ljust(HEX_DIGITS, "f"))
    return (low, high) if str(low).startswith(written) or written == digits else None


def uuid_of(text: object) -> UUID | None:
    """The id that a text stands for; None where it is none."""
    try:
        return UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None

"""Overview of batches: what those of the open runs that are shown wait for, and what has failed and was not read since."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from worker_app.store.postgres import Transaction, statement


@dataclass(frozen=True, slots=True)
class Wait:
    """Batches of one run that wait for the same thing. The field names are public."""

    run_id: UUID
    state: str  # planned, queued, deferred
    batches: int
    not_before: datetime | None  # when the first of them goes on
    gate: str | None  # `github on github.com`; None: it is no gate that keeps them
    bucket: str | None
    detail: str | None  # the provider's own word


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A batch that failed. The field names are public."""

    id: UUID
    run_id: UUID
    org: str
    provider: str
    source: str
    dataset: str
    attempt: int  # faults
    error_class: str | None
    error: str | None  # redacted when it was written
    finished_at: datetime | None


def waits(tx: Transaction, run_ids: Sequence[UUID]) -> tuple[Wait, ...]:
    """What the batches of these runs wait for."""
    return tuple(Wait(**row) for row in tx.execute(statement("overview_waits"), {"run_ids": list(run_ids)}).mappings())


def failed(tx: Transaction, shown: int) -> tuple[FailedBatch, ...]:
    """The batches that failed in the last day and whose dataset was not read to its end since, the newest first."""
    rows = tx.execute(statement("overview_failed"), {"shown": shown}).mappings()
    return tuple(FailedBatch(**row) for row in rows)

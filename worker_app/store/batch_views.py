"""Batches as people see them: how far each is, what it waits for, and what went wrong."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from worker_app.jobs import BatchState
from worker_app.store.pages import Mark
from worker_app.store.postgres import Transaction, statement


@dataclass(frozen=True, slots=True)
class BatchView:
    """A batch as people see it; the field names are public."""

    id: UUID
    run_id: UUID
    source: str  # its name; its id where the source was removed
    provider: str
    dataset: str
    state: BatchState
    window_start: datetime | None
    window_end: datetime | None
    pages: int
    records: int
    expected: int | None  # records that its walk announced; None: it does not know
    attempt: int  # faults so far
    deferrals: int  # waits since the last page
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_until: datetime | None  # of the worker that reads it; each page pushes it out
    not_before: datetime | None  # when it goes on
    defer_reason: dict[str, str] | None  # gate, bucket, reason, and in `detail` the provider's own word
    complete: bool | None  # whether it read all there was; None: it is not over
    incomplete_reason: str | None
    error_class: str | None
    error: str | None


def of_run(tx: Transaction, run_id: UUID, *, limit: int, after: Mark | None = None) -> list[BatchView]:
    """The batches of a run in the order in which they were planned, up to `limit`, those behind `after` where it is given."""
    given = {
        "run_id": run_id,
        "limit": limit,
        "after_at": after and after.created_at,
        "after_id": after and after.id,
    }
    return [
        BatchView(**{**row, "state": BatchState(row["state"])})
        for row in tx.execute(statement("list_batches"), given).mappings()
    ]

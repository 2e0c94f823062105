"""Metrics as rows, the days that wait to be computed, and the contract of the store that keeps what was computed.

The sink is Postgres unless a ClickHouse is configured. Which days wait is in Postgres in either case, so that nothing that was
touched is forgotten while the sink is away.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from sqlalchemy import text

from worker_app.store.postgres import Transaction, statement


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One computed number. The field names are public."""

    metric: str
    definition_v: int
    grain: str  # org, repo
    grain_id: str
    day: date  # in the organisation's zone
    value: float | None  # None: no evidence
    num: float
    den: float
    n: int  # sample size
    coverage: float  # 0 to 1: share of the grain's sources read completely after the end of the day
    input_watermark: datetime | None  # the oldest of their cursors, aware UTC
    computed_at: datetime | None = None  # set by the sink: Postgres's clock, milliseconds


@dataclass(frozen=True, slots=True)
class TouchedDay:
    """A day whose records changed since its metrics were computed."""

    day: date
    revision: int  # grows with every change; the computation that read it clears it only if it did not grow


class MetricSink(Protocol):
    """Where computed numbers are kept: one row a key (organisation, metric, grain, grain id, day, definition).

    `tx` is a transaction of Postgres, whichever store it is: it gives the clock and the snapshot. Methods raise StoreAway where
    another try helps.
    """

    def replace(
        self, tx: Transaction, org_id: UUID, metrics: Sequence[str], days: Sequence[date], rows: Sequence[MetricRow]
    ) -> None:
        """Make `rows` all there is of `metrics` on `days`. The caller holds `lock_org`.

        A key that had a value before and has no evidence now gets value NULL, num, den and n 0. `computed_at` is later than any
        of these days before. The same call again changes nothing else.
        """
        ...

    def read(
        self,
        tx: Transaction,
        org_id: UUID,
        *,
        metrics: Sequence[str] = (),
        grain: str | None = None,
        start: date | None = None,
        end: date | None = None,
    ) -> list[MetricRow]:
        """The rows of an organisation, by metric, grain, grain id, day and definition; `end` is included.

        All metrics, grains and days unless named. Texts are ordered by their bytes in UTF-8.
        """
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


def touched_days(tx: Transaction, org_id: UUID, limit: int) -> list[TouchedDay]:
    """The oldest days that wait for a computation."""
    rows = tx.execute(
        text("SELECT day, revision FROM touched_days WHERE org_id = :org_id ORDER BY day LIMIT :limit"),
        {"org_id": org_id, "limit": limit},
    )
    return [TouchedDay(row.day, row.revision) for row in rows]


def clear_touched(tx: Transaction, org_id: UUID, days: Sequence[TouchedDay]) -> None:
    """Forget days that are computed; one that was touched again meanwhile stays."""
    given = {"org_id": org_id, "days": [item.day for item in days], "revisions": [item.revision for item in days]}
    tx.execute(statement("clear_touched_days"), given)


def note_coverage(tx: Transaction, org_id: UUID, days: Sequence[date], uncovered: Collection[date]) -> None:
    """Remember which of the days that were computed were `uncovered`, so that they are computed again once they are read."""
    tx.execute(statement("note_coverage"), {"org_id": org_id, "days": list(days), "uncovered": sorted(uncovered)})


def touch_recorded(tx: Transaction, org_id: UUID, start: date | None = None, end: date | None = None) -> int:
    """Let every day that has records be computed anew, `start` and `end` included; returns how many days."""
    given = {"org_id": org_id, "start": start, "end": end}
    return len(tx.execute(statement("touch_recorded_days"), given).all())


def lock_org(tx: Transaction, org_id: UUID) -> bool:
    """Try to be the one writer of an organisation's metrics until the transaction ends; False while another one is."""
    taken: bool = tx.execute(
        text("SELECT pg_try_advisory_xact_lock(hashtextextended('metrics/' || CAST(:org_id AS text), 0))"),
        {"org_id": org_id},
    ).scalar_one()
    return taken

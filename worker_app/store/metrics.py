"""The metrics sink in Postgres: what was computed for a day replaces what that day had before."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
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
    computed_at: datetime | None = None  # set by the sink, database clock


@dataclass(frozen=True, slots=True)
class TouchedDay:
    """A day whose records changed since its metrics were computed."""

    day: date
    revision: int  # grows with every change; the computation that read it clears it only if it did not grow


def touched_days(tx: Transaction, org_id: UUID, limit: int) -> list[TouchedDay]:
    """The oldest days that wait for a computation."""
    rows = tx.execute(
        text("SELECT day, revision FROM touched_days WHERE org_id = :org_id ORDER BY day LIMIT :limit"),
        {"org_id": org_id, "limit": limit},
    )
    return [TouchedDay(row.day, row.revision) for row in rows]


def lock_org(tx: Transaction, org_id: UUID) -> bool:
    """Try to be the one writer of an organisation's metrics until the transaction ends; False while another one is."""
    taken: bool = tx.execute(
        text("SELECT pg_try_advisory_xact_lock(hashtextextended('metrics/' || CAST(:org_id AS text), 0))"),
        {"org_id": org_id},
    ).scalar_one()
    return taken


def replace_days(
    tx: Transaction, org_id: UUID, metrics: Sequence[str], days: Sequence[TouchedDay], rows: Sequence[MetricRow]
) -> None:
    """Write `rows` as all there is of `metrics` on `days`, and clear the days that nothing has touched meanwhile.

    A key that had a value before and has no evidence now gets value NULL, num, den and n 0. The caller holds `lock_org`.
    """
    tx.execute(
        statement("replace_metric_days"),
        {
            "org_id": org_id,
            "metrics": list(metrics),
            "days": [item.day for item in days],
            "revisions": [item.revision for item in days],
            "rows": json.dumps([_document(row) for row in rows]),
        },
    )


def read(
    tx: Transaction,
    org_id: UUID,
    *,
    metrics: Sequence[str] = (),
    grain: str | None = None,
    start: date | None = None,
    end: date | None = None,
) -> list[MetricRow]:
    """The rows of an organisation, by metric, grain and day; all metrics, grains and days unless named. `end` is included."""
    found = tx.execute(
        text(
            "SELECT metric, definition_v, grain, grain_id, day, value, num, den, n, coverage, input_watermark, computed_at "
            "FROM metric_daily WHERE org_id = :org_id "
            "AND (CAST(:metrics AS text[]) = '{}' OR metric = ANY (CAST(:metrics AS text[]))) "
            "AND (CAST(:grain AS text) IS NULL OR grain = :grain) AND (CAST(:start AS date) IS NULL OR day >= :start) "
            "AND (CAST(:end AS date) IS NULL OR day <= :end) ORDER BY metric, grain, grain_id, day, definition_v"
        ),
        {"org_id": org_id, "metrics": list(metrics), "grain": grain, "start": start, "end": end},
    )
    return [MetricRow(*row) for row in found]


def _document(row: MetricRow) -> dict[str, object]:
    return {
        "metric": row.metric,
        "definition_v": row.definition_v,
        "grain": row.grain,
        "grain_id": row.grain_id,
        "day": row.day.isoformat(),
        "value": row.value,
        "num": row.num,
        "den": row.den,
        "n": row.n,
        "coverage": row.coverage,
        "input_watermark": row.input_watermark.isoformat() if row.input_watermark else None,
    }

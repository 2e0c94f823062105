"""The metrics sink in Postgres: one row a key, written again in place."""

import json
from collections.abc import Sequence
from datetime import date
from uuid import UUID

from sqlalchemy import text

from worker_app.store.metrics import MetricRow
from worker_app.store.postgres import Transaction, statement


class PostgresMetrics:
    """Keeps metrics beside the records; all that it does is part of the caller's transaction."""

    def replace(
        self, tx: Transaction, org_id: UUID, metrics: Sequence[str], days: Sequence[date], rows: Sequence[MetricRow]
    ) -> None:
        """Make `rows` all there is of `metrics` on `days`; see `MetricSink`."""
        given = {
            "org_id": org_id,
            "metrics": list(metrics),
            "days": list(days),
            "rows": json.dumps([_document(row) for row in rows]),
        }
        tx.execute(statement("replace_metric_days"), given)

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
        """The rows of an organisation; see `MetricSink`."""
        found = tx.execute(
            text(
                "SELECT metric, definition_v, grain, grain_id, day, value, num, den, n, coverage, input_watermark, computed_at "
                "FROM metric_daily WHERE org_id = :org_id "
                "AND (CAST(:metrics AS text[]) = '{}' OR metric = ANY (CAST(:metrics AS text[]))) "
                "AND (CAST(:grain AS text) IS NULL OR grain = :grain) AND (CAST(:start AS date) IS NULL OR day >= :start) "
                "AND (CAST(:end AS date) IS NULL OR day <= :end) "
                'ORDER BY metric COLLATE "C", grain COLLATE "C", grain_id COLLATE "C", day, definition_v'
            ),
            {"org_id": org_id, "metrics": list(metrics), "grain": grain, "start": start, "end": end},
        )
        return [MetricRow(*row) for row in found]

    def close(self) -> None:
        """Nothing is its own."""


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

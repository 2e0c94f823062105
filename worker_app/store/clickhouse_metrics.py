"""The metrics sink in ClickHouse: a computation only adds rows, and the youngest row of a key counts.

What stands before is read by Postgres's transaction of the caller, which is the one writer of its organisation; so a row that is
retracted is one more row, younger and empty. An insert comes before the caller's commit, which clears the days: a process that
dies between the two leaves the days touched, and they are computed again. An insert that is repeated, or comes late from a writer
that lost its transaction, has the same or an older `computed_at` and loses against what was written of its keys since.
Page: https://clickhouse.com/docs/engines/table-engines/mergetree-family/replacingmergetree
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import text

from worker_app.store.clickhouse import ClickHouse, Row
from worker_app.store.metrics import MetricRow
from worker_app.store.postgres import Transaction

BLOCK_ROWS = 20_000  # in one insert: a second of work for the client, and far within the deadline of a call
FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2299, 12, 31)  # of ClickHouse's Date32; it would move others to its ends
COLUMNS = {  # names and types of what is inserted, in the order of MetricRow's fields
    "metric": "LowCardinality(String)",
    "definition_v": "UInt16",
    "grain": "LowCardinality(String)",
    "grain_id": "String",
    "day": "Date32",
    "value": "Nullable(Float64)",
    "num": "Float64",
    "den": "Float64",
    "n": "UInt64",
    "coverage": "Float32",
    "input_watermark": "Nullable(DateTime64(6, 'UTC'))",
    "computed_at": "DateTime64(3, 'UTC')",
    "org_id": "UUID",
}
# A share is kept in 32 bits; by way of its shortest text it is the same number that Postgres gives. ClickHouse's own way back
# from a text is inexact in the last bit.
_FIELDS = (
    "metric, definition_v, grain, grain_id, day, value, num, den, n, toString(coverage), input_watermark, computed_at"
)
_WHERE = "org_id = {org_id:UUID} AND (empty({metrics:Array(String)}) OR metric IN {metrics:Array(String)})"
BEFORE = f"SELECT {_FIELDS} FROM metric_daily FINAL WHERE {_WHERE} AND day IN {{days:Array(Date32)}}"  # noqa: S608 - no value
READ = (
    f"SELECT {_FIELDS} FROM metric_daily FINAL WHERE {_WHERE} "  # noqa: S608 - values are bound
    "AND ({grain:String} = '' OR grain = {grain:String}) AND day BETWEEN {start:Date32} AND {end:Date32} "
    "ORDER BY metric, grain, grain_id, day, definition_v"
)
LATEST = "SELECT max(computed_at) FROM metric_daily WHERE org_id = {org_id:UUID} AND day IN {days:Array(Date32)}"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Key:
    """What one row is about, within its organisation."""

    metric: str
    definition_v: int
    grain: str
    grain_id: str
    day: date


class ClickHouseMetrics:
    """Keeps metrics in ClickHouse. Safe for greenlets; opens at the first call."""

    def __init__(self, client: ClickHouse) -> None:
        self._client = client

    def replace(
        self, tx: Transaction, org_id: UUID, metrics: Sequence[str], days: Sequence[date], rows: Sequence[MetricRow]
    ) -> None:
        """Make `rows` all there is of `metrics` on `days`; see `MetricSink`."""
        given, wanted = _storable(rows), [day for day in days if FIRST_DAY <= day <= LAST_DAY]
        if not wanted:
            return
        asked: dict[str, object] = {"org_id": org_id, "metrics": list(metrics), "days": wanted}
        before = [_row(row) for row in self._client.query(BEFORE, asked)]
        _keep(tx)
        (latest,) = self._client.query(LATEST, asked)[0]
        at = _later(tx, latest)
        added = [*given, *_retracted(before, given)]
        for first in range(0, len(added), BLOCK_ROWS):
            _keep(tx)
            block = [_values(row, at, org_id) for row in added[first : first + BLOCK_ROWS]]
            self._client.insert("metric_daily", COLUMNS, block)

    def read(
        self,
        tx: Transaction,  # noqa: ARG002 - the contract's
        org_id: UUID,
        *,
        metrics: Sequence[str] = (),
        grain: str | None = None,
        start: date | None = None,
        end: date | None = None,
    ) -> list[MetricRow]:
        """The rows of an organisation; see `MetricSink`."""
        first, last = max(start or FIRST_DAY, FIRST_DAY), min(end or LAST_DAY, LAST_DAY)
        if first > last:
            return []  # ClickHouse would move the days to the ends of its own
        asked: dict[str, object] = {
            "org_id": org_id,
            "metrics": list(metrics),
            "grain": grain or "",
            "start": first,
            "end": last,
        }
        return [_row(row) for row in self._client.query(READ, asked)]

    def close(self) -> None:
        """Close the connections to ClickHouse."""
        self._client.close()


def _row(values: Row) -> MetricRow:
    metric, version, grain, grain_id, day, value, num, den, n, coverage, watermark, at = values
    return MetricRow(metric, version, grain, grain_id, day, value, num, den, n, float(coverage), watermark, at)


def _values(row: MetricRow, at: datetime, org_id: UUID) -> tuple[object, ...]:
    """What COLUMNS name, in their order. Written out: dataclasses.astuple takes a second for 30,000 rows."""
    return (
        row.metric, row.definition_v, row.grain, row.grain_id, row.day, row.value, row.num, row.den, row.n,
        row.coverage, row.input_watermark, at, org_id,
    )  # fmt: skip


def _storable(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """The rows of days that ClickHouse has. Others come of commits whose clock was wrong by centuries."""
    kept = [row for row in rows if FIRST_DAY <= row.day <= LAST_DAY]
    if len(kept) < len(rows):
        log.warning("metrics.days_left_out", rows=len(rows) - len(kept), first=str(FIRST_DAY), last=str(LAST_DAY))
    return kept


def _retracted(before: Iterable[MetricRow], given: Iterable[MetricRow]) -> list[MetricRow]:
    """An empty row for each key that had evidence and has none now."""
    known = {_key(row) for row in given}
    return [replace(row, value=None, num=0.0, den=0.0, n=0) for row in before if row.n and _key(row) not in known]


def _key(row: MetricRow) -> _Key:
    return _Key(row.metric, row.definition_v, row.grain, row.grain_id, row.day)


def _keep(tx: Transaction) -> None:
    """Say something to Postgres before the next call of ClickHouse: it ends a transaction that is idle for 10 s."""
    tx.execute(text("SELECT 1"))


def _later(tx: Transaction, latest: datetime) -> datetime:
    """Now, by Postgres's clock in milliseconds, or a millisecond after `latest` where that clock was set back."""
    now: datetime = tx.execute(text("SELECT date_trunc('milliseconds', clock_timestamp())")).scalar_one()
    return max(now.astimezone(UTC), latest.astimezone(UTC) + timedelta(milliseconds=1))

"""The sync-health report: how completely an organisation was read in a period, and what stands in the way. Pure.

Facts go in, content comes out; `sync_health_text` says the same content in Markdown. The same facts give the same content:
ages are taken at the end of the period, not at the time of rendering.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from worker_app.metrics import days
from worker_app.metrics.days import Reading
from worker_app.reports.period import Period
from worker_app.store.metrics import MetricRow
from worker_app.store.reports import BatchCount, DatasetLine, Fault, RunCount, SlotCount
from worker_app.store.sources import Org

TEMPLATE = "sync-health"
DEFINITION_V = 1  # of the numbers below; a changed formula raises it
ENOUGH = 0.95  # coverage below which a number has no trend and the sources that are missing are named
CLOSED_RUNS = ("succeeded", "partial", "failed", "cancelled", "lost")
CLOSED_BATCHES = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened in one period, and the metric rows of the organisation for its days."""

    runs: Sequence[RunCount]
    batches: Sequence[BatchCount]
    slots: Sequence[SlotCount]
    rows: Sequence[MetricRow]  # of grain org


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the report is made from."""

    org: Org
    period: Period
    datasets: Sequence[DatasetLine]
    faults: Sequence[Fault]
    now: Activity  # in the period
    before: Activity  # in the one before it


@dataclass(frozen=True, slots=True)
class Number:
    """One number with what it takes to judge it. The field names are public."""

    name: str  # days_read, runs_not_succeeded, batches_failed, slots_skipped
    value: float | None  # num / den; None: no evidence
    num: int
    den: int
    n: int  # sample size
    coverage: float | None  # mean of the period's days
    definition_v: int
    input_watermark: datetime | None
    previous: float | None  # of the period before
    trend: str | None  # up, down, same; None: no evidence, or coverage below 0.95 in one of the periods


@dataclass(frozen=True, slots=True)
class DayLine:
    """A day that was not read to its end by enough sources. The field names are public."""

    day: date
    coverage: float
    n: int  # sources that the organisation has
    definition_v: int | None  # of the day's metric rows; None: it has none, its coverage is what the cursors say
    input_watermark: datetime | None
    missing: int  # sources that have not been read to its end; 0: all have, since its metrics were computed


@dataclass(frozen=True, slots=True)
class MissingLine:
    """A source that was not read to the end of the period. The field names are public."""

    source: str
    provider: str
    id: UUID
    missing_from: date  # the first day that was not read to its end
    read_until: datetime | None  # the start of its last complete walk; None: there was none


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source with one of its datasets. The field names are public."""

    source: str
    provider: str
    id: UUID
    state: str
    reason: str | None
    dataset: str | None
    walk_began_at: datetime | None  # of the last complete walk
    age_seconds: float | None  # from there to the end of the period, 0 where it began later
    ended: str | None  # how the newest batch of the period ended
    ended_at: datetime | None
    error_class: str | None


@dataclass(frozen=True, slots=True)
class DisabledLine:
    """A dataset that is not read any more. The field names are public."""

    source: str
    provider: str
    dataset: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Content:
    """What the report says. The field names are public."""

    org: Org
    period_from: date
    period_to: date  # included
    as_of: datetime
    is_over: bool  # False: the last day is still going on
    input_watermark: datetime | None  # the oldest cursor of the sources; None while one was never read
    sources_count: int
    numbers: tuple[Number, ...]
    days_below: tuple[DayLine, ...]
    missing_sources: tuple[MissingLine, ...]
    sources: tuple[SourceLine, ...]
    runs: tuple[RunCount, ...]
    errors: tuple[BatchCount, ...]  # failed batches by the class of their error
    disabled_datasets: tuple[DisabledLine, ...]
    schedules: tuple[Fault, ...]  # those that cannot be served
    slots: tuple[SlotCount, ...]


def content(facts: Facts) -> Content:
    """What the report of a period says, every list in an order of its own."""
    period, lines = facts.period, sorted(facts.datasets, key=_place)
    starts = _starts(lines)
    watermark = days.reading(starts.values(), period.as_of).input_watermark
    read = _days(period, facts.now.rows, starts)
    return Content(
        org=facts.org,
        period_from=period.first,
        period_to=period.last,
        as_of=period.as_of,
        is_over=period.is_over,
        input_watermark=watermark,
        sources_count=len(starts),
        numbers=_numbers(facts, read, _days(period.before(), facts.before.rows, starts), watermark),
        days_below=tuple(line for line in read if line.coverage < ENOUGH),
        missing_sources=_missing(period, lines, starts),
        sources=tuple(_source(line, period.as_of) for line in lines),
        runs=tuple(sorted(facts.now.runs, key=lambda item: (item.kind, item.state))),
        errors=tuple(
            sorted(
                (item for item in facts.now.batches if item.state == "failed"),
                key=lambda item: (-item.n, item.error_class or ""),
            )
        ),
        disabled_datasets=tuple(
            DisabledLine(line.source, line.provider, _dataset(line) or "", line.disabled_reason)
            for line in lines
            if line.is_disabled
        ),
        schedules=tuple(sorted(facts.faults, key=lambda item: str(item.id))),
        slots=tuple(sorted(facts.now.slots, key=lambda item: item.outcome)),
    )


def document(found: Content) -> dict[str, Any]:
    """The content as JSON can hold it: times in UTC with `Z`, days and ids as text."""
    body: dict[str, Any] = json.loads(json.dumps({"template": TEMPLATE, **asdict(found)}, default=_as_text))
    return body


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)


def _place(line: DatasetLine) -> tuple[str, ...]:
    return line.source, line.provider, str(line.source_id), line.dataset or "", line.scope


def _dataset(line: DatasetLine) -> str | None:
    return f"{line.dataset}/{line.scope}" if line.scope else line.dataset


def _starts(lines: Iterable[DatasetLine]) -> dict[UUID, datetime | None]:
    """For each source when the last complete walk of its most backward dataset began. A disabled dataset holds nobody up."""
    starts: dict[UUID, datetime | None] = {}
    for source_id, found in groupby(lines, key=lambda line: line.source_id):
        known = [line.began_at for line in found if not line.is_disabled]
        starts[source_id] = None if not known or None in known else min(at for at in known if at is not None)
    return starts


def _days(period: Period, rows: Sequence[MetricRow], starts: Mapping[UUID, datetime | None]) -> list[DayLine]:
    """How completely each day that is over was read: as its metric rows say, or, without any, as the cursors say.

    A day on which nothing was found has no rows, whether it was quiet or not read. A day is left out where nobody knows: it
    has no rows, and the organisation no source.
    """
    by_day: defaultdict[date, list[MetricRow]] = defaultdict(list)
    for row in rows:
        by_day[row.day].append(row)
    found = []
    for day in period.days_over():
        end = days.end_of(day, period.zone)
        if day in by_day:
            version, seen = _seen(by_day[day])
        elif starts:
            version, seen = None, days.reading(starts.values(), end)
        else:
            continue
        missing = sum(start is None or start < end for start in starts.values())
        found.append(DayLine(day, seen.coverage, len(starts), version, seen.input_watermark, missing))
    return found


def _seen(rows: Sequence[MetricRow]) -> tuple[int, Reading]:
    """The newest definition among a day's rows, and the worst that its rows say of the reading."""
    version = max(row.definition_v for row in rows)
    newest = [row for row in rows if row.definition_v == version]
    marks = [row.input_watermark for row in newest]
    mark = None if None in marks else min(mark for mark in marks if mark is not None)
    return version, Reading(min(row.coverage for row in newest), mark)


def _missing(
    period: Period, lines: Iterable[DatasetLine], starts: Mapping[UUID, datetime | None]
) -> tuple[MissingLine, ...]:
    over = [(day, days.end_of(day, period.zone)) for day in period.days_over()]
    found = {}
    for line in lines:
        start = starts[line.source_id]
        missed = next((day for day, end in over if start is None or start < end), None)
        if missed is not None:
            found[line.source_id] = MissingLine(line.source, line.provider, line.source_id, missed, start)
    return tuple(found.values())


def _source(line: DatasetLine, as_of: datetime) -> SourceLine:
    began = line.began_at
    return SourceLine(
        source=line.source,
        provider=line.provider,
        id=line.source_id,
        state=line.state,
        reason=line.reason,
        dataset=_dataset(line),
        walk_began_at=began,
        age_seconds=None if began is None else max(0.0, (as_of - began).total_seconds()),
        ended=line.ended,
        ended_at=line.ended_at,
        error_class=line.error_class,
    )


@dataclass(frozen=True, slots=True)
class _Ratio:
    num: int
    den: int

    @property
    def value(self) -> float | None:
        return self.num / self.den if self.den else None


def _ratios(activity: Activity, lines: Sequence[DayLine]) -> dict[str, _Ratio]:
    """The numbers of one period: how many of how many."""
    runs = {state: sum(item.n for item in activity.runs if item.state == state) for state in CLOSED_RUNS}
    batches = {state: sum(item.n for item in activity.batches if item.state == state) for state in CLOSED_BATCHES}
    folded = sum(item.folded for item in activity.slots)
    slots = folded + sum(item.n for item in activity.slots)
    skipped = folded + sum(item.n for item in activity.slots if item.outcome.startswith("skipped"))
    return {
        "days_read": _Ratio(sum(line.coverage >= ENOUGH for line in lines), len(lines)),
        "runs_not_succeeded": _Ratio(sum(runs.values()) - runs["succeeded"], sum(runs.values())),
        "batches_failed": _Ratio(batches["failed"], sum(batches.values())),
        "slots_skipped": _Ratio(skipped, slots),
    }


def _numbers(
    facts: Facts, lines: Sequence[DayLine], lines_before: Sequence[DayLine], watermark: datetime | None
) -> tuple[Number, ...]:
    coverage, coverage_before = _mean(lines), _mean(lines_before)
    is_comparable = min(coverage or 0.0, coverage_before or 0.0) >= ENOUGH
    before = _ratios(facts.before, lines_before)
    return tuple(
        Number(
            name=name,
            value=ratio.value,
            num=ratio.num,
            den=ratio.den,
            n=ratio.den,
            coverage=coverage,
            definition_v=DEFINITION_V,
            input_watermark=watermark,
            previous=before[name].value,
            trend=_trend(ratio.value, before[name].value) if is_comparable else None,
        )
        for name, ratio in _ratios(facts.now, lines).items()
    )


def _mean(lines: Sequence[DayLine]) -> float | None:
    return round(sum(line.coverage for line in lines) / len(lines), 6) if lines else None


def _trend(value: float | None, previous: float | None) -> str | None:
    if value is None or previous is None:
        return None
    return "same" if value == previous else "up" if value > previous else "down"

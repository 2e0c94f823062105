"""Days: from local midnight to the next local midnight in an organisation's zone, and how completely one was read."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo


def start_of(day: date, zone: ZoneInfo) -> datetime:
    """The first moment of a local day, aware UTC; where midnight does not exist, the moment the gap ends."""
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)


def end_of(day: date, zone: ZoneInfo) -> datetime:
    """The first moment after a local day, aware UTC. A day has 23, 24 or 25 hours."""
    return start_of(day + timedelta(days=1), zone) if day < date.max else datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reading:
    """How far the sources of one grain have been read."""

    coverage: float  # 0 to 1: share of the sources whose last complete walk began after the end of the day
    input_watermark: datetime | None  # the oldest of their cursors; None while one was never read


def reading(complete_starts: Iterable[datetime | None], day_end: datetime) -> Reading:
    """The reading of a day that ends at `day_end`, from when each source's last complete walk began."""
    starts = list(complete_starts)
    if not starts:
        return Reading(coverage=0.0, input_watermark=None)
    known = [start for start in starts if start is not None]
    covered = sum(start >= day_end for start in known)
    watermark = min(known) if len(known) == len(starts) else None
    return Reading(coverage=covered / len(starts), input_watermark=watermark)

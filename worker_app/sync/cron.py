"""Cron: the slots of a line in UTC, strictly increasing and independent of the moment that asks.

croniter reads a line and says which days it matches; it only ever sees naive wall-clock times, and they are mapped to UTC
here: no cron library may be called from "now" with an aware time near a clock change. Debian's rule: a line whose minute or
hour field starts with `*` follows elapsed time, so it runs in both copies of a repeated hour and not in a gap; any other
follows the clock, so it runs once in a repeated hour and right after a gap.
Page: https://manpages.debian.org/stable/cron/cron.8.en.html
"""

import re
import zoneinfo
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

from worker_app import errors

ENGINES = {1: ("7.0.0", "2026.6")}  # number: croniter and tzdata whose slots it names; a new pair gets a new number
ENGINE = max(ENGINES)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
TIMES = tuple(timedelta(minutes=minute) for minute in range(24 * 60))  # shared by all lines: a line holds references
YEARS_AHEAD = 50  # a fifth Monday in February comes once in 28 or 40 years
CHANGES_WITHIN = timedelta(days=396)  # 13 months: every zone that changes its clock each year has both changes in it
RANDOM = re.compile(r"(?<![a-z])r(?![a-z])", re.IGNORECASE)  # croniter's R: another line at every look

# The zones of the package that is pinned, never those of the host: two hosts would name two slots for the same line.
zoneinfo.reset_tzpath(to=())


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is understood: every one of `times` on every day that `day_fields` match."""

    is_by_clock: bool  # follows the clock; else it follows elapsed time
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    times: tuple[timedelta, ...]  # since midnight, ascending
    day_fields: str  # day of month, month, day of week


@dataclass(frozen=True, slots=True)
class ClockChange:
    """What one change of a zone's clock does to a line."""

    at: datetime  # aware UTC: the first moment with the new offset
    offset_before: str  # as +HH:MM
    offset_after: str
    effect: str  # a sentence for people


@lru_cache(4096)
def read(cron: str) -> Line:
    """The line of five plain fields. Raises UsageError that says what is wrong with it."""
    fields = cron.split()
    if len(fields) != 5 or any(RANDOM.search(field) for field in fields):
        raise errors.UsageError(f"cron is {cron!r}: give five plain fields, none of them drawn at random")
    try:
        expanded = croniter.expand(cron)[0]
    except (CroniterError, ValueError, KeyError) as error:
        raise errors.UsageError(f"cron is {cron!r}: {error}") from None
    minutes, hours = _values(expanded[0], range(60)), _values(expanded[1], range(24))
    return Line(
        is_by_clock=not (fields[0].startswith("*") or fields[1].startswith("*")),
        minutes=minutes,
        hours=hours,
        times=tuple(TIMES[hour * 60 + minute] for hour in hours for minute in minutes),
        day_fields=" ".join(fields[2:]),
    )


def _values(field: Sequence[int | str], every: range) -> tuple[int, ...]:
    """The numbers of an expanded field, ascending; a `*` in it stands for every one."""
    return tuple(every) if "*" in field else tuple(sorted(int(value) for value in field))


@lru_cache(4096)
def months(day_fields: str) -> tuple[int, ...]:
    """The months that the fields for the day name, 1 to 12."""
    return _values(croniter.expand(f"0 0 {day_fields}")[0][3], range(1, 13))


@lru_cache(16_384)
def days(day_fields: str, year: int, month: int) -> frozenset[int]:
    """The days of a month that the fields for the day match."""
    if month not in months(day_fields):
        return frozenset()
    before = datetime(year, month, 1) - MINUTE  # noqa: DTZ001 - croniter only sees naive times
    # It looks a year ahead and then ends; without that limit it searches fifty years for a day that never is.
    walls: Iterator[datetime] = croniter(f"0 0 {day_fields}", before, max_years_between_matches=1).all_next(datetime)
    return frozenset(wall.day for wall in takewhile(lambda wall: (wall.year, wall.month) == (year, month), walls))


def next_after(cron: str, zone: str, after: datetime) -> datetime:
    """First slot strictly after `after`, in UTC. The answer does not depend on where between two slots `after` lies."""
    return _next(cron, zone, after.astimezone(UTC).replace(second=0, microsecond=0))


def slots(cron: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The slots after `after`, in UTC, without end."""
    while True:
        after = next_after(cron, zone, after)
        yield after


def slots_between(cron: str, zone: str, first: datetime, last: datetime) -> list[datetime]:
    """Every slot from `first` to `last`, both included, ascending, in UTC: what the chain of `next_after` gives.

    It walks the days of the window once instead of asking for slot after slot: an outage of a day costs a tick microseconds
    a job. Not cached: a week of minutes is half a megabyte, and no two jobs need share their first slot.
    """
    low = first.astimezone(UTC)
    if low > (whole := low.replace(second=0, microsecond=0)):
        low = whole + MINUTE
    high = last.astimezone(UTC)
    if low > high:
        return []
    line, tz = read(cron), ZoneInfo(zone)
    found: list[datetime] = []
    # A day more on either side: a wall time in a gap is served after it, and a zone may skip a whole day.
    day, end = low.astimezone(tz).date() - DAY, high.astimezone(tz).date() + DAY
    while day <= end:
        if day.day in days(line.day_fields, day.year, day.month):
            found += _slots_of_day(line, tz, day)
        day += DAY
    return sorted({slot for slot in found if low <= slot <= high})


def _slots_of_day(line: Line, tz: ZoneInfo, day: date) -> list[datetime]:
    """The moments that serve the times of one day of a wall calendar."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=tz)
    # fold 0 of an ambiguous or missing time has the offset before the change, fold 1 the one after it
    marks = (midnight, midnight + DAY / 2, (midnight + DAY - MINUTE).replace(fold=1))
    offsets = {mark.utcoffset() or timedelta() for mark in marks}
    if len(offsets) == 1:  # an ordinary day
        start = midnight.replace(tzinfo=UTC) - offsets.pop()
        return [start + time for time in line.times]
    walls = [midnight.replace(tzinfo=None) + time for time in line.times]
    folds = (0,) if line.is_by_clock else (0, 1)
    return [slot for wall in walls for fold in folds if (slot := _served(line, wall, tz, fold)) is not None]


@lru_cache(65_536)
def _next(cron: str, zone: str, after: datetime) -> datetime:
    line, tz = read(cron), ZoneInfo(zone)
    offsets = {_utcoffset(after + timedelta(hours=hours), tz) for hours in (-26, 0, 26)}
    shift = max(offsets) - min(offsets)  # zero on an ordinary day
    anchor = after.astimezone(tz).replace(tzinfo=None)
    if _utcoffset(after + shift, tz) < _utcoffset(after, tz):
        anchor -= shift  # the clock is about to be set back: what it has shown comes once more
    folds = (0, 1) if shift and not line.is_by_clock else (0,)
    found = [slot for fold in folds if (slot := _first(line, tz, anchor, after, fold)) is not None]
    if not found:
        raise errors.UsageError(f"cron is {cron!r}: it has no further slot")
    return min(found)


def _first(line: Line, tz: ZoneInfo, anchor: datetime, after: datetime, fold: int) -> datetime | None:
    for wall in _walls(line, anchor):
        instant = _served(line, wall, tz, fold)
        if instant is not None and instant > after:
            return instant
    return None


def _walls(line: Line, after: datetime) -> Iterator[datetime]:
    """The wall times of a line after `after`, ascending, for the next fifty years."""
    midnight = after.replace(hour=0, minute=0)
    if after.day in days(line.day_fields, after.year, after.month):
        yield from (midnight + time for time in line.times[bisect_right(line.times, after - midnight) :])
    for ahead in range(YEARS_AHEAD * 12):
        year, month = divmod(after.year * 12 + after.month - 1 + ahead, 12)
        for day in sorted(days(line.day_fields, year, month + 1)):
            if ahead or day > after.day:
                midnight = datetime(year, month + 1, day)  # noqa: DTZ001 - a wall clock has no zone
                yield from (midnight + time for time in line.times)


def _served(line: Line, wall: datetime, tz: ZoneInfo, fold: int) -> datetime | None:
    """The moment that serves a wall time: in a gap, the end of it for a line that follows the clock, else None."""
    instant = _instant(wall, tz, fold)
    while instant is None and line.is_by_clock:
        wall += MINUTE
        instant = _instant(wall, tz, fold)
    return instant


def _instant(wall: datetime, tz: ZoneInfo, fold: int) -> datetime | None:
    """The moment at which the clock shows `wall`; None where it never does."""
    instant = wall.replace(tzinfo=tz, fold=fold).astimezone(UTC)
    return instant if instant.astimezone(tz).replace(tzinfo=None) == wall else None


def clock_changes(cron: str, zone: str, now: datetime, count: int = 2) -> list[ClockChange]:
    """The next changes of the zone's clock, `count` of them at most, within 13 months, and what they do to the line."""
    tz = ZoneInfo(zone)
    found = islice(_changes(tz, now.astimezone(UTC).replace(microsecond=0)), count)
    return [
        ClockChange(at, _offset(at - MINUTE, tz), _offset(at, tz), _effect(cron, zone, at, before, after))
        for at, before, after in found
    ]


def _changes(tz: ZoneInfo, now: datetime) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    """The changes after `now`, with the offsets before and after them."""
    for ahead in range(CHANGES_WITHIN // DAY):
        low, high = now + ahead * DAY, now + (ahead + 1) * DAY
        before, after = _utcoffset(low, tz), _utcoffset(high, tz)
        if before != after:
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // 2
                middle -= timedelta(microseconds=middle.microsecond)
                low, high = (middle, high) if _utcoffset(middle, tz) == before else (low, middle)
            yield high, before, after


def _effect(cron: str, zone: str, at: datetime, before: timedelta, after: timedelta) -> str:
    line, tz, length = read(cron), ZoneInfo(zone), abs(after - before)
    span = "hour" if length == timedelta(hours=1) else f"{length // MINUTE} min"
    start, end = ((at + offset).replace(tzinfo=None) for offset in sorted((before, after)))
    within = f"{start:%H:%M} to {end:%H:%M}"
    if after > before:
        missing = list(takewhile(lambda wall: wall < end, _walls(line, start - MINUTE)))
        if missing and line.is_by_clock:
            return _moved(cron, zone, at, missing)
        if missing:
            return (
                f"no slot in the {span} that is skipped ({within}): {_clock(missing)} {_fall(missing)} out on this day"
            )
    else:
        first = [slot.astimezone(tz) for slot in slots_between(cron, zone, at - length, at - MINUTE)]
        second = slots_between(cron, zone, at, at + length - MINUTE)
        if second:
            total = len(first) + len(second)
            return f"runs in both copies of the repeated {span} ({within}): {total} slots instead of {len(first)}"
        if len(first) == 1:
            wall, old, new = f"{first[0]:%H:%M}", _offset(at - MINUTE, tz), _offset(at, tz)
            return f"runs once at {wall}{old}; the second {wall} ({new}) has no slot"
        if first:
            copies = f"({_offset(at - MINUTE, tz)}) at {_clock(first)}; the second copy ({_offset(at, tz)}) has no slot"
            return f"runs once, in the first copy of the repeated {span} {copies}"
    return "not affected: no slot within the change"


def _moved(cron: str, zone: str, at: datetime, missing: Sequence[datetime]) -> str:
    """What becomes of wall times in a gap, for a line that follows the clock."""
    tz = ZoneInfo(zone)
    local, following = at.astimezone(tz), next_after(cron, zone, at)
    does, runs = ("does", "it runs") if len(missing) == 1 else ("do", "they run as one slot")
    text = f"{_clock(missing)} {does} not exist on this day: {runs} at {local:%H:%M}{_offset(at, tz)}"
    if local.replace(tzinfo=None) in islice(_walls(read(cron), local.replace(tzinfo=None) - MINUTE), 1):
        return f"{text}, together with the slot of {local:%H:%M}"
    if following - at < timedelta(hours=1):
        return f"{text}, {(following - at) // MINUTE} min before the slot of {following.astimezone(tz):%H:%M}"
    return text


def _clock(walls: Sequence[datetime]) -> str:
    """Wall times as a person reads them."""
    if len(walls) > 4:
        return f"{walls[0]:%H:%M} to {walls[-1]:%H:%M} ({len(walls)} slots)"
    return ", ".join(f"{wall:%H:%M}" for wall in walls)


def _fall(walls: Sequence[datetime]) -> str:
    return "falls" if len(walls) == 1 else "fall"


def _utcoffset(at: datetime, tz: ZoneInfo) -> timedelta:
    return at.astimezone(tz).utcoffset() or timedelta()


def _offset(at: datetime, tz: ZoneInfo) -> str:
    """The offset at a moment, as +HH:MM."""
    return at.astimezone(tz).isoformat(timespec="minutes")[-6:]


def check_zone(zone: str) -> str:
    """`zone` if it is an IANA name; raises UsageError, never falls back to UTC."""
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise errors.UsageError(
            f"time zone is {zone!r}: it is no IANA name; give one like UTC or Europe/Berlin"
        ) from None
    return zone

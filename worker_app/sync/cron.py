"""Cron: the slots of a schedule in UTC, strictly increasing and independent of the moment that asks.

croniter only ever sees naive wall-clock times, and they are mapped to UTC here: no cron library may be called from "now"
with an aware time near a clock change. Debian's rule: a line whose minute or hour field starts with `*` follows elapsed
time, so it runs in both copies of a repeated hour and not in a gap; any other follows the clock, so it runs once in a
repeated hour and right after a gap. Page: https://manpages.debian.org/stable/cron/cron.8.en.html
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from uuid import UUID
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

from worker_app import errors

MINUTE = timedelta(minutes=1)
HORIZON = timedelta(days=5 * 366)  # a line without a slot in five years is a mistake
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 28), ("month", 1, 12), ("day of week", 0, 6))
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
SAMPLE = 400  # slots that the distance check looks at: more than a day of five-minute slots


def next_after(cron: str, zone: str, after: datetime) -> datetime:
    """First slot strictly after `after`, in UTC. The answer does not depend on where between two slots `after` lies."""
    return _next(cron, zone, after.astimezone(UTC).replace(second=0, microsecond=0))


def slots(cron: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The slots after `after`, in UTC, without end."""
    while True:
        after = next_after(cron, zone, after)
        yield after


@lru_cache(65_536)
def _next(cron: str, zone: str, after: datetime) -> datetime:
    tz = ZoneInfo(zone)
    by_clock = not any(field.startswith("*") for field in cron.split()[:2])
    offsets = {(after + timedelta(hours=hours)).astimezone(tz).utcoffset() or timedelta() for hours in (-26, 0, 26)}
    shift = max(offsets) - min(offsets)  # zero on an ordinary day
    anchor = after.astimezone(tz).replace(tzinfo=None) - shift  # canonical: before every candidate
    folds = (0, 1) if shift and not by_clock else (0,)
    return min(_first(cron, tz, anchor, after, fold, by_clock) for fold in folds)


def _first(cron: str, tz: ZoneInfo, anchor: datetime, after: datetime, fold: int, by_clock: bool) -> datetime:
    walls: Iterator[datetime] = croniter(cron, anchor, ret_type=datetime)
    for wall in walls:
        instant = _instant(wall, tz, fold)
        while instant is None and by_clock:
            wall += MINUTE
            instant = _instant(wall, tz, fold)
        if instant is not None and instant > after:
            return instant
    raise errors.UsageError(f"cron {cron!r} has no further slot")


def _instant(wall: datetime, tz: ZoneInfo, fold: int) -> datetime | None:
    """The moment at which the clock shows `wall`; None where it never does."""
    instant = wall.replace(tzinfo=tz, fold=fold).astimezone(UTC)
    return instant if instant.astimezone(tz).replace(tzinfo=None) == wall else None


def check_zone(zone: str) -> str:
    """`zone` if it is an IANA name; raises UsageError, never falls back to UTC."""
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise errors.UsageError(
            f"time zone is {zone!r}: it is no IANA name; give one like UTC or Europe/Berlin"
        ) from None
    return zone


def expand(source: str, job_id: UUID) -> str:
    """The five plain fields of a line as typed: macros and `H` resolved, the same for the same job for ever.

    Raises UsageError that names the line, what is wrong with it and the remedy.
    """
    fields = MACROS.get(source.strip().lower(), source).split()
    if len(fields) != len(FIELDS):
        raise errors.UsageError(
            f"cron is {source!r}: it has {len(fields)} fields; give minute hour day month weekday, or @daily"
        )
    plain = " ".join(_plain(field, index, job_id) for index, field in enumerate(fields))
    if all(field != "*" for field in (fields[2], fields[4])) and any(
        field.startswith("*/") for field in (fields[2], fields[4])
    ):
        raise errors.UsageError(
            f"cron is {source!r}: day of month and day of week are both set and one starts with */; "
            "engines disagree whether that means AND or OR, so use one of them"
        )
    try:
        croniter(plain, datetime(2026, 1, 1))  # noqa: DTZ001 - croniter only sees naive times
    except (CroniterError, ValueError, KeyError) as error:
        raise errors.UsageError(f"cron is {source!r}: {error}") from None
    return plain


def _plain(field: str, index: int, job_id: UUID) -> str:
    name, low, high = FIELDS[index]

    def chosen(match: re.Match[str]) -> str:
        first, last = (int(match["low"]), int(match["high"])) if match["low"] else (low, high)
        step = int(match["step"]) if match["step"] else None
        if not low <= first <= last or step == 0:
            raise errors.UsageError(
                f"cron field {name} is {field!r}: H takes (low-high) within {low} and up, and a step above 0"
            )
        span = (step or last - first + 1) or 1
        digest = hashlib.sha256(f"{job_id}{name}".encode()).digest()
        value = first + int.from_bytes(digest[:8], "big") % min(span, last - first + 1)
        return f"{value}-{last}/{step}" if step and value + step <= last else str(value)

    return re.sub(r"\bH(?:\((?P<low>\d+)-(?P<high>\d+)\))?(?:/(?P<step>\d+))?", chosen, field)


def check_distance(cron: str, zone: str, now: datetime, least_seconds: int) -> datetime:
    """The first slot after `now`; raises UsageError for a line that never runs or runs too often."""
    try:
        first = next_after(cron, zone, now)
    except CroniterError:
        first = now + 2 * HORIZON
    if first > now + HORIZON:
        raise errors.UsageError(f"cron is {cron!r}: it has no slot in the next five years")
    found = [first, *(slot for slot, _ in zip(slots(cron, zone, first), range(SAMPLE), strict=False))]
    closest = min(later - earlier for earlier, later in pairwise(found))
    if closest < timedelta(seconds=least_seconds):
        raise errors.UsageError(
            f"cron is {cron!r}: two slots are {closest.total_seconds():.0f} s apart and the least is {least_seconds} s; "
            f"the next line that fits is `*/{max(1, least_seconds // 60)} * * * *`"
        )
    return first

"""Cron lines as people write them: macros and `H` become five plain fields, and what cannot be is refused with what can.

A line is judged here once, when it is written. What it means at a moment is not known here; `cron` says that.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

from worker_app import errors
from worker_app.sync import cron
from worker_app.sync.cron import DAY, Line

HORIZON = 5 * 366 * DAY  # a line without a slot in five years is a mistake
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
NAMES = ("minute", "hour", "day of month", "month", "day of week")
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
LENGTH = 200  # characters of a line: a list of every minute has 169
MACRO_NAMES = "@yearly, @monthly, @weekly, @daily, @hourly"
DRAWN = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))  # what a bare H is drawn from: days that every month has
CYCLES = {0: 60, 1: 24, 3: 12, 4: 7}  # field -> values after which it begins again; months differ in their days
H = re.compile(r"H(?:\((?P<low>\d{1,2})-(?P<high>\d{1,2})\))?(?:/(?P<step>\d{1,2}))?")
STEP = re.compile(r"/(\d{1,9})(?!\d)")
DAYS_OF_MONTH = {2: 28, 4: 30, 6: 30, 9: 30, 11: 30}  # fewer than 31, in every year
FALLBACK_DAYS = ("* * 1", "1 * *", "1 1 *")  # a week, a month, a year apart


def expand(source: str, job_id: UUID) -> str:
    """The five plain fields of a line as typed: macros and `H` resolved, the same for the same job for ever.

    Raises UsageError that names the line, the field, its value and the remedy.
    """
    if len(source) > LENGTH:
        raise errors.UsageError(
            f"cron is {source[:40]!r}…, {len(source)} characters long: it takes up to {LENGTH}; write a range or a step, or use "
            "several schedules"
        )
    fields = MACROS.get(source.strip().lower(), source).split()
    if source.strip().startswith("@") and len(fields) != len(NAMES):
        raise errors.UsageError(
            f"cron is {source!r}: there is no such macro; there is {MACRO_NAMES}, or give five fields"
        )
    if len(fields) != len(NAMES):
        raise errors.UsageError(
            f"cron is {source!r}: it has {len(fields)} fields; give minute hour day month weekday, or @daily"
        )
    plain = [_plain(source, index, field, job_id) for index, field in enumerate(fields)]
    if "*" not in (plain[2], plain[4]) and (plain[2].startswith("*/") or plain[4].startswith("*/")):
        raise errors.UsageError(
            f"cron is {source!r}: day of month is {fields[2]!r} and day of week is {fields[4]!r}, and one starts with */; "
            "engines disagree whether that means AND or OR, so let one of them be *"
        )
    cron.read(" ".join(plain))
    return " ".join(plain)


def _plain(source: str, index: int, field: str, job_id: UUID) -> str:
    """One field with each `H` drawn; raises UsageError for a field that does not stand on its own."""
    if cron.RANDOM.search(field):
        raise _wrong(source, index, field, "R would be drawn anew at every look; H is drawn once and stays")
    low, high = RANGES[index]
    if any(int(step) > high - low + 1 for step in STEP.findall(field)):
        raise _wrong(source, index, field, f"a step above {high - low + 1} never comes; name the one value instead")
    plain = ",".join(_drawn(source, index, field, part, job_id) for part in field.split(","))
    try:
        cron.read(" ".join(plain if at == index else "*" for at in range(len(NAMES))))
    except errors.UsageError:
        remedy = f"it takes {low} to {high}, a list like {low},{low + 2}, a range like {low}-{low + 4}, a step like */2, or H"
        raise _wrong(source, index, field, remedy) from None
    return plain


def _drawn(source: str, index: int, field: str, part: str, job_id: UUID) -> str:
    match = H.fullmatch(part)
    if match is None:
        if re.search(r"\bH", part):
            raise _wrong(source, index, field, "H stands alone, or as H(low-high), H/step or H(low-high)/step")
        return part
    low, high = RANGES[index]
    first, last = (int(match["low"]), int(match["high"])) if match["low"] else DRAWN[index]
    step = int(match["step"]) if match["step"] else None
    if not low <= first <= last <= high or step == 0:
        raise _wrong(source, index, field, f"H takes (low-high) within {low} and {high}, and a step above 0")
    size = last - first + 1
    digest = hashlib.sha256(f"{job_id}{NAMES[index]}".encode()).digest()
    spread = min(step or size, size)
    # A step that does not divide its cycle leaves a rest: begun within that, its last value and the first of the next cycle
    # would lie closer than the step, and the same line would be right for one job and too frequent for another.
    rest = size % spread if size == CYCLES.get(index) else 0
    value = first + rest + int.from_bytes(digest[:8], "big") % (spread - rest)
    return f"{value}-{last}/{step}" if step and value + step <= last else str(value)


def _wrong(source: str, index: int, field: str, remedy: str) -> errors.UsageError:
    return errors.UsageError(f"cron is {source!r}: {NAMES[index]} is {field!r}: {remedy}")


def check_distance(plain: str, zone: str, now: datetime, least_seconds: int, typed: str | None = None) -> datetime:
    """The first slot after `now`; raises UsageError for a line that never runs or runs too often, and names one that fits.

    The distance is judged by the clock on the wall, so a line is right or wrong in every zone and at every moment. A clock
    change can bring two of its slots closer, once a year: `3 2,3 * * *` runs at 03:00 and 03:03 where 02:03 is skipped. That
    burdens nobody, the overlap rule covers it and `clock_changes` says it, and to refuse it would make `H 2,3 * * *` right or
    wrong by what is drawn.
    """
    least = timedelta(seconds=least_seconds)
    shown = f"cron is {typed or plain!r}" + (f", which is {plain!r} here" if typed not in (None, plain) else "")
    first = _first_slot(plain, zone, now)
    if first is None:
        raise errors.UsageError(
            f"{shown}: day of month is {plain.split()[2]!r}, month is {plain.split()[3]!r} and day of week is "
            f"{plain.split()[4]!r}, which no day of the next five years is; {_suggestion(plain, zone, now, least)}"
        )
    closest, earlier, later = _closest(cron.read(plain), now)
    if closest < least:
        next_day = "" if later > earlier else " of the next day it runs"
        raise errors.UsageError(
            f"{shown}: two slots ({_time(earlier)} and {_time(later)}{next_day}) are {closest.total_seconds():.0f} s apart "
            f"and the least is {least_seconds} s (SCHEDULE_MIN_INTERVAL_SECONDS); {_suggestion(plain, zone, now, least)}"
        )
    return first


def _first_slot(plain: str, zone: str, now: datetime) -> datetime | None:
    """The first slot within the horizon."""
    try:
        first = cron.next_after(plain, zone, now)
    except errors.UsageError:
        return None
    return first if first <= now + HORIZON else None


def _closest(line: Line, now: datetime) -> tuple[timedelta, timedelta, timedelta]:
    """The least distance of two slots on the wall clock, and the times of day of the two.

    A line is the same times on each of its days, so it suffices to look at one day and at the two days that lie closest: no
    sample can miss a pair that comes once a year.
    """
    pairs = [(later - earlier, earlier, later) for earlier, later in pairwise(line.times)]
    gap = _closest_days(line.day_fields, now) - line.times[-1] + line.times[0]
    return min([*pairs, (gap, line.times[-1], line.times[0])])


def _closest_days(day_fields: str, now: datetime) -> timedelta:
    """The least distance of two days that the fields match, within the horizon and from the month of `now` on."""
    closest, latest = HORIZON, None
    for ahead in range(HORIZON // (30 * DAY)):
        year, month = divmod(now.year * 12 + now.month - 1 + ahead, 12)
        for day in sorted(cron.days(day_fields, year, month + 1)):
            at = datetime(year, month + 1, day)  # noqa: DTZ001 - a wall calendar has no zone
            if latest is not None:
                closest = min(closest, at - latest)
            latest = at
        if closest == DAY:  # no two days are closer
            break
    return closest


def _time(since_midnight: timedelta) -> str:
    hours, minutes = divmod(since_midnight // cron.MINUTE, 60)
    return f"{hours:02}:{minutes:02}"


def _suggestion(plain: str, zone: str, now: datetime, least: timedelta) -> str:
    """The line next to `plain` that passes: its days if they can be, then its hours, then its minutes are thinned out."""
    line = cron.read(plain)
    minute, hour, *_ = plain.split()
    for days in _day_candidates(line.day_fields):
        for hours in _candidates(hour, line.hours, 24, math.ceil(least / timedelta(hours=1))):
            for minutes in _candidates(minute, line.minutes, 60, math.ceil(least / cron.MINUTE)):
                candidate = f"{minutes} {hours} {days}"
                if _first_slot(candidate, zone, now) and _closest(cron.read(candidate), now)[0] >= least:
                    return f"the next line that fits is `{candidate}`"
    return "no line fits, so lower SCHEDULE_MIN_INTERVAL_SECONDS"


def _candidates(field: str, values: Sequence[int], size: int, least: int) -> Iterator[str]:
    """A field as it is, in steps that divide its range, as a list without what is too close, and with its first value alone."""
    yield field
    gaps = {later - earlier for earlier, later in pairwise(values)}
    wanted = max(least, *gaps, 1)  # never more often than the line itself
    step = next((step for step in range(wanted, size) if size % step == 0), None)
    if step and field.startswith("*"):
        yield f"*/{step}"
    elif step and len(values) > 2 and len(gaps) == 1 and values[0] + step <= values[-1]:
        yield f"{values[0]}-{values[-1]}/{step}"
    kept: list[int] = []
    for value in values:
        if not kept or value - kept[-1] >= least:
            kept.append(value)
    yield ",".join(map(str, kept))
    while len(kept) > 1 and kept[0] + size - kept[-1] < least:  # the first of the next hour is too close to the last
        kept.pop()
    yield ",".join(map(str, kept))
    yield str(values[0])


def _day_candidates(day_fields: str) -> Iterator[str]:
    """The fields for the day as they are, with a day that every named month has, and days further apart."""
    yield day_fields
    day, month, weekday = day_fields.split()
    last = min(DAYS_OF_MONTH.get(number, 31) for number in cron.months(day_fields))
    if day != "*":
        yield f"{last} {month} {weekday}"
    yield f"{day} {month} {weekday.replace('#5', '#4')}"
    yield from FALLBACK_DAYS

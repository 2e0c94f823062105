"""Ten thousand random (zone, line, base) against an independent library, and a walk minute by minute where it errs."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim

from worker_app.sync import cron

ZONES = (
    "UTC", "America/New_York", "Europe/Paris", "Australia/Lord_Howe", "America/Santiago", "Asia/Beirut", "Asia/Kathmandu",
    "Africa/Casablanca", "America/St_Johns", "Antarctica/Troll",
)  # fmt: skip
CASES = 1000  # a zone
NEAR = (2160, 180)  # minutes around a change of the clock; what goes wrong does so within a few hours of it
MINUTES = (
    "*",
    "*/5",
    "*/15",
    "*/20",
    "*/7",
    "0",
    "30",
    "45",
    "59",
    "15,45",
    "10-50/20",
    "59/15",
    "0,29,30,31",
    "5-59/10",
)
HOURS = ("*", "*/2", "*/3", "0", "1", "2", "3", "23", "1,2", "0-3", "22-23", "2-4/2", "9-17")
DAYS = (*["* * *"] * 8, "* * 1-5", "* * 0", "1 * *", "* * 0#1", "L * *", "13 * 5", "* 3,4,9,10,11 *", "31 2 0")
START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
SHORT = timedelta(hours=2)  # a walk of so many minutes is quick

PART_OF_AN_HOUR = "a zone that shifts by part of an hour"
NO_MIDNIGHT = "a day without a midnight"
CLASSES = {
    # cronsim sets the minute to 0 on the wall and goes on by whole elapsed hours, so on the day of the change it looks at
    # half past as if it were the full hour and comes late.
    PART_OF_AN_HOUR: "a line that follows elapsed time, on the day on which Lord Howe shifts by 30 minutes",
    # cronsim goes to the next day by setting the hour to 0 on the wall, takes a midnight that the clock skips for real, and
    # so serves 00:00 where there is none, or passes over the day.
    NO_MIDNIGHT: "a line that follows elapsed time, on or before a day whose midnight the clock skips",
}


def follows_elapsed_time(line: str) -> bool:
    return any(field.startswith("*") for field in line.split()[:2])


def oracle(line: str, zone: str, base: datetime) -> datetime:
    """The next slot by cronsim, from a canonical anchor: local midnight of the day before."""
    day = base.astimezone(ZoneInfo(zone)) - DAY
    anchor = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    return next(slot for found in CronSim(line, anchor) if (slot := found.astimezone(UTC)) > base)


def walk(line: str, zone: str, base: datetime) -> datetime:
    """The next slot by Debian's rule, told minute by minute on the zone's clock."""
    matcher, at = CronSim(line, START), base.replace(second=0, microsecond=0)

    def matches(wall: datetime) -> bool:
        return wall.minute in matcher.minutes and wall.hour in matcher.hours and matcher.match_day(wall.date())

    before = at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    while True:
        at += MINUTE
        shown = at.astimezone(ZoneInfo(zone))
        wall = shown.replace(tzinfo=None)
        if follows_elapsed_time(line):
            if matches(wall):
                return at
        elif not shown.fold:  # the first copy of a repeated hour, and whatever was skipped right before this minute
            skipped = range(max(1, (wall - before) // MINUTE))
            if any(matches(wall - back * MINUTE) for back in skipped):
                return at
        before = wall


def changes(zone: str) -> list[datetime]:
    starts = (START + year * 365 * DAY for year in range(3))
    return [change.at for start in starts for change in cron.clock_changes("0 0 1 1 *", zone, start)]


def disagreement(line: str, zone: str, ours: datetime, theirs: datetime) -> str | None:
    """The class of a disagreement; None: it has no right to be."""
    if not follows_elapsed_time(line):
        return None
    tz = ZoneInfo(zone)
    for change in changes(zone):
        before, after = ((change + way).astimezone(tz).utcoffset() or timedelta() for way in (-MINUTE, MINUTE))
        is_near = min(abs(ours - change), abs(theirs - change)) <= DAY
        if is_near and (after - before) % timedelta(hours=1):
            return PART_OF_AN_HOUR
        last_shown, first_shown = (change - MINUTE).astimezone(tz), change.astimezone(tz)
        if is_near and after > before and last_shown.date() < first_shown.date():
            return NO_MIDNIGHT
    return None


@pytest.mark.parametrize("zone", ZONES)
def test_next_slot_moves_forward_does_not_depend_on_the_base_and_equals_the_oracle(zone: str) -> None:
    rng, near = random.Random(f"cron {zone}"), changes(zone)
    counted: Counter[str] = Counter()
    for number in range(CASES):
        line = f"{rng.choice(MINUTES)} {rng.choice(HOURS)} {rng.choice(DAYS)}"
        base = START + rng.randrange(3 * 365 * 1440) * MINUTE
        if near and rng.random() < 0.75:
            around = rng.choice(NEAR)
            base = rng.choice(near) + rng.randrange(-around, around) * MINUTE
        base += timedelta(seconds=rng.choice((0, 0, 17, 59)))
        case = (zone, line, base.isoformat())
        ours = cron.next_after(line, zone, base)
        assert ours > base, case
        between = base + (ours - base) * rng.random()
        assert between >= ours or cron.next_after(line, zone, between) == ours, (*case, between.isoformat())
        theirs = oracle(line, zone, base)
        if theirs != ours:
            reason = disagreement(line, zone, ours, theirs)
            assert reason in CLASSES, (*case, ours.isoformat(), theirs.isoformat())
            counted[reason] += 1
        if theirs != ours or (number % 10 == 0 and ours - base < 2 * DAY):
            assert walk(line, zone, base) == ours, case
    assert counted.total() <= CASES // 10, counted
    assert counted.total() == 0 or zone in ("Australia/Lord_Howe", "America/Santiago", "Asia/Beirut"), counted
    print(zone, dict(counted))  # noqa: T201 - shown by `pytest -rP`


def test_next_slot_in_every_zone_there_is_moves_forward_and_does_not_depend_on_the_base() -> None:
    rng = random.Random(5)
    for zone in sorted(available_timezones()):
        line, near = f"{rng.choice(MINUTES)} {rng.choice(HOURS)} * * *", cron.clock_changes("0 0 1 1 *", zone, START, 1)
        base = (near[0].at if near else START) + rng.randrange(-1440, 1440) * MINUTE
        ours = cron.next_after(line, zone, base)
        between = base + (ours - base) * rng.random()
        assert base < ours == cron.next_after(line, zone, between), (zone, line, base)
        if ours - base < SHORT:
            assert walk(line, zone, base) == ours, (zone, line, base)


@pytest.mark.parametrize(
    ("line", "zone", "base", "reason"),
    [
        ("*/20 2 * * *", "Australia/Lord_Howe", "2028-03-31T20:08:00+00:00", PART_OF_AN_HOUR),
        ("*/5 0 * * 0", "America/Santiago", "2027-09-04T20:53:00+00:00", NO_MIDNIGHT),
    ],
)
def test_class_of_disagreement_is_not_imagined(line: str, zone: str, base: str, reason: str) -> None:
    at = datetime.fromisoformat(base)
    ours, theirs = cron.next_after(line, zone, at), oracle(line, zone, at)
    assert theirs != ours == walk(line, zone, at)
    assert disagreement(line, zone, ours, theirs) == reason

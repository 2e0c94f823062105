import random
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

import pytest
from croniter import croniter

from worker_app import errors
from worker_app.sync import cron, cron_lines

JOB = UUID("11111111-1111-4111-8111-111111111111")
MINUTE = timedelta(minutes=1)
ZONES = (
    "UTC", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Beirut", "Asia/Kathmandu", "Africa/Casablanca",
    "America/St_Johns", "Antarctica/Troll", "Pacific/Apia",
)  # fmt: skip
LINES = (
    "* * * * *", "*/15 * * * *", "30 1 * * *", "0 0 * * *", "59 23 * * 1-5", "7 */3 * * *", "0 2 1 * *", "15,45 1,2 * * *",
    "0-59 * * * *", "*/7 0-4 * * *", "0 0 L * *", "5 2 * * 0#1", "0 0 31 2 0", "5 * 13 * 5", "0 0 15W * *", "30 22-2 * * *",
)  # fmt: skip


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def local(line: str, zone: str, after: str, count: int) -> list[str]:
    found = islice(cron.slots(line, zone, at(after)), count)
    return [slot.astimezone(ZoneInfo(zone)).strftime("%m-%dT%H:%M%z") for slot in found]


def chain(line: str, zone: str, first: datetime, last: datetime) -> list[datetime]:
    return list(takewhile(lambda slot: slot <= last, cron.slots(line, zone, first - timedelta(microseconds=1))))


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("30 1 * * *", "America/New_York", "2026-11-01T00:00-04:00", ["11-01T01:30-0400", "11-02T01:30-0500"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:00+11:00", ["04-05T01:45+1100", "04-06T01:45+1030"]),
        ("0 0 * * 0", "America/Santiago", "2026-09-05T12:00-04:00", ["09-06T01:00-0300", "09-13T00:00-0300"]),
        ("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00+02:00", ["03-29T01:00+0300", "03-30T00:00+0300"]),
        (
            "0 20 * * *",
            "Europe/Paris",
            "2026-10-23T21:00+02:00",
            ["10-24T20:00+0200", "10-25T20:00+0100", "10-26T20:00+0100", "10-27T20:00+0100"],
        ),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["03-29T03:00+0200", "03-30T02:30+0200"]),
        ("10 2,3 * * *", "Europe/Berlin", "2026-03-29T01:00+01:00", ["03-29T03:00+0200", "03-29T03:10+0200"]),
        ("0 1-3 * * *", "Antarctica/Troll", "2026-03-29T00:30+00:00", ["03-29T03:00+0200", "03-30T01:00+0200"]),
        ("59/15 * * * *", "UTC", "2026-01-01T00:00+00:00", ["01-01T00:59+0000", "01-01T01:59+0000"]),
        (
            "0 0 31 2 0",
            "UTC",
            "2026-01-31T12:00+00:00",
            ["02-01T00:00+0000", "02-08T00:00+0000", "02-15T00:00+0000", "02-22T00:00+0000", "02-07T00:00+0000"],
        ),
    ],
)
def test_slots_are_these_to_the_minute(line: str, zone: str, after: str, expected: list[str]) -> None:
    assert local(line, zone, after, len(expected)) == expected


def test_elapsed_time_line_runs_in_both_copies_of_a_repeated_hour() -> None:
    slots = local("*/15 * * * *", "America/New_York", "2026-11-01T00:59-04:00", 9)
    assert slots[:4] == ["11-01T01:00-0400", "11-01T01:15-0400", "11-01T01:30-0400", "11-01T01:45-0400"]
    assert slots[4:8] == ["11-01T01:00-0500", "11-01T01:15-0500", "11-01T01:30-0500", "11-01T01:45-0500"]
    assert slots[8] == "11-01T02:00-0500"


def test_base_in_the_second_copy_of_the_hour_gives_a_later_slot() -> None:
    for minute in range(60):
        base = at(f"2026-11-01T01:{minute:02}-05:00")
        following = cron.next_after("*/15 * * * *", "America/New_York", base)
        assert timedelta() < following - base <= timedelta(minutes=15)


def test_month_of_a_daily_line_has_one_slot_a_day() -> None:
    slots = list(islice(cron.slots("0 7 * * *", "America/Los_Angeles", at("2026-10-20T00:00-07:00")), 30))
    shown = [slot.astimezone(ZoneInfo("America/Los_Angeles")).strftime("%m-%dT%H:%M") for slot in slots]
    days = [date(2026, 10, 20) + timedelta(days=number) for number in range(30)]  # the clock is set back on 11-01
    assert shown == [f"{day:%m-%d}T07:00" for day in days]


def test_drawn_minute_with_a_step_of_sixty_is_one_minute_of_each_hour() -> None:
    line = cron_lines.expand("H/60 * * * *", JOB)
    slots = list(islice(cron.slots(line, "UTC", at("2026-01-01T00:00+00:00")), 48))
    assert {later - earlier for earlier, later in pairwise(slots)} == {timedelta(hours=1)}


@pytest.mark.parametrize(
    "day_fields", [" ".join(line.split()[2:]) for line in LINES] + ["29 2 *", "* 2 1#5", "L,13 * *"]
)
def test_days_are_those_of_the_engine(day_fields: str) -> None:
    walls = croniter(f"0 0 {day_fields}", datetime(2025, 12, 31, 23, 59), ret_type=datetime)  # noqa: DTZ001
    theirs = {(wall.year, wall.month, wall.day) for wall in takewhile(lambda wall: wall.year < 2030, walls)}
    months = [(year, month) for year in range(2026, 2030) for month in range(1, 13)]
    assert {(*when, day) for when in months for day in cron.days(day_fields, *when)} == theirs


def test_line_that_comes_once_in_decades_still_has_a_next_slot() -> None:
    assert cron.next_after("0 0 * 2 0#5", "UTC", at("2032-03-01T00:00+00:00")) == at("2060-02-29T00:00+00:00")


def test_line_without_any_slot_is_named() -> None:
    with pytest.raises(errors.UsageError, match=r"'0 0 30 2 \*'.*no further slot"):
        cron.next_after("0 0 30 2 *", "UTC", at("2026-01-01T00:00+00:00"))


@pytest.mark.parametrize("line", ["nonsense", "* * * * * *", "99 * * * *", "R * * * *", "@daily", ""])
def test_line_that_cannot_be_read_is_named_and_never_guessed(line: str) -> None:
    with pytest.raises(errors.UsageError, match="cron is"):
        cron.read(line)


def window(rng: random.Random, zone: str, most_hours: int) -> tuple[datetime, datetime]:
    """A window of up to `most_hours`; near a change of the zone's clock where it has one."""
    first = at("2026-01-01T00:00+00:00") + timedelta(days=rng.randrange(700))
    changes = cron.clock_changes("0 0 1 1 *", zone, first)
    if changes and rng.random() < 0.8:
        first = rng.choice(changes).at - timedelta(minutes=rng.randrange(most_hours * 60))
    first += timedelta(minutes=rng.randrange(60), seconds=rng.choice((0, 0, 1, 59)), microseconds=rng.choice((0, 7)))
    return first, first + timedelta(minutes=rng.randrange(most_hours * 60 + 1), seconds=rng.choice((0, 30)))


@pytest.mark.parametrize("zone", ZONES)
def test_slots_of_a_window_are_the_chain_of_next_slots(zone: str) -> None:
    rng = random.Random(zone)
    for line in LINES:
        for _ in range(4):
            first, last = window(rng, zone, 7)
            assert cron.slots_between(line, zone, first, last) == chain(line, zone, first, last), (line, first, last)


@pytest.mark.parametrize(
    ("zone", "first"),
    [
        ("UTC", "2026-06-01T00:00+00:00"),
        ("Australia/Lord_Howe", "2026-04-04T12:00+11:00"),
        ("Australia/Lord_Howe", "2026-10-03T12:00+10:30"),
        ("America/Santiago", "2026-09-05T12:00-04:00"),
    ],
)
def test_slots_of_26_hours_of_minutes_are_1560_and_the_chain_of_next_slots(zone: str, first: str) -> None:
    start = at(first)
    last = start + timedelta(hours=26) - MINUTE
    found = cron.slots_between("* * * * *", zone, start, last)
    assert len(found) == 1560
    assert found == chain("* * * * *", zone, start, last)


def test_slots_of_a_zone_that_skips_a_day_are_the_chain_of_next_slots() -> None:
    first, last = at("2011-12-29T00:00-10:00"), at("2012-01-02T00:00+14:00")
    for line in ("30 5 * * *", "0 */6 * * *", "0 0 30 12 *"):
        assert cron.slots_between(line, "Pacific/Apia", first, last) == chain(line, "Pacific/Apia", first, last)


def test_window_includes_both_of_its_ends_and_nothing_where_it_ends_before_it_begins() -> None:
    first, last = at("2026-06-01T00:00+00:00"), at("2026-06-01T00:10+00:00")
    assert cron.slots_between("*/5 * * * *", "UTC", first, last) == [first, first + 5 * MINUTE, last]
    assert cron.slots_between("*/5 * * * *", "UTC", last, first) == []
    assert cron.slots_between("*/5 * * * *", "UTC", first + MINUTE / 60, first + MINUTE) == []


def test_windows_of_a_thousand_lines_and_zones_hold_every_slot() -> None:
    zones = sorted(available_timezones())[:200]
    pairs = [(f"{first}-59/5 * * * *", zone) for zone in zones for first in range(5)]
    first = at("2026-05-05T12:00+00:00")
    found = sum(len(cron.slots_between(line, zone, first, first + timedelta(hours=26))) for line, zone in pairs)
    assert 1000 * 312 <= found <= 1000 * 313

import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from worker_app import errors
from worker_app.sync import cron

JOB = UUID("11111111-1111-4111-8111-111111111111")
MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def local(line: str, zone: str, after: str, count: int) -> list[str]:
    return [
        slot.astimezone(ZoneInfo(zone)).strftime("%m-%dT%H:%M%z")
        for slot in islice(cron.slots(line, zone, at(after)), count)
    ]


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
            "2026-10-24T12:00+02:00",
            ["10-24T20:00+0200", "10-25T20:00+0100", "10-26T20:00+0100"],
        ),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["03-29T03:00+0200", "03-30T02:30+0200"]),
    ],
)
def test_daily_line_runs_once_a_day_across_a_clock_change(
    line: str, zone: str, after: str, expected: list[str]
) -> None:
    assert local(line, zone, after, len(expected)) == expected


def test_elapsed_time_line_runs_in_both_copies_of_a_repeated_hour() -> None:
    slots = local("*/15 * * * *", "America/New_York", "2026-11-01T00:59-04:00", 9)
    assert slots[:4] == ["11-01T01:00-0400", "11-01T01:15-0400", "11-01T01:30-0400", "11-01T01:45-0400"]
    assert slots[4:8] == ["11-01T01:00-0500", "11-01T01:15-0500", "11-01T01:30-0500", "11-01T01:45-0500"]


def test_month_of_a_daily_line_has_one_slot_a_day() -> None:
    slots = list(islice(cron.slots("0 7 * * *", "America/Los_Angeles", at("2026-10-20T00:00-07:00")), 30))
    assert len({slot.astimezone(ZoneInfo("America/Los_Angeles")).date() for slot in slots}) == 30


def test_next_slot_moves_forward_and_does_not_depend_on_the_base() -> None:
    rng = random.Random(7)
    zones = [
        "UTC",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Santiago",
        "Asia/Beirut",
        "Europe/Paris",
        "Asia/Kathmandu",
    ]
    lines = ["*/15 * * * *", "30 1 * * *", "0 0 * * *", "59 23 * * 1-5", "7 */3 * * *", "0 2 1 * *", "15,45 1,2 * * *"]
    for _ in range(1000):
        zone, line = rng.choice(zones), rng.choice(lines)
        base = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(366 * 1440))
        following = cron.next_after(line, zone, base)
        assert following > base
        middle = base + (following - base) * rng.random()
        if middle.replace(second=0, microsecond=0) < following:
            assert cron.next_after(line, zone, middle) == following


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Paris", "Asia/Kathmandu", "UTC"])
@pytest.mark.parametrize("line", ["30 1 * * *", "*/20 * * * *", "5 4 * * 1", "0 2 * * *"])
def test_slots_equal_those_of_an_independent_library(zone: str, line: str) -> None:
    start = datetime(2026, 10, 20, tzinfo=ZoneInfo(zone))
    oracle = CronSim(line, start)
    theirs = [next(oracle).astimezone(UTC) for _ in range(60)]
    assert list(islice(cron.slots(line, zone, start.astimezone(UTC)), 60)) == theirs


def test_h_spreads_jobs_and_is_stable() -> None:
    lines = {cron.expand("H * * * *", UUID(int=number)) for number in range(200)}
    assert len(lines) > 40
    assert cron.expand("H/15 H(2-5) * * *", JOB) == cron.expand("H/15 H(2-5) * * *", JOB)


def test_h_with_a_step_covers_the_field() -> None:
    minute = cron.expand("H/15 * * * *", JOB).split()[0]
    first = int(minute.partition("-")[0])
    slots = islice(cron.slots(f"{minute} * * * *", "UTC", at("2026-01-01T00:00+00:00") - MINUTE), 4)
    assert [slot.minute for slot in slots] == [first, first + 15, first + 30, first + 45]


def test_macro_becomes_five_fields() -> None:
    assert cron.expand("@daily", JOB) == "0 0 * * *"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
        ("99 * * * *", "99"),
        ("0 0 */2 * 1", "AND or OR"),
        ("@never", "1 fields"),
        ("a b c d e", "a"),
        ("H(5-2) * * * *", "minute"),
        ("H/0 * * * *", "minute"),
    ],
)
def test_line_that_is_wrong_is_refused_by_name(line: str, word: str) -> None:
    with pytest.raises(errors.UsageError, match=word):
        cron.expand(line, JOB)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime"])
def test_unknown_zone_is_refused_and_never_becomes_utc(zone: str) -> None:
    with pytest.raises(errors.UsageError, match="IANA"):
        cron.check_zone(zone)


def test_line_that_never_runs_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="five years"):
        cron.check_distance("0 0 30 2 *", "UTC", at("2026-01-01T00:00+00:00"), 300)


def test_line_that_runs_too_often_is_refused_with_one_that_fits() -> None:
    with pytest.raises(errors.UsageError, match=r"60 s apart and the least is 300 s.*\*/5"):
        cron.check_distance("* * * * *", "UTC", at("2026-01-01T00:00+00:00"), 300)

import random
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from uuid import UUID

import pytest

from worker_app import errors
from worker_app.sync import cron, cron_lines

JOB = UUID("11111111-1111-4111-8111-111111111111")
NOW = datetime(2026, 8, 1, tzinfo=UTC)


def refusal(line: str, least_seconds: int = 300, zone: str = "UTC") -> str:
    with pytest.raises(errors.UsageError) as caught:
        cron_lines.check_distance(cron_lines.expand(line, JOB), zone, NOW, least_seconds, line)
    return str(caught.value)


def suggested(message: str) -> str:
    (line,) = re.findall(r"the next line that fits is `([^`]+)`$", message)
    return str(line)


def random_line(rng: random.Random) -> str:
    minutes = (
        "*",
        "*/2",
        "*/7",
        "*/59",
        "0,1",
        "0,58",
        "0,59",
        "3-59/4",
        "0-54/6,59",
        "7",
        "1-9",
        "5,10-20/2",
        "59,0,30",
    )
    hours = ("*", "*/2", "0,23", "0,1", "9-17", "22-2", "5", "0,2,4,6,8,10,12,14,16,18,20,23")
    days = ("* * *", "* * 1-5", "* * 1,3,5", "1,15 * *", "1,3,31 8 *", "L,1 * *", "* * 0#1", "13 * 5", "*/2 * *")
    return f"{rng.choice(minutes)} {rng.choice(hours)} {rng.choice(days)}"


def test_h_spreads_jobs_and_is_stable() -> None:
    lines = {cron_lines.expand("H * * * *", UUID(int=number)) for number in range(200)}
    assert len(lines) > 40
    assert cron_lines.expand("H/15 H(2-5) * * *", JOB) == cron_lines.expand("H/15 H(2-5) * * *", JOB)


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("H H H H H", "7 17 4 6 4"),  # sha256 of the job's id and the field's name, its first 8 bytes modulo the range
        ("H/15 H(2-5) * * *", "7-59/15 3 * * *"),
        ("H/60 * * * *", "7 * * * *"),
        ("H(10-20)/4,0 * * * *", "13-20/4,0 * * * *"),
    ],
)
def test_h_is_the_same_for_a_job_in_every_process_and_release(typed: str, plain: str) -> None:
    assert cron_lines.expand(typed, JOB) == plain


def test_h_with_a_step_is_right_or_too_frequent_for_every_job_alike() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    for step, number in product(range(5, 60), range(30)):
        plain = cron_lines.expand(f"H/{step} * * * *", UUID(int=number))
        cron_lines.check_distance(plain, "UTC", now, step * 60)
        with pytest.raises(errors.UsageError, match="s apart"):
            cron_lines.check_distance(plain, "UTC", now, 3601)
    assert len({cron_lines.expand("H/7 * * * *", UUID(int=number)) for number in range(40)}) == 3  # begins at 4, 5 or 6


def test_line_that_no_table_can_show_is_refused() -> None:
    assert cron_lines.expand(",".join(map(str, range(0, 60, 5))) + " * * * *", JOB)
    with pytest.raises(errors.UsageError, match=r"^cron is '0,0,0,.*'…, 4009 characters long: it takes up to 200"):
        cron_lines.expand("0," * 2000 + "0 * * * *", JOB)


@pytest.mark.parametrize("macro", ["@reboot", "@every 5m", "@", "@dailyy"])
def test_macro_that_there_is_none_of_is_told_which_there_are(macro: str) -> None:
    with pytest.raises(
        errors.UsageError, match=r"there is no such macro; there is @yearly, @monthly, @weekly, @daily, @hourly"
    ):
        cron_lines.expand(macro, JOB)


@pytest.mark.parametrize("field", ["*/90", "H/61", "0-59/61", "5,*/999999999"])
def test_step_that_never_comes_is_refused(field: str) -> None:
    with pytest.raises(errors.UsageError, match=r"minute is .*: a step above 60 never comes"):
        cron_lines.expand(f"{field} * * * *", JOB)


def test_h_with_a_step_covers_the_field() -> None:
    minutes = cron.read(cron_lines.expand("H/15 * * * *", JOB)).minutes
    assert minutes == tuple(minutes[0] + 15 * number for number in range(4))


def test_h_in_every_field_is_a_day_that_every_month_has() -> None:
    for number in range(300):
        day, month, weekday = cron_lines.expand("0 0 H H H", UUID(int=number)).split()[2:]
        assert int(day) in range(1, 29)
        assert int(month) in range(1, 13)
        assert int(weekday) in range(7)


def test_macro_becomes_five_fields() -> None:
    assert cron_lines.expand("@daily", JOB) == "0 0 * * *"
    assert cron_lines.expand(" @Weekly ", JOB) == "0 0 * * 0"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
        ("@never", "there is no such macro"),
        ("", "0 fields"),
        ("99 * * * *", "minute is '99': it takes 0 to 59"),
        ("0 24 * * *", "hour is '24': it takes 0 to 23"),
        ("0 0 32 * *", "day of month is '32': it takes 1 to 31"),
        ("0 0 * 0 *", "month is '0': it takes 1 to 12"),
        ("0 0 * * XYZ", "day of week is 'XYZ': it takes 0 to 7"),
        ("a b c d e", "minute is 'a'"),
        ("R * * * *", "minute is 'R': R would be drawn anew"),
        ("0 0,r(1-5) * * *", "hour is '0,r(1-5)': R would be drawn anew"),
        ("H(5-2) * * * *", "minute is 'H(5-2)'"),
        ("H(60-70) * * * *", "minute is 'H(60-70)': H takes (low-high) within 0 and 59"),
        ("H/0 * * * *", "minute is 'H/0'"),
        ("H5 * * * *", "minute is 'H5': H stands alone"),
        ("0 H-5 * * *", "hour is 'H-5': H stands alone"),
        ("0 0 */2 * 1", "day of month is '*/2' and day of week is '1', and one starts with */; engines disagree"),
        ("0 0 1 * */2", "AND or OR"),
    ],
)
def test_line_that_is_wrong_is_refused_by_field_value_and_remedy(line: str, words: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        cron_lines.expand(line, JOB)
    assert words in str(caught.value)
    assert repr(line) in str(caught.value)


@pytest.mark.parametrize("line", ["0 0 * * THU", "0 0 * MAR-apr 7", "0 22-2 * * *", "0 0 L * *", "H,H(30-40) * * * *"])
def test_line_that_is_right_is_taken(line: str) -> None:
    assert len(cron_lines.expand(line, JOB).split()) == 5


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime"])
def test_unknown_zone_is_refused_and_never_becomes_utc(zone: str) -> None:
    with pytest.raises(errors.UsageError, match="IANA"):
        cron.check_zone(zone)


@pytest.mark.parametrize(
    ("line", "least_seconds", "closest", "fits"),
    [
        ("* * * * *", 300, "(00:00 and 00:01) are 60 s", "*/5 * * * *"),
        ("*/2 9-17 * * 1-5", 300, "(09:00 and 09:02) are 120 s", "*/5 9-17 * * 1-5"),
        ("0-59 * * * *", 300, "60 s", "0-59/5 * * * *"),
        ("0,1 * * * *", 300, "60 s", "0 * * * *"),
        ("0,1,30 * * * *", 300, "60 s", "0,30 * * * *"),
        ("0,58 * * * *", 300, "(00:58 and 01:00) are 120 s", "0 * * * *"),
        ("*/7 * * * *", 300, "(00:56 and 01:00) are 240 s", "*/10 * * * *"),
        ("0,59 0,23 * * *", 300, "(23:59 and 00:00 of the next day it runs) are 60 s", "0 0,23 * * *"),
        ("*/5 * * * *", 3600, "300 s", "0 * * * *"),
        ("0 * * * *", 5400, "3600 s", "0 */2 * * *"),
        ("@daily", 90_000, "86400 s", "0 0 * * 1"),
    ],
)
def test_line_that_runs_too_often_is_refused_with_one_like_it_that_fits(
    line: str, least_seconds: int, closest: str, fits: str
) -> None:
    message = refusal(line, least_seconds)
    assert closest in message
    assert f"the least is {least_seconds} s (SCHEDULE_MIN_INTERVAL_SECONDS)" in message
    assert suggested(message) == fits


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("0 0 30 2 *", "0 0 28 2 *"),
        ("0 0 31 4 *", "0 0 30 4 *"),
        ("0 0 31 4,6 *", "0 0 30 4,6 *"),
        ("* * 30 2 *", "*/5 * 28 2 *"),
        ("0 0 * 2 1#5", "0 0 * 2 1#4"),
    ],
)
def test_line_that_never_runs_is_refused_with_one_like_it_that_does(line: str, fits: str) -> None:
    message = refusal(line)
    day, month, weekday = line.split()[2:]
    assert f"day of month is {day!r}, month is {month!r} and day of week is {weekday!r}" in message
    assert "next five years" in message
    assert suggested(message) == fits


def test_least_distance_that_no_line_has_is_said() -> None:
    assert refusal("@daily", 400 * 86_400).endswith("no line fits, so lower SCHEDULE_MIN_INTERVAL_SECONDS")


def test_refusal_of_a_drawn_line_shows_both_texts() -> None:
    assert "cron is 'H H * * *', which is '" in refusal("H H * * *", 90_000)


def test_close_pair_that_comes_once_a_year_is_found() -> None:
    many = "0-54/6,59 0,2,4,6,8,10,12,14,16,18,20,23"  # 132 slots a day, all well apart; 23:59 and 00:00 are not
    assert cron_lines.check_distance(f"{many} 1,15 * *", "UTC", NOW, 300) > NOW
    assert "60 s apart" in refusal(f"{many} 1,15,31 1,12 *")
    assert "60 s apart" in refusal(f"{many} 29,1 2,3 *")  # one day after another in leap years alone


@pytest.mark.parametrize("line", ["3 2,3 * * *", "58 1,2 * * *", "*/30 0-2 * * *"])
def test_clock_change_does_not_make_a_line_too_frequent(line: str) -> None:
    for zone in ("UTC", "Europe/Berlin", "America/Santiago", "Antarctica/Troll"):
        assert cron_lines.check_distance(line, zone, NOW, 300) > NOW


def test_what_is_suggested_passes_itself() -> None:
    rng = random.Random(11)
    refused = 0
    for _ in range(300):
        line, least = random_line(rng), rng.choice((120, 300, 420, 900, 3600, 5400, 86_400, 604_800))
        try:
            cron_lines.check_distance(line, "Europe/Berlin", NOW, least)
        except errors.UsageError as error:
            refused += 1
            fits = suggested(str(error))
            assert cron_lines.check_distance(cron_lines.expand(fits, JOB), "Europe/Berlin", NOW, least) > NOW, (
                line,
                fits,
            )
    assert refused > 100


def test_distance_is_the_least_of_the_real_slots() -> None:
    rng = random.Random(12)
    for _ in range(25):
        line = random_line(rng)
        slots = cron.slots_between(line, "UTC", NOW + cron.MINUTE, NOW + timedelta(days=400))
        closest = int(min(later - earlier for earlier, later in pairwise(slots)).total_seconds())
        assert cron_lines.check_distance(line, "UTC", NOW, closest) == slots[0], line
        assert f"{closest} s apart" in refusal(line, closest + 1), line

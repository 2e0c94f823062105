from datetime import UTC, datetime, timedelta

import pytest

from worker_app.sync import cron

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
NOT_AFFECTED = "not affected: no slot within the change"


def told(line: str, zone: str, now: datetime = NOW) -> list[str]:
    return [
        f"{change.at:%Y-%m-%dT%H:%M} {change.offset_before} {change.offset_after} {change.effect}"
        for change in cron.clock_changes(line, zone, now)
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "Asia/Tokyo", "Etc/GMT+5"])
def test_zone_whose_clock_never_changes_has_no_changes(zone: str) -> None:
    assert cron.clock_changes("30 2 * * *", zone, NOW) == []


@pytest.mark.parametrize(
    ("line", "zone", "back", "forward"),
    [
        (
            "30 1 * * *",
            "America/New_York",
            "2026-11-01T06:00 -04:00 -05:00 runs once at 01:30-04:00; the second 01:30 (-05:00) has no slot",
            f"2027-03-14T07:00 -05:00 -04:00 {NOT_AFFECTED}",
        ),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-25T01:00 +02:00 +01:00 runs once at 02:30+02:00; the second 02:30 (+01:00) has no slot",
            "2027-03-28T01:00 +01:00 +02:00 02:30 does not exist on this day: it runs at 03:00+02:00",
        ),
        (
            "*/15 * * * *",
            "America/New_York",
            "2026-11-01T06:00 -04:00 -05:00 runs in both copies of the repeated hour (01:00 to 02:00): 8 slots instead of 4",
            (
                "2027-03-14T07:00 -05:00 -04:00 no slot in the hour that is skipped (02:00 to 03:00): "
                "02:00, 02:15, 02:30, 02:45 fall out on this day"
            ),
        ),
        (
            "3 2,3 * * *",
            "Europe/Berlin",
            "2026-10-25T01:00 +02:00 +01:00 runs once at 02:03+02:00; the second 02:03 (+01:00) has no slot",
            (
                "2027-03-28T01:00 +01:00 +02:00 02:03 does not exist on this day: it runs at 03:00+02:00, "
                "3 min before the slot of 03:03"
            ),
        ),
        (
            "0,30 2-3 * * *",
            "Europe/Berlin",
            (
                "2026-10-25T01:00 +02:00 +01:00 runs once, in the first copy of the repeated hour (+02:00) at "
                "02:00, 02:30; the second copy (+01:00) has no slot"
            ),
            (
                "2027-03-28T01:00 +01:00 +02:00 02:00, 02:30 do not exist on this day: they run as one slot at 03:00+02:00, "
                "together with the slot of 03:00"
            ),
        ),
        (
            "5-59/5 2 * * *",
            "Europe/Berlin",
            (
                "2026-10-25T01:00 +02:00 +01:00 runs once, in the first copy of the repeated hour (+02:00) at "
                "02:05 to 02:55 (11 slots); the second copy (+01:00) has no slot"
            ),
            (
                "2027-03-28T01:00 +01:00 +02:00 02:05 to 02:55 (11 slots) do not exist on this day: "
                "they run as one slot at 03:00+02:00"
            ),
        ),
        (
            "0 7 * * *",
            "Europe/Berlin",
            f"2026-10-25T01:00 +02:00 +01:00 {NOT_AFFECTED}",
            f"2027-03-28T01:00 +01:00 +02:00 {NOT_AFFECTED}",
        ),
        (
            "30 2 * * 1-5",
            "Europe/Berlin",
            f"2026-10-25T01:00 +02:00 +01:00 {NOT_AFFECTED}",
            f"2027-03-28T01:00 +01:00 +02:00 {NOT_AFFECTED}",
        ),
    ],
)
def test_change_is_told_by_what_it_does_to_the_line(line: str, zone: str, back: str, forward: str) -> None:
    assert told(line, zone) == [back, forward]


def test_shift_of_half_an_hour_is_told_in_minutes() -> None:
    assert told("*/10 * * * *", "Australia/Lord_Howe") == [
        (
            "2026-10-03T15:30 +10:30 +11:00 no slot in the 30 min that is skipped (02:00 to 02:30): "
            "02:00, 02:10, 02:20 fall out on this day"
        ),
        "2027-04-03T15:00 +11:00 +10:30 runs in both copies of the repeated 30 min (01:30 to 02:00): 6 slots instead of 3",
    ]


def test_midnight_that_is_skipped_is_told() -> None:
    assert told("0 0 * * 0", "America/Santiago")[0] == (
        "2026-09-06T04:00 -04:00 -03:00 00:00 does not exist on this day: it runs at 01:00-03:00"
    )


def test_month_of_fasting_is_two_changes() -> None:
    now = datetime(2025, 8, 1, tzinfo=UTC)
    assert [change[:29] for change in told("0 12 * * *", "Africa/Casablanca", now)] == [
        "2026-02-15T02:00 +01:00 +00:0", "2026-03-22T02:00 +00:00 +01:0",
    ]  # fmt: skip


def test_change_that_only_the_pinned_zones_know_is_told() -> None:
    (change, *_) = told("0 12 * * *", "Africa/Casablanca")  # for good: the fasting of 2027 changes nothing any more
    assert change.startswith("2026-09-20")


def test_change_is_the_first_moment_with_the_new_offset() -> None:
    (change, _) = cron.clock_changes("0 7 * * *", "Europe/Berlin", NOW + timedelta(seconds=37))
    assert change.at == datetime(2026, 10, 25, 1, tzinfo=UTC)
    assert cron.clock_changes("0 7 * * *", "Europe/Berlin", change.at)[0].at > change.at
    assert cron.clock_changes("0 7 * * *", "Europe/Berlin", change.at - timedelta(seconds=1))[0].at == change.at


def test_no_more_changes_are_told_than_asked_for() -> None:
    assert len(cron.clock_changes("0 7 * * *", "Europe/Berlin", NOW, count=1)) == 1
    assert len(cron.clock_changes("0 7 * * *", "Europe/Berlin", NOW, count=9)) == 2

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from worker_app.metrics import days


def day_of(instant: datetime, zone: ZoneInfo) -> date:
    return instant.astimezone(zone).date()


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("UTC", date(2026, 6, 1), 24),
        ("America/New_York", date(2026, 3, 8), 23),
        ("America/New_York", date(2026, 11, 1), 25),
        ("America/Santiago", date(2026, 9, 6), 23),  # midnight does not exist
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
    ],
)
def test_day_lasts_from_local_midnight_to_the_next(zone: str, day: date, hours: float) -> None:
    tz = ZoneInfo(zone)
    start, end = days.start_of(day, tz), days.end_of(day, tz)
    assert end - start == timedelta(hours=hours)
    assert day_of(start, tz) == day
    assert day_of(end - timedelta(microseconds=1), tz) == day
    assert day_of(end, tz) == day + timedelta(days=1)


def test_last_day_of_the_calendar_has_an_end() -> None:
    assert days.end_of(date.max, ZoneInfo("UTC")) > days.start_of(date.max, ZoneInfo("UTC"))


END = datetime(2026, 6, 2, tzinfo=UTC)


def test_reading_is_the_share_of_sources_read_after_the_end_of_the_day() -> None:
    before, after = END - timedelta(hours=1), END + timedelta(hours=1)
    found = days.reading([before, after], END)
    assert (found.coverage, found.input_watermark) == (0.5, before)


def test_source_that_was_never_read_leaves_no_watermark() -> None:
    found = days.reading([None, END], END)
    assert (found.coverage, found.input_watermark) == (0.5, None)


def test_no_source_is_no_reading() -> None:
    assert days.reading([], END) == days.Reading(0.0, None)

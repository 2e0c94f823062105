from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from worker_app import errors
from worker_app.reports import period

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 6, 10, 22, 30, tzinfo=UTC)  # the 11th, half past midnight, in Berlin


def test_last_days_end_with_the_day_before_the_slot_on_the_organisations_clock() -> None:
    found = period.last_days(NOW, BERLIN, 7)
    assert (found.first, found.last) == (date(2026, 6, 4), date(2026, 6, 10))
    assert (found.start, found.as_of) == (
        datetime(2026, 6, 3, 22, tzinfo=UTC),
        datetime(2026, 6, 10, 22, tzinfo=UTC),
    )
    assert period.last_days(NOW, ZoneInfo("UTC"), 1).last == date(2026, 6, 9)


def test_all_days_of_a_period_that_is_over_count() -> None:
    found = period.last_days(NOW, BERLIN, 3)
    assert found.days_over() == [date(2026, 6, 8), date(2026, 6, 9), date(2026, 6, 10)]
    assert found.is_over


def test_day_that_is_not_over_does_not_count_and_the_period_ends_now() -> None:
    found = period.between(date(2026, 6, 10), date(2026, 6, 11), BERLIN, NOW)
    assert found.as_of == NOW
    assert found.days_over() == [date(2026, 6, 10)]
    assert not found.is_over


def test_period_before_is_as_long_and_ends_where_this_one_begins() -> None:
    found = period.last_days(NOW, BERLIN, 7)
    before = found.before()
    assert before.as_of == found.start
    assert (before.first, before.last) == (date(2026, 5, 28), date(2026, 6, 3))


def test_days_of_23_and_25_hours_are_days() -> None:
    spring = period.last_days(datetime(2026, 3, 30, 12, tzinfo=UTC), BERLIN, 1)
    autumn = period.last_days(datetime(2026, 10, 26, 12, tzinfo=UTC), BERLIN, 1)
    assert spring.as_of - spring.start == timedelta(hours=23)
    assert autumn.as_of - autumn.start == timedelta(hours=25)


def test_open_ends_are_the_last_seven_days_that_are_over() -> None:
    both = period.between(None, None, BERLIN, NOW)
    assert (both.first, both.last) == (date(2026, 6, 4), date(2026, 6, 10))
    assert period.between(None, date(2026, 5, 7), BERLIN, NOW).first == date(2026, 5, 1)
    assert period.between(date(2026, 5, 1), None, BERLIN, NOW).last == date(2026, 6, 10)


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (date(2026, 6, 3), date(2026, 6, 2), r"from is 2026-06-03, after to \(2026-06-02\): swap them"),
        (
            date(2026, 6, 3),
            date(2026, 6, 12),
            r"to is 2026-06-12, and today is 2026-06-11 in Europe/Berlin: name a day",
        ),
        (date(2020, 1, 1), date(2026, 6, 2), r"2345 days, and the most is 366: name a later from"),
        (date(1, 1, 1), date(2026, 6, 2), r"from is 0001-01-01: name a day from 1970-01-01 on"),
        (None, date(1, 1, 2), r"to is 0001-01-02: name a day from 1970-01-08 on"),
    ],
)
def test_period_that_cannot_be_is_refused_by_field_value_and_remedy(
    first: date | None, last: date | None, message: str
) -> None:
    with pytest.raises(errors.UsageError, match=message):
        period.between(first, last, BERLIN, NOW)

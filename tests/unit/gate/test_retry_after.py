from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gate.sent import NOW, NOW_SECONDS
from worker_app.gate.signals import UNSTATED, Delay, parse_retry_after

LATER = NOW_SECONDS + 90
BOMB = "9" * 5000


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 120 ", 120.0),
        ("00120", 120.0),
        ("0", 1.0),
        ("1", 1.0),
        ("3600", 3600.0),
        ("86400", 86400.0),
        ("120, 60", 120.0),
        ("60,120", 120.0),
        ("abc, 30", 30.0),
        ("90000, 30", 30.0),
    ],
)
def test_retry_after_in_seconds_is_never_shortened(value: str, seconds: float) -> None:
    assert parse_retry_after(value, NOW) == Delay(seconds)


@pytest.mark.parametrize(("value", "seconds"), [("1.5", 2.0), ("0.493", 1.0), ("0.0", 1.0), ("59.0", 59.0)])
def test_s13_retry_after_with_a_fraction_is_rounded_up(value: str, seconds: float) -> None:
    assert parse_retry_after(value, NOW) == Delay(seconds)


@pytest.mark.parametrize(
    "value", ["", " ", "abc", "-5", "NaN", "inf", "1e3", "+5", "1_000", "0x10", "120s", "١٢٠", ","]
)
def test_retry_after_that_is_no_wait_states_none(value: str) -> None:
    assert parse_retry_after(value, NOW) == UNSTATED


def test_retry_after_in_html_states_none() -> None:
    assert parse_retry_after("<html><body>Too Many Requests, retry later</body></html>", NOW) == UNSTATED


@pytest.mark.parametrize(
    "value",
    [
        "Wed, 21 Oct 2026 07:28:00 GMT",
        "Wednesday, 21-Oct-26 07:28:00 GMT",
        "Wed Oct 21 07:28:00 2026",
        "2026-10-21T07:28:00Z",
        "2026-10-21T09:28:00+02:00",
    ],
)
def test_s11_retry_after_in_a_date_counts_from_the_reply(value: str) -> None:
    assert parse_retry_after(value, NOW) == Delay(90.0)
    assert parse_retry_after(value, None) == Delay(at_ms=LATER * 1000)


@pytest.mark.parametrize(
    "value",
    [
        "Wed, 21 Oct 2026 07:26:30 GMT",
        "Wed, 21 Oct 2026 07:26:29 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Sun Nov  6 08:49:37 1994",
    ],
)
def test_retry_after_in_a_date_that_is_over_is_the_shortest_wait(value: str) -> None:
    assert parse_retry_after(value, NOW) == Delay(1.0)


@pytest.mark.parametrize(
    "value",
    [
        BOMB,
        "99999999999",
        "90000",
        "86400.5",
        "86401",
        "Wed, 21 Oct 99999 07:28:00 GMT",
        "Wed, 32 Oct 2026 07:28:00 GMT",
        "Thu, 22 Oct 2026 07:26:31 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "99999-10-21T07:28:00Z",
        f"{BOMB}, abc",
    ],
)
def test_s12_retry_after_beyond_belief_is_quarantined(value: str) -> None:
    delay = parse_retry_after(value, NOW)
    assert not delay.is_stated
    assert delay.quarantined
    assert value.startswith(delay.quarantined)
    assert len(delay.quarantined) <= 64


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (str(LATER), 90.0),
        (str(LATER * 1000), 90.0),
        (str(NOW_SECONDS - 3600), 1.0),
        (str(NOW_SECONDS * 1000 - 1), 1.0),
        (str(NOW_SECONDS + 86_400), 86_400.0),
    ],
)
def test_s14_retry_after_that_is_an_epoch_is_a_moment(value: str, seconds: float) -> None:
    assert parse_retry_after(value, NOW) == Delay(seconds)


def test_s14_retry_after_that_is_an_epoch_is_left_to_the_clock_of_redis_without_a_date() -> None:
    assert parse_retry_after(str(LATER), None) == Delay(at_ms=LATER * 1000)
    assert parse_retry_after(str(LATER * 1000), None) == Delay(at_ms=LATER * 1000)


@pytest.mark.parametrize(
    "value", [str(NOW_SECONDS + 86_401), str(NOW_SECONDS - 86_401), "1733302464386", "1733302464.5"]
)
def test_retry_after_that_is_an_epoch_of_another_day_is_quarantined(value: str) -> None:
    assert parse_retry_after(value, NOW) == Delay(quarantined=value)


@settings(deadline=None)  # a busy machine is no failure
@given(value=st.text() | st.from_regex(r"[0-9A-Za-z:,. +-]{0,40}"), date=st.none() | st.just(NOW))
def test_retry_after_is_total_and_bounded(value: str, date: datetime | None) -> None:
    delay = parse_retry_after(value, date)
    assert delay.seconds is None or 1.0 <= delay.seconds <= 86_400.0
    assert delay.at_ms is None or (delay.at_ms >= 0 and date is None)
    assert len(delay.quarantined) <= 64


@settings(deadline=None)  # a busy machine is no failure
@given(moment=st.datetimes(timezones=st.timezones()), date=st.datetimes(timezones=st.just(NOW.tzinfo)))
def test_retry_after_is_total_for_any_moment_and_any_date(moment: datetime, date: datetime) -> None:
    delay = parse_retry_after(moment.isoformat(), date)
    assert delay.seconds is None or 1.0 <= delay.seconds <= 86_400.0

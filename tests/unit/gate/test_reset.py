from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gate.sent import NOW, NOW_SECONDS
from worker_app.gate.signals import UNSTATED, Delay, ResetFormat, parse_reset

SECONDS, MILLISECONDS, ISO, HTTP_DATE = ResetFormat


@pytest.mark.parametrize(
    ("value", "form", "seconds"),
    [
        (str(NOW_SECONDS + 90), SECONDS, 90.0),
        (f" {NOW_SECONDS + 90} ", SECONDS, 90.0),
        (str(NOW_SECONDS), SECONDS, 0.0),
        (str(NOW_SECONDS + 86_400), SECONDS, 86_400.0),
        (f"{NOW_SECONDS + 90}250", MILLISECONDS, 90.25),
        ("2026-10-21T07:28:00Z", ISO, 90.0),
        ("2026-10-21T09:28:00+02:00", ISO, 90.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", HTTP_DATE, 90.0),
    ],
)
def test_reset_is_a_difference_on_the_clock_of_the_provider(value: str, form: ResetFormat, seconds: float) -> None:
    assert parse_reset(value, form, NOW) == Delay(seconds)
    assert parse_reset(value, form, None) == Delay(at_ms=int((NOW_SECONDS + seconds) * 1000))


@pytest.mark.parametrize("early", [1, 5])
def test_s07_reset_a_little_in_the_past_is_now(early: int) -> None:
    assert parse_reset(str(NOW_SECONDS - early), SECONDS, NOW) == Delay(0.0)


@pytest.mark.parametrize("away", [-86_400, -6, 86_401, 10**9])
def test_s07_reset_far_away_is_not_believed(away: int) -> None:
    value = str(NOW_SECONDS + away)
    assert parse_reset(value, SECONDS, NOW) == Delay(quarantined=value)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (str(NOW_SECONDS + 90), MILLISECONDS),
        (str((NOW_SECONDS + 90) * 1000), SECONDS),
        ("2026-10-21T07:28:00Z", SECONDS),
        (str(NOW_SECONDS + 90), ISO),
        ("2026-10-21T07:28:00", ISO),
        ("Wed, 21 Oct 2026 07:28:00 GMT", ISO),
        ("2026-10-21T07:28:00Z", HTTP_DATE),
        ("Wed, 32 Oct 2026 07:28:00 GMT", HTTP_DATE),
        ("60", SECONDS),
        ("-1", SECONDS),
        ("1e9", SECONDS),
        ("9" * 5000, SECONDS),
        ("soon", ISO),
    ],
)
def test_reset_in_another_format_is_not_guessed(value: str, form: ResetFormat) -> None:
    assert parse_reset(value, form, NOW) == Delay(quarantined=value[:64])


def test_reset_that_is_absent_states_nothing() -> None:
    assert parse_reset("", SECONDS, NOW) == UNSTATED


@settings(deadline=None)  # a busy machine is no failure
@given(value=st.text() | st.integers().map(str), form=st.sampled_from(ResetFormat), date=st.none() | st.just(NOW))
def test_reset_is_total_and_bounded(value: str, form: ResetFormat, date: datetime | None) -> None:
    delay = parse_reset(value, form, date)
    assert delay.seconds is None or 0.0 <= delay.seconds <= 86_400.0
    assert delay.at_ms is None or (delay.at_ms >= 0 and date is None)
    assert len(delay.quarantined) <= 64

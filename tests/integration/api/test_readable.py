from datetime import UTC, datetime, timedelta

import pytest

from worker_app.api import readable

NOW = datetime(2026, 11, 29, 16, 43, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (-3, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (3599, "59 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_duration_takes_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert readable.duration(seconds) == text


@pytest.mark.parametrize(
    ("distance", "text"),
    [(timedelta(minutes=-3), "3 min ago"), (timedelta(hours=2), "in 2 h"), (timedelta(milliseconds=400), "now")],
)
def test_relative_says_which_side_of_now(distance: timedelta, text: str) -> None:
    assert readable.relative(NOW + distance, NOW) == text


def test_relative_of_nothing_is_a_dash() -> None:
    assert readable.relative(None, NOW) == "–"


def test_moment_is_in_utc() -> None:
    assert readable.moment(NOW) == "2026-11-29 16:43:05Z"


def test_count_keeps_thousands_apart() -> None:
    assert readable.count(1234567) == "1\u202f234\u202f567"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("https://git.acme.dev/platform/rocket.git", "platform/rocket"),
        ("https://git.acme.dev:8443/rocket.git", "rocket"),
        ("git@git.acme.dev:nav/kalman.git", "nav/kalman"),
        ("/home/ana/code/launch-pad", "code/launch-pad"),
        ("ORB", "ORB"),
        ("acme/rocket", "acme/rocket"),
        ("3 sources", "3 sources"),
    ],
)
def test_short_name_is_how_people_call_it(name: str, short: str) -> None:
    assert readable.short_name(name) == short

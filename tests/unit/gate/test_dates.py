from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.gate.sent import NOW
from worker_app.gate import dates


@pytest.mark.parametrize(
    "text",
    [
        "Wed, 21 Oct 2026 07:26:30 GMT",
        "wed, 21 oct 2026 07:26:30 gmt",
        "Wednesday, 21-Oct-26 07:26:30 GMT",
        "Wednesday, 21-Oct-2026 07:26:30 GMT",
        "Wed Oct 21 07:26:30 2026",
    ],
)
def test_http_date_reads_all_three_forms(text: str) -> None:
    assert dates.parse_http_date(text) == NOW


def test_http_date_of_one_digit_has_a_leading_space_in_the_oldest_form() -> None:
    assert dates.parse_http_date("Fri Jan  2 03:04:05 2026") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_http_date_of_two_digits_lies_between_1970_and_2069() -> None:
    years = [dates.parse_http_date(f"Sunday, 06-Nov-{year} 08:49:37 GMT") for year in ("70", "94", "00", "69")]
    assert [moment.year for moment in years if moment] == [1970, 1994, 2000, 2069]


@pytest.mark.parametrize("text", ["", "21 Oct 2026", "2026-10-21T07:26:30Z", "Wed, 21 Oct 2026 07:26:30 PST", "٢١"])
def test_http_date_in_another_form_is_none(text: str) -> None:
    assert dates.parse_http_date(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Wed, 32 Oct 2026 07:26:30 GMT",
        "Wed, 21 Foo 2026 07:26:30 GMT",
        "Wed, 21 Oct 99999 07:26:30 GMT",
        "Wed, 21 Oct 2026 25:26:30 GMT",
    ],
)
def test_http_date_that_cannot_be_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        dates.parse_http_date(text)


@pytest.mark.parametrize(
    "text",
    ["2026-10-21T07:26:30Z", "2026-10-21t07:26:30z", "2026-10-21T09:26:30+02:00", "2026-10-21T07:26:30.000-0000"],
)
def test_iso_date_reads_zones(text: str) -> None:
    assert dates.parse_iso_date(text) == NOW


def test_iso_date_may_leave_out_seconds() -> None:
    assert dates.parse_iso_date("2026-10-21T07:26Z") == NOW - timedelta(seconds=30)


@pytest.mark.parametrize("text", ["", "2026-10-21", "2026-10-21T07:26:30", "20261021T072630Z", "1792567590"])
def test_iso_date_without_time_and_zone_is_none(text: str) -> None:
    assert dates.parse_iso_date(text) is None


@pytest.mark.parametrize("text", ["99999-10-21T07:26:30Z", "2026-02-30T07:26:30Z", "2026-10-21T24:61:00Z"])
def test_iso_date_that_cannot_be_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        dates.parse_iso_date(text)

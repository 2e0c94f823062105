"""Dates: the moments that providers write into headers, read strictly and without a locale. Values without I/O."""

import re
from datetime import UTC, datetime

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
CLOCK = r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})"
HTTP_DATES = tuple(
    re.compile(shape, re.ASCII | re.IGNORECASE)
    for shape in (
        rf"[a-z]{{3}}, (?P<day>\d{{1,4}}) (?P<month>[a-z]{{3}}) (?P<year>\d{{2,9}}) {CLOCK} (?:GMT|UTC)",
        rf"[a-z]{{6,9}}, (?P<day>\d{{1,4}})-(?P<month>[a-z]{{3}})-(?P<year>\d{{2,9}}) {CLOCK} (?:GMT|UTC)",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) {{1,2}}(?P<day>\d{{1,4}}) {CLOCK} (?P<year>\d{{4,9}})",
    )
)
ISO_DATE = re.compile(
    r"[+-]?\d{4,9}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})", re.ASCII | re.IGNORECASE
)


def parse_http_date(text: str) -> datetime | None:
    """The moment, aware UTC, in any of the three forms of an HTTP date; None where `text` has none of the forms.

    Raises ValueError for a date that cannot be, such as 32 Oct. https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7
    """
    for shape in HTTP_DATES:
        if found := shape.fullmatch(text):
            month = MONTHS.index(found["month"].lower()) + 1
            clock = (int(found["hour"]), int(found["minute"]), int(found["second"]))
            return datetime(_whole_year(found["year"]), month, int(found["day"]), *clock, tzinfo=UTC)
    return None


def parse_iso_date(text: str) -> datetime | None:
    """The moment of an ISO 8601 date with time and zone; None where `text` has another form.

    Raises ValueError for a date that cannot be, or that lies beyond the year 9999.
    """
    return datetime.fromisoformat(text.upper()) if ISO_DATE.fullmatch(text) else None


def _whole_year(digits: str) -> int:
    """Two digits mean 1970 to 2069, as long as nobody sends dates of the last century."""
    year = int(digits)
    return year if len(digits) > 2 else year + (1900 if year >= 70 else 2000)

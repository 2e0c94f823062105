"""Period: the days that a report is about, in the organisation's zone. Pure: it knows no store and no clock."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from worker_app import errors
from worker_app.metrics import days

MOST_DAYS = 366  # a year; each day is a row that people read
DEFAULT_DAYS = 7
FIRST_DAY = date(1970, 1, 1)  # nothing of ours is older, and no zone moves it out of the calendar
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Period:
    """Some local days in a row."""

    first: date
    last: date  # included
    zone: ZoneInfo
    as_of: datetime  # the end of the last day; now, while that day is not over; aware UTC

    @property
    def start(self) -> datetime:
        """The first moment, aware UTC."""
        return days.start_of(self.first, self.zone)

    @property
    def days_count(self) -> int:
        """How many days."""
        return (self.last - self.first).days + 1

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is still to come."""
        return self.as_of >= days.end_of(self.last, self.zone)

    def days_over(self) -> list[date]:
        """The days that are over: only they can have been read to their end."""
        every = (self.first + number * DAY for number in range(self.days_count))
        return [day for day in every if days.end_of(day, self.zone) <= self.as_of]

    def before(self) -> "Period":
        """As many days, right before these."""
        return Period(self.first - self.days_count * DAY, self.first - DAY, self.zone, self.start)


def last_days(slot: datetime, zone: ZoneInfo, count: int) -> Period:
    """The `count` days before the local day of `slot`. They are over, so that what they say depends on no clock."""
    last = slot.astimezone(zone).date() - DAY
    return Period(last - (count - 1) * DAY, last, zone, days.end_of(last, zone))


def between(first: date | None, last: date | None, zone: ZoneInfo, now: datetime) -> Period:
    """The days that a person names; an end that is left open gives the last days that are over, or seven of them.

    Raises UsageError naming the end, its value and the remedy.
    """
    today = now.astimezone(zone).date()
    ends = today - DAY if last is None else last
    if ends < FIRST_DAY + DEFAULT_DAYS * DAY:
        raise errors.UsageError(f"to is {ends}: name a day from {FIRST_DAY + DEFAULT_DAYS * DAY} on")
    begins = ends - (DEFAULT_DAYS - 1) * DAY if first is None else first
    if begins < FIRST_DAY:
        raise errors.UsageError(f"from is {begins}: name a day from {FIRST_DAY} on")
    if ends > today:
        raise errors.UsageError(f"to is {ends}, and today is {today} in {zone.key}: name a day up to that")
    if begins > ends:
        raise errors.UsageError(f"from is {begins}, after to ({ends}): swap them or leave one out")
    if (count := (ends - begins).days + 1) > MOST_DAYS:
        raise errors.UsageError(
            f"from {begins} to {ends} are {count} days, and the most is {MOST_DAYS}: name a later from"
        )
    return Period(begins, ends, zone, min(now, days.end_of(ends, zone)))

"""Signals: what a provider's reply says about its limits, in words that are the same for all providers. Values without I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from worker_app.gate import dates

BODY_BYTES = 65_536  # of a body that are looked at
DAY_SECONDS = 86_400.0  # a longer wait is not believed
SLACK_SECONDS = 5.0  # a reset so little before the reply is taken for now
QUARANTINE_CHARS = 64  # of a value that was not believed
NUMBER = re.compile(r"(\d+)(?:\.(\d+))?", re.ASCII)
EPOCH = re.compile(r"\d{1,16}", re.ASCII)


class Kind(StrEnum):
    """What a reply says."""

    OK = "ok"
    PRIMARY = "primary"  # the quota is used up
    SECONDARY = "secondary"  # too much at once, whole key
    BURST = "burst"  # too many a second
    NEAR = "near"  # not refused, but little is left
    OTHER = "other"  # a failure that is no limit: a 404, a permission, a fault of the provider
    UNKNOWN = "unknown"  # no reply, or one that could not be read


REFUSED = frozenset({Kind.PRIMARY, Kind.SECONDARY, Kind.BURST})


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as far as limits are concerned."""

    status: int
    headers: Mapping[str, str]  # names in any case
    body: bytes  # at most BODY_BYTES of it
    document: object  # the parsed JSON; None where there is none
    endpoint: str  # name of the policy's closed set


@dataclass(frozen=True, slots=True)
class Quota:
    """What a reply says is left of one bucket of its endpoint; 0 to 24 h until the quota is whole again."""

    bucket: str
    limit: int | None  # 0: the provider does not count this bucket
    remaining: int | None = None  # known, unless limit is 0
    reset_in: float | None = None  # seconds, by the provider's own clock
    reset_at_ms: int | None = None  # absolute, only when the reply has no Date; Redis TIME is subtracted


@dataclass(frozen=True, slots=True)
class RateSignal:
    """What a reply says about limits; durations in seconds, by the provider's own clock where it sent a Date."""

    kind: Kind
    bucket: str  # that a refusal closes; `*`: the whole key
    after: float | None = None  # the wait that was stated, 1 s to 24 h; None: none was
    after_at_ms: int | None = None  # absolute, only when the reply has no Date; Redis TIME is subtracted
    quotas: tuple[Quota, ...] = ()  # none: the reply says nothing about what is left
    cost: float | None = None  # of this request, as the provider counted it
    detail: str = ""  # the provider's own word, at most 120 characters
    is_reason_known: bool = True  # False: refused for a reason that the policy does not know; to be counted
    quarantined: tuple[str, ...] = ()  # header values that were not believed, at most 64 characters each; to be counted


class ResetFormat(StrEnum):
    """How a provider writes the moment at which a quota is whole again: a fact of the provider, never guessed."""

    SECONDS = "seconds"  # epoch
    MILLISECONDS = "milliseconds"  # epoch
    ISO = "iso"  # with zone
    HTTP_DATE = "http-date"


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a header says to wait: seconds, or a moment where no Date says what the provider's clock shows, or neither."""

    seconds: float | None = None
    at_ms: int | None = None  # epoch
    quarantined: str = ""  # the value, cut, where it was read and not believed

    @property
    def is_stated(self) -> bool:
        """There is a wait that can be believed."""
        return self.seconds is not None or self.at_ms is not None


UNSTATED = Delay()


def parse_retry_after(value: str, date: datetime | None) -> Delay:
    """What `Retry-After` says, 1 s to 24 h, numbers rounded up; `date` is the moment of the reply's Date. Never raises.

    Takes seconds, HTTP dates, ISO 8601 and, against the standard, epochs of 10 or 13 digits near `date`; of a comma list the
    longest wait. https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
    """
    text = value.strip()
    whole = _retry_after(text, date)
    if whole != UNSTATED or "," not in text:
        return whole
    parts = [_retry_after(part.strip(), date) for part in text.split(",")]
    return max(parts, key=lambda part: (part.seconds or 0.0, part.at_ms or 0, part.quarantined))


def parse_reset(value: str, form: ResetFormat, date: datetime | None) -> Delay:
    """What a reset header in `form` says, 0 s to 24 h; `date` is the moment of the reply's Date. Never raises.

    A moment up to 5 s before `date` means now; an earlier one, or one later than 24 h, is not believed.
    """
    text = value.strip()
    at_ms = _reset_ms(text, form)
    if at_ms is None:
        return _quarantine(text) if text else UNSTATED
    if date is None:
        return Delay(at_ms=at_ms)
    seconds = (at_ms - _epoch_ms(date)) / 1000
    return Delay(max(0.0, seconds)) if -SLACK_SECONDS <= seconds <= DAY_SECONDS else _quarantine(text)


def _retry_after(text: str, date: datetime | None) -> Delay:
    if number := NUMBER.fullmatch(text):
        return _from_number(text, number[1].lstrip("0"), number[2] or "", date)
    try:
        moment = dates.parse_http_date(text) or dates.parse_iso_date(text)
    except ValueError:
        return _quarantine(text)
    return _until(text, _epoch_ms(moment), date) if moment else UNSTATED


def _from_number(text: str, digits: str, fraction: str, date: datetime | None) -> Delay:
    if len(digits) > 13:  # no epoch is as long; int() of thousands of digits would be slow, and then raise
        return _quarantine(text)
    number = int(digits or "0") + bool(fraction.strip("0"))
    if number <= DAY_SECONDS:
        return Delay(max(1.0, float(number)))
    if fraction or len(digits) not in (10, 13):
        return _quarantine(text)
    at_ms = number * 1000 if len(digits) == 10 else number
    if date and at_ms < _epoch_ms(date) - DAY_SECONDS * 1000:
        return _quarantine(text)
    return _until(text, at_ms, date)


def _until(text: str, at_ms: int, date: datetime | None) -> Delay:
    """A moment before the reply was sent is the shortest wait: it says that there is one."""
    if date is None:
        return Delay(at_ms=at_ms)
    seconds = (at_ms - _epoch_ms(date)) / 1000
    return Delay(max(1.0, seconds)) if seconds <= DAY_SECONDS else _quarantine(text)


def _reset_ms(text: str, form: ResetFormat) -> int | None:
    if form in (ResetFormat.SECONDS, ResetFormat.MILLISECONDS):
        scale = 1000 if form is ResetFormat.SECONDS else 1
        return int(text) * scale if EPOCH.fullmatch(text) else None
    parse = dates.parse_iso_date if form is ResetFormat.ISO else dates.parse_http_date
    try:
        moment = parse(text)
    except ValueError:
        return None
    return _epoch_ms(moment) if moment else None


def _epoch_ms(moment: datetime) -> int:
    return max(0, round(moment.timestamp() * 1000))


def _quarantine(text: str) -> Delay:
    return Delay(quarantined=text[:QUARANTINE_CHARS])

"""Signals: what a provider's reply says about its limits, in words that are the same for all providers. Never raises."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

BODY_BYTES = 65_536  # of a body that are looked at


class Kind(StrEnum):
    """What a reply says."""

    OK = "ok"
    PRIMARY = "primary"  # the quota is used up
    SECONDARY = "secondary"  # too much at once, whole key
    BURST = "burst"  # too many a second
    NEAR = "near"  # not refused, but little is left
    OTHER = "other"  # a failure that is no limit: a 404, a permission, a fault of the provider
    UNKNOWN = "unknown"  # no reply


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
class RateSignal:
    """What a reply says about limits; durations in seconds, by the provider's own clock where it sent a Date."""

    kind: Kind
    bucket: str  # that the numbers belong to and a refusal closes; `*`: the whole key
    after: float | None = None  # the wait that was stated; None: none was
    limit: int | None = None
    remaining: int | None = None
    reset_in: float | None = None
    reset_at_ms: int | None = None  # absolute, only when the reply has no Date; Redis TIME is subtracted
    cost: float | None = None
    detail: str = ""  # the provider's own word, at most 120 characters

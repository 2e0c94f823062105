"""The provider that the fleet asks: quotas, a limit on requests in flight, and its replies in a real provider's format.

No socket and no clock: each call says when it is. GitHub's headers hold whole seconds, Linear's milliseconds. That a hit
renews a secondary block is an assumption of this model; no page says what GitHub does.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from math import ceil
from typing import Literal

from bench.gate_arrivals import ACCEPTED, PRIMARY, SECONDARY

Model = Literal["fixed", "leaky"]
WORDS = {
    PRIMARY: "API rate limit exceeded for installation ID 1.",
    SECONDARY: "You have exceeded a secondary rate limit. Please wait before you try again.",
    ACCEPTED: "ok",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a provider allows. Moments are seconds after the start of a run."""

    model: Model = "fixed"  # fixed: windows that begin on whole seconds; leaky: refills all the time
    limit: int = 300
    period: float = 6.0  # seconds
    most_in_flight: int | None = 20  # more are refused, and all after them for `block_seconds`
    block_seconds: float = 2.0  # renewed by each hit
    closed_until: float = 0.0  # refuses everything until then
    blocks_at: tuple[float, ...] = ()  # when it refuses without a reason that a client could see
    hidden_per_period: int = 0  # requests of somebody else on the same quota,
    hidden_seconds: float = 2.0  # in the first seconds of each window, where they meet the fleet

    def possible(self, seconds: float) -> int:
        """Requests that a run of so many seconds can get, if nobody else asks."""
        if self.model == "leaky":
            return self.limit + int(self.limit / self.period * seconds)
        return self.limit * ceil(seconds / self.period)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a request, and the numbers that its reply tells."""

    outcome: str
    in_flight: int
    limit: int
    remaining: int
    reset_at: float  # epoch seconds
    retry_after: int | None  # whole seconds, rounded up


class FixedQuota:
    """So many a window, each as long as the other."""

    def __init__(self, limit: int, period: float, began_at: float) -> None:
        self._limit, self._period, self._began_at = limit, period, began_at
        self._number = self._used = 0

    def take(self, now: float) -> bool:
        """Use one, if there is one."""
        self._turn(now)
        is_left = self._used < self._limit
        self._used += is_left
        return is_left

    def remaining(self, now: float) -> int:
        """What is left of this window."""
        self._turn(now)
        return self._limit - self._used

    def reset_at(self, now: float) -> float:
        """When the window ends."""
        self._turn(now)
        return self._began_at + (self._number + 1) * self._period

    def _turn(self, now: float) -> None:
        number = max(0, int((now - self._began_at) // self._period))
        if number > self._number:
            self._number, self._used = number, 0


class LeakyQuota:
    """A store that is full at first and refills at limit / period."""

    def __init__(self, limit: int, period: float, began_at: float) -> None:
        self._limit, self._per_second, self._at = limit, limit / period, began_at
        self._left = float(limit)

    def take(self, now: float) -> bool:
        """Use one, if there is one."""
        self._refill(now)
        is_left = self._left >= 1
        self._left -= is_left
        return is_left

    def remaining(self, now: float) -> int:
        """What is left now."""
        self._refill(now)
        return int(self._left)

    def reset_at(self, now: float) -> float:
        """When it is full again."""
        self._refill(now)
        return now + (self._limit - self._left) / self._per_second

    def _refill(self, now: float) -> None:
        passed = max(0.0, now - self._at)
        self._left, self._at = min(self._limit, self._left + passed * self._per_second), self._at + passed


class Provider:
    """Judges each request on arrival. `began_at` is the epoch second at which the first window begins."""

    def __init__(self, shape: Shape, began_at: float) -> None:
        self.shape = shape
        self.began_at = began_at
        self.quota = (FixedQuota if shape.model == "fixed" else LeakyQuota)(shape.limit, shape.period, began_at)
        self.in_flight = 0
        self._blocked_until = began_at + shape.closed_until
        self._blocks_at = [began_at + at for at in shape.blocks_at]

    def arrive(self, now: float) -> Verdict:
        """Take a request in; `leave` lets it out, whatever came of it."""
        self.in_flight += 1
        if self._is_blocked(now):
            self._blocked_until = max(self._blocked_until, now + self.shape.block_seconds)
            return self._verdict(SECONDARY, now)
        return self._verdict(ACCEPTED if self.quota.take(now) else PRIMARY, now)

    def leave(self) -> None:
        """Its reply is on the way."""
        self.in_flight -= 1

    def _is_blocked(self, now: float) -> bool:
        if self._blocks_at and now >= self._blocks_at[0]:
            self._blocks_at.pop(0)
            return True
        most = self.shape.most_in_flight
        return now < self._blocked_until or (most is not None and self.in_flight > most)

    def _verdict(self, outcome: str, now: float) -> Verdict:
        after = ceil(self._blocked_until - now) if outcome == SECONDARY else None
        remaining, reset_at = self.quota.remaining(now), self.quota.reset_at(now)
        return Verdict(outcome, self.in_flight, self.shape.limit, remaining, reset_at, after)


def reply(verdict: Verdict, model: Model, now: float) -> bytes:
    """The whole HTTP reply, as GitHub writes it for fixed windows and Linear for a leaky quota."""
    status, headers, document = (_github if model == "fixed" else _linear)(verdict)
    body = json.dumps(document).encode()
    lines = {
        "Date": formatdate(now, usegmt=True),
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(body)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode() + body


def _github(verdict: Verdict) -> tuple[HTTPStatus, Mapping[str, str], object]:
    headers = {
        "x-ratelimit-limit": str(verdict.limit),
        "x-ratelimit-remaining": str(verdict.remaining),
        "x-ratelimit-used": str(verdict.limit - verdict.remaining),
        "x-ratelimit-reset": str(int(verdict.reset_at)),
        "x-ratelimit-resource": "core",
    }
    if verdict.retry_after is not None:
        headers["retry-after"] = str(verdict.retry_after)
    status = HTTPStatus.OK if verdict.outcome == ACCEPTED else HTTPStatus.FORBIDDEN
    return status, headers, {"message": WORDS[verdict.outcome]}


def _linear(verdict: Verdict) -> tuple[HTTPStatus, Mapping[str, str], object]:
    headers = {
        "X-RateLimit-Requests-Limit": str(verdict.limit),
        "X-RateLimit-Requests-Remaining": str(verdict.remaining),
        "X-RateLimit-Requests-Reset": str(int(verdict.reset_at * 1000)),
    }
    if verdict.outcome == ACCEPTED:
        return HTTPStatus.OK, headers, {"data": {}}
    error = {"message": "Rate limit exceeded", "extensions": {"code": "RATELIMITED"}}
    return HTTPStatus.BAD_REQUEST, headers, {"errors": [error]}

"""The clients that the fleet compares: how each decides when a request may start, and what it makes of a refusal.

All peers wait as long as `Retry-After` says; a refusal without it, which is GitHub's primary one, costs them a second.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyrate_limiter
import redis
from limits import RateLimitItemPerSecond
from limits.storage import RedisStorage
from limits.strategies import MovingWindowRateLimiter

NO_HEADER_SECONDS = 1.0  # after a refusal that names no wait
LEAST_PAUSE_SECONDS = 0.01  # between two looks at a peer's own limiter
STAMP_KEY = "bench:until"
STAMP_SECONDS = 60  # that the shared timestamp is kept at most
REFUSED = frozenset({400, 403, 429})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client works, and what it was told of the provider."""

    redis_url: str
    limit: int  # requests a period
    period: int  # seconds
    policy: str  # of ours, by its name in `gate_ours`
    greenlets: int  # of this process


@dataclass(frozen=True, slots=True)
class Answer:
    """A provider's reply."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def is_refused(self) -> bool:
        """Whether it is a limit; the mock refuses for no other reason."""
        return self.status in REFUSED

    @property
    def retry_after(self) -> float:
        """Seconds to wait after a refusal."""
        return float(self.headers.get("retry-after", NO_HEADER_SECONDS))


Send = Callable[[], Answer | None]  # one request; None: the time of the run is over, nothing was sent


@dataclass(slots=True)
class Tally:
    """What a client did in one process."""

    asked: int = 0  # calls that ask for leave
    granted: int = 0
    recorded: list[float] = field(default_factory=list)  # monotonic: when a refusal had been told to all
    notes: dict[str, int] = field(default_factory=dict)  # what else came about, by its name


class Client(Protocol):
    """One way to stay within a limit, shared by the greenlets of a process."""

    tally: Tally

    def once(self, send: Send, until: float) -> None:
        """Wait for leave, send one request, mind the reply; return at the monotonic moment `until` at the latest."""
        ...


def pause(seconds: float, until: float) -> None:
    """Sleep, and no longer than the run goes on."""
    time.sleep(max(0.0, min(seconds, until - time.monotonic())))


class RetryAfter:
    """Sends at will, and after a refusal waits as long as it was told: each greenlet for itself."""

    def __init__(self, _: Place) -> None:
        self.tally = Tally()

    def once(self, send: Send, until: float) -> None:
        """Send, and wait after a refusal."""
        answer = send()
        if answer is not None and answer.is_refused:
            pause(answer.retry_after, until)


class SharedTimestamp:
    """One timestamp in Redis before which nobody sends; a refusal sets it, a success deletes it."""

    def __init__(self, place: Place) -> None:
        self.tally = Tally()
        self._redis: Any = redis.Redis.from_url(place.redis_url)

    def once(self, send: Send, until: float) -> None:
        """Wait for the timestamp, send, and set or delete it."""
        self.tally.asked += 1
        if (left := float(self._redis.get(STAMP_KEY) or 0) - time.time()) > 0:
            pause(left, until)
            return
        self.tally.granted += 1
        if (answer := send()) is None:
            return
        if answer.is_refused:
            self._redis.set(STAMP_KEY, time.time() + answer.retry_after, ex=STAMP_SECONDS)
            self.tally.recorded.append(time.monotonic())
        else:
            self._redis.delete(STAMP_KEY)


class Limits:
    """`limits`, moving window, told the exact quota."""

    def __init__(self, place: Place) -> None:
        self.tally = Tally()
        self._limiter = MovingWindowRateLimiter(RedisStorage(place.redis_url))
        self._item = RateLimitItemPerSecond(place.limit, place.period)

    def once(self, send: Send, until: float) -> None:
        """Take one of the window, or wait until its oldest entry leaves it."""
        self.tally.asked += 1
        if not self._limiter.hit(self._item, "bench"):
            reset_at = self._limiter.get_window_stats(self._item, "bench").reset_time
            pause(max(LEAST_PAUSE_SECONDS, reset_at - time.time()), until)
            return
        self.tally.granted += 1
        answer = send()
        if answer is not None and answer.is_refused:
            pause(answer.retry_after, until)


class CountingBucket(pyrate_limiter.RedisBucket):
    """PyrateLimiter's bucket in Redis, which counts how often it is asked."""

    tally: Tally

    def put(self, item: Any) -> Any:
        """Ask."""
        self.tally.asked += 1
        return super().put(item)


class Pyrate:
    """PyrateLimiter, sliding log, told the exact quota; it waits by itself."""

    def __init__(self, place: Place) -> None:
        self.tally = Tally()
        rates = [pyrate_limiter.Rate(place.limit, 1000 * place.period)]
        bucket: Any = CountingBucket.init(rates, redis.Redis.from_url(place.redis_url), "bench:pyrate")
        bucket.tally = self.tally
        self._limiter = pyrate_limiter.Limiter(bucket)

    def once(self, send: Send, until: float) -> None:
        """Wait for leave and send."""
        if not self._limiter.try_acquire("bench", timeout=max(0.0, until - time.monotonic())):
            return
        self.tally.granted += 1
        answer = send()
        if answer is not None and answer.is_refused:
            pause(answer.retry_after, until)

"""Two books, one face: Redis while it answers, this process's memory while it does not.

In local mode the process lives on its share: the last limits that it knew, divided by the workers that live. What it learns
meanwhile goes to Redis when that is back, before anything else does.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import redis

from worker_app.gate.book import Ask, Book, BucketAsk, Granted, Learned, Told, Waits
from worker_app.gate.breaker import Breaker
from worker_app.gate.key import GateKey
from worker_app.gate.listener import Listener
from worker_app.gate.memory_book import MemoryBook
from worker_app.gate.policy import BucketPolicy
from worker_app.gate.signals import Kind, Quota, RateSignal
from worker_app.gate.windows import Windows

Mode = Literal["local", "closed", "open"]
WORKERS_UNKNOWN = 4  # taken where nobody has told how many workers live
T = TypeVar("T")


@dataclass(slots=True)
class _Mirror:
    """What this process last heard of a key, kept for the day on which Redis is away."""

    limit: int
    quotas: dict[str, tuple[Quota, BucketPolicy, float]]  # bucket -> quota, its policy, when it was told (monotonic)


class Outage:
    """Calls the book in Redis, and the one in memory while Redis is away."""

    def __init__(
        self,
        book: Book,
        *,
        windows: Windows,
        listener: Listener,
        workers: Callable[[], int] | None,
        live: Callable[[GateKey], Mapping[str, int]],
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._book = book
        self._windows = windows
        self._listener = listener
        self._workers = workers or (lambda: WORKERS_UNKNOWN)
        self._live = live  # leases of a key that this process holds -> milliseconds that they may last
        self._breaker = breaker or Breaker()
        self._clock = clock
        self._memory = MemoryBook()
        self._known: set[GateKey] = set()  # keys of which the memory was told
        self._mirrors: dict[GateKey, _Mirror] = {}
        self._lock = threading.Lock()

    @property
    def is_local(self) -> bool:
        """Whether Redis is away."""
        return self._breaker.is_open

    @property
    def seconds(self) -> float:
        """For how long Redis has been away; 0 while it is there."""
        return self._breaker.open_seconds

    def call(self, of_redis: Callable[[Book], T]) -> T | None:
        """What Redis answers; None while it is away. Costs nothing while it is known to be."""
        if not self._breaker.may_call():
            return None
        began = self._clock()
        try:
            if self._breaker.is_open:
                self._give_windows_back()
            answer = of_redis(self._book)
        except (redis.RedisError, OSError) as error:
            if self._breaker.failed():
                self._listener.outage(is_over=False, seconds=0.0, error=type(error).__name__)
            return None
        except BaseException:  # an interrupted probe must not leave the breaker waiting for it for ever
            self._breaker.failed()
            raise
        self._listener.trip(self._clock() - began)
        if self._breaker.is_open:
            self._end()
        return answer

    def acquire(self, key: GateKey, ask: Ask) -> Granted | Waits:
        """Grant or wait, by this process's share."""
        self._tell_memory(key)
        return self._memory.acquire(key, shared(ask, self._share()))

    def observe(self, key: GateKey, told: Told) -> Learned:
        """End a lease and learn, for this process alone."""
        self._tell_memory(key)
        return self._memory.observe(key, replace(told, signal=shared_signal(told.signal, self._share())))

    def mirror(self, key: GateKey, *, limit: int | None = None, told: Told | None = None) -> None:
        """Keep what was heard of a key."""
        mirror = self._mirrors.setdefault(key, _Mirror(0, {}))
        if limit is not None:
            mirror.limit = max(mirror.limit, limit) if self._windows.known(key) else limit
        if told is not None:
            for quota in told.signal.quotas:
                mirror.quotas[quota.bucket] = (quota, told.policies[quota.bucket], self._clock())

    def _share(self) -> int:
        return self._workers() or WORKERS_UNKNOWN

    def _tell_memory(self, key: GateKey) -> None:
        """What this process knows of a key is put into the fresh memory once per outage."""
        with self._lock:
            if key in self._known:
                return
            self._known.add(key)
        self._memory.adopt(key, self._live(key))
        mirror = self._mirrors.get(key)
        for quota, policy, told_at in mirror.quotas.values() if mirror else ():
            age = self._clock() - told_at
            if quota.reset_in is None or quota.reset_in <= age:
                continue
            aged = replace(quota, reset_in=quota.reset_in - age, reset_at_ms=None)
            signal = shared_signal(RateSignal(Kind.OTHER, bucket=quota.bucket, quotas=(aged,)), self._share())
            policies = {quota.bucket: policy}
            self._memory.observe(key, Told("", 0, signal, "", 0, 0, mirror.limit if mirror else 1, policies, ()))

    def _give_windows_back(self) -> None:
        for key in self._windows.keys():  # noqa: SIM118 - no mapping
            self._book.sync(key, self._windows.epoch(key), self._windows.known(key))

    def _end(self) -> None:
        away = self._breaker.succeeded()
        if not away:
            return
        self._listener.outage(is_over=True, seconds=away)
        with self._lock:
            self._memory, self._known = MemoryBook(), set()


def shared(ask: Ask, workers: int) -> Ask:
    """The same request under one worker's share of the limits: at least one at a time, a gap that is as many times as long."""
    buckets = tuple(
        BucketAsk(item.name, replace(item.policy, gap=item.policy.gap * workers), item.cost, item.is_silent)
        for item in ask.buckets
    )
    return replace(ask, max_conc=max(1, ask.max_conc // workers), buckets=buckets)


def shared_signal(signal: RateSignal, workers: int) -> RateSignal:
    """The same reply with one worker's share of what it says is left."""
    quotas = tuple(
        replace(
            quota,
            limit=quota.limit and max(1, quota.limit // workers),
            remaining=None if quota.remaining is None else quota.remaining // workers,
        )
        for quota in signal.quotas
    )
    return replace(signal, quotas=quotas)

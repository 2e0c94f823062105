"""Two books, one face: Redis while it answers, this process's memory while it does not.

In local mode the process lives on its share: the last limits that it knew, divided by the workers that live. What it learns
meanwhile goes to Redis when that is back, before anything else does, and for a moment it still keeps to its share: others may
not have come back yet.
"""

import threading
import time
from collections.abc import Callable
from typing import Literal, TypeVar

import redis

from worker_app.gate.book import Ask, Book, Granted, Learned, Told, Waits
from worker_app.gate.breaker import Breaker
from worker_app.gate.key import WHOLE_KEY, GateKey
from worker_app.gate.leases import Leases
from worker_app.gate.listener import Listener
from worker_app.gate.memory_book import MemoryBook
from worker_app.gate.mirrors import Mirrors
from worker_app.gate.share import part, shared_ask, shared_told
from worker_app.gate.signals import Kind, RateSignal
from worker_app.gate.windows import Windows

Mode = Literal["local", "closed", "open"]
WORKERS_UNKNOWN = 4  # taken where nobody has told how many workers live
RETURN_SECONDS = 2.5  # after Redis is back for this process: by then it is for all, see the breaker's pauses
NO_REPLY = RateSignal(Kind.UNKNOWN, bucket=WHOLE_KEY)
T = TypeVar("T")


class Outage:
    """Calls the book in Redis, and the one in memory while Redis is away."""

    def __init__(
        self,
        book: Book,
        *,
        windows: Windows,
        leases: Leases,
        listener: Listener,
        workers: Callable[[], int] | None,
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._book = book
        self._windows = windows
        self._leases = leases
        self._listener = listener
        self._workers = workers or (lambda: WORKERS_UNKNOWN)
        self._breaker = breaker or Breaker()
        self._clock = clock
        self._redis_ahead_ms = 0.0  # of this process's clock
        self._returned_at = -RETURN_SECONDS
        self.mirrors = Mirrors(clock)
        self._lock = threading.Lock()
        self._memory = MemoryBook(self.now_ms)
        self._told: set[GateKey] = set()  # keys that the memory has taken over

    @property
    def is_local(self) -> bool:
        """Whether Redis is away."""
        return self._breaker.is_open

    @property
    def seconds(self) -> float:
        """For how long Redis has been away; 0 while it is there."""
        return self._breaker.open_seconds

    def now_ms(self) -> int:
        """The time of Redis as far as this process can tell: a request that one book granted, the other may observe."""
        return round(self._clock() * 1000 + self._redis_ahead_ms)

    def heard(self, key: GateKey, now_ms: int, born: int) -> None:
        """Redis told its time, and since when it counts leases of the key: where it has lost them, it gets them anew."""
        self._redis_ahead_ms = now_ms - self._clock() * 1000
        if self._leases.heard(key, born):
            self.call(lambda book: self._share(book, key))

    def call(self, of_redis: Callable[[Book], T]) -> T | None:
        """What Redis answers; None while it is away. Costs nothing while it is known to be."""
        if not self._breaker.may_call():
            return None
        was_away = self._breaker.is_open
        try:
            if was_away:
                self._hand_over()
            elif self._leases.is_owing:
                self._give_back()
            answer = of_redis(self._book)
        except (redis.RedisError, OSError) as error:
            if self._breaker.failed():
                self._listener.outage(is_over=False, seconds=0.0, error=type(error).__name__)
            return None
        except BaseException:
            self._breaker.gave_up()
            raise
        if was_away:
            self._end()
        return answer

    def settle(self) -> None:
        """Give back at once what can be, after a call of Redis that was ended from outside."""
        if self._leases.is_owing:
            self.call(lambda _: None)

    def keeps_back(self, key: GateKey, max_conc: int) -> bool:
        """Whether Redis has only just come back, and this process has its share of the key under way."""
        if self._clock() - self._returned_at >= RETURN_SECONDS:
            return False
        return len(self._leases.live(key)) >= part(self.mirrors.limit(key, max_conc), self._divisor())

    def acquire(self, key: GateKey, ask: Ask) -> Granted | Waits:
        """Grant or wait, by this process's share."""
        workers = self._divisor()
        return self._memory_of(key, workers).acquire(
            key, shared_ask(ask, self.mirrors.limit(key, ask.max_conc), workers)
        )

    def observe(self, key: GateKey, told: Told) -> Learned:
        """End a lease and learn, for this process alone."""
        workers = self._divisor()
        return self._memory_of(key, workers).observe(key, shared_told(told, workers))

    def _divisor(self) -> int:
        return self._workers() or WORKERS_UNKNOWN

    def _memory_of(self, key: GateKey, workers: int) -> MemoryBook:
        """The memory, which takes over once an outage what this process knows of a key.

        At first no more requests may be under way than already are: who had less than its share takes it only as fast as
        others, who had more, can have finished.
        """
        with self._lock:
            if key not in self._told:
                live = self._leases.live(key)
                most = part(self.mirrors.limit(key, max(1, len(live))), workers)
                self._memory.begin(key, live, max(1, min(most, len(live))))
                for quota in self.mirrors.quotas(key):
                    self._memory.observe(key, shared_told(quota, workers))
                self._told.add(key)
            return self._memory

    def _hand_over(self) -> None:
        """Redis seems to be back: it gets what this process learned and holds."""
        for key in {*self._windows.keys(), *self._leases.keys()}:
            self._share(self._book, key)

    def _share(self, book: Book, key: GateKey) -> None:
        """Tell what is known of a key and is under way; what ended meanwhile, Redis may have counted anew."""
        leases = self._leases.share(key)
        book.sync(key, self._windows.epoch(key), self._windows.known(key), leases)
        for lease in leases.keys() - self._leases.live(key).keys():
            self._leases.owe(key, lease, leases[lease] / 1000)

    def _give_back(self) -> None:
        """End the leases of which Redis could not be told that they are over."""
        for key, lease in self._leases.owed():
            self._book.observe(key, Told(lease, 0, NO_REPLY, "", 0, 0, 1, {}, ()))
            self._leases.settle(lease)

    def _end(self) -> None:
        away = self._breaker.succeeded()
        if not away:
            return
        self._returned_at = self._clock()
        with self._lock:
            self._memory, self._told = MemoryBook(self.now_ms), set()
        self._listener.outage(is_over=True, seconds=away)

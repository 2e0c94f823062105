"""Leases: what this process may send at this moment, and which leases it has to give back because Redis may still count them."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from worker_app.gate.book import BucketAsk
from worker_app.gate.key import GateKey


@dataclass(slots=True)
class _Lease:
    key: GateKey
    ends_at: float  # monotonic
    is_shared: bool  # Redis counts it, or may do so


class Leases:
    """The leases of this process. Their names tell what they cost, so that whoever frees one needs no other key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._live: dict[GateKey, dict[str, _Lease]] = {}
        self._born: dict[GateKey, int] = {}  # of keys with live leases: when Redis began to count them
        self._owed: dict[str, _Lease] = {}
        self._count = 0
        self._process = _new_process()

    def name(self, buckets: tuple[BucketAsk, ...]) -> str:
        """The name of a new lease."""
        with self._lock:
            self._after_fork()
            self._count += 1
            priced = ",".join(f"{item.name}:{item.cost}" for item in buckets if item.policy.model != "none")
            return f"{self._process[1]}.{self._count}|{priced}"

    def add(self, key: GateKey, lease: str, seconds: float, *, is_shared: bool, born: int = 0) -> None:
        """A lease was granted for at most `seconds`; `is_shared`: by Redis, which counts leases of the key since `born`."""
        with self._lock:
            if is_shared and born:
                self._born.setdefault(key, born)
            self._live.setdefault(key, {})[lease] = _Lease(key, self._clock() + seconds, is_shared)

    def remove(self, key: GateKey, lease: str) -> bool:
        """A lease has ended; returns whether Redis may count it."""
        with self._lock:
            self._after_fork()
            mine = self._live.get(key, {})
            ended = mine.pop(lease, None)
            if not mine:
                self._live.pop(key, None)
                self._born.pop(key, None)
            return ended is not None and ended.is_shared

    def live(self, key: GateKey) -> dict[str, int]:
        """The leases of a key, with the milliseconds that each may last."""
        with self._lock:
            return self._lasting(key)

    def share(self, key: GateKey) -> dict[str, int]:
        """The same; Redis is about to hear of all of them."""
        with self._lock:
            mine = self._lasting(key)
            for lease in mine:
                self._live[key][lease].is_shared = True
            return mine

    def keys(self) -> set[GateKey]:
        """The keys of which a lease is live."""
        with self._lock:
            self._after_fork()
            return set(self._live)

    def heard(self, key: GateKey, born: int) -> bool:
        """Redis has counted the leases of the key since `born`; returns whether it has lost some of this process."""
        before = self._born.get(key)
        if before == born or key not in self._live:
            return False
        with self._lock:
            self._born[key] = born
            return before is not None

    def owe(self, key: GateKey, lease: str, seconds: float) -> None:
        """A lease is over, and Redis may count it for so many seconds yet: it could not be told."""
        with self._lock:
            self._owed[lease] = _Lease(key, self._clock() + seconds, is_shared=True)

    @property
    def is_owing(self) -> bool:
        """Whether leases have to be given back."""
        return bool(self._owed)

    def owed(self) -> list[tuple[GateKey, str]]:
        """The leases that have to be given back; those that have run out are forgotten."""
        now = self._clock()
        with self._lock:
            self._after_fork()
            self._owed = {name: lease for name, lease in self._owed.items() if lease.ends_at > now}
            return [(lease.key, name) for name, lease in self._owed.items()]

    def settle(self, lease: str) -> None:
        """An owed lease was given back."""
        with self._lock:
            self._owed.pop(lease, None)

    def _lasting(self, key: GateKey) -> dict[str, int]:
        self._after_fork()
        now = self._clock()
        mine = self._live.get(key, {})
        return {name: round((lease.ends_at - now) * 1000) for name, lease in mine.items() if lease.ends_at > now}

    def _after_fork(self) -> None:
        if self._process[0] != os.getpid():  # a child must not give the leases of its parent back
            self._process, self._live, self._born, self._owed = _new_process(), {}, {}, {}


def _new_process() -> tuple[int, str]:
    return os.getpid(), uuid4().hex[:12]

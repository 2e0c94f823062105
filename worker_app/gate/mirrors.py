"""Mirrors: what this process last heard of each key's limits, kept for the time in which Redis is away."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from worker_app.gate.book import Told
from worker_app.gate.key import WHOLE_KEY, GateKey
from worker_app.gate.policy import BucketPolicy
from worker_app.gate.signals import Kind, Quota, RateSignal

FEW_KEYS = 1000  # so many are kept, however old
OLD_SECONDS = 3600.0  # then those go that nobody asked about for so long


@dataclass(slots=True)
class _Mirror:
    limit: int = 0  # of requests under way; 0: nobody has heard
    heard_at: float = 0.0
    quotas: dict[str, tuple[Quota, BucketPolicy, float]] = field(default_factory=dict)  # by bucket; when it was told


class Mirrors:
    """The mirrors of all keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: dict[GateKey, _Mirror] = {}
        self._many_keys = FEW_KEYS

    def limit(self, key: GateKey, most: int) -> int:
        """How many requests of a key may be under way as Redis last said; `most` where it said nothing, or more."""
        mirror = self._of.get(key)
        return min(most, mirror.limit) if mirror and mirror.limit else most

    def granted(self, key: GateKey, limit: int) -> None:
        """Redis granted a request under this limit."""
        mirror = self._of.get(key) or self._new(key)
        mirror.limit, mirror.heard_at = limit, self._clock()

    def told(self, key: GateKey, told: Told) -> None:
        """A provider said what is left."""
        if told.signal.quotas:
            mirror, now = self._of.get(key) or self._new(key), self._clock()
            mirror.heard_at = now
            mirror.quotas |= {quota.bucket: (quota, told.policies[quota.bucket], now) for quota in told.signal.quotas}

    def quotas(self, key: GateKey) -> Iterator[Told]:
        """What the provider last said, as if it said it now; what has come back since is left out."""
        mirror = self._of.get(key)
        for quota, policy, told_at in list(mirror.quotas.values()) if mirror else ():
            age = self._clock() - told_at
            if quota.reset_in is not None and quota.reset_in > age:
                aged = replace(quota, reset_in=quota.reset_in - age, reset_at_ms=None)
                signal = RateSignal(Kind.OTHER, bucket=WHOLE_KEY, quotas=(aged,))
                yield Told("", 0, signal, "", 0, 0, 1, {quota.bucket: policy}, ())

    def _new(self, key: GateKey) -> _Mirror:
        with self._lock:
            if len(self._of) >= self._many_keys:
                old = self._clock() - OLD_SECONDS
                self._of = {of: mirror for of, mirror in self._of.items() if mirror.heard_at > old}
                self._many_keys = max(FEW_KEYS, 2 * len(self._of))
            return self._of.setdefault(key, _Mirror())

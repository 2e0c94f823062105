"""A provider in the test's process, with a limit on requests under way, a quota in windows, and blocks."""

import threading
import time
from dataclasses import dataclass, field

from worker_app.gate.signals import Kind, Quota, RateSignal


@dataclass
class Provider:
    """Answers each request after a moment. All times are seconds of the monotonic clock."""

    most: int = 1_000_000  # more under way are refused, and close it for `block_seconds`
    block_seconds: float = 1.0
    limit: int = 1_000_000
    period: float = 3600.0
    late_seconds: float = 0.0  # after the reset in which the old window still refuses
    latency: float = 0.03
    arrivals: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    most_seen: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = self._used = 0
        self._ends_at = time.monotonic() + self.period
        self._blocked_until = 0.0

    def block(self, seconds: float) -> None:
        """Refuse everything for so long, for a reason that nobody sees."""
        self._blocked_until = time.monotonic() + seconds

    def send(self) -> RateSignal:
        """One request, there and back."""
        with self._lock:
            signal = self._judge(time.monotonic())
        threading.Event().wait(self.latency)
        with self._lock:
            self._under_way -= 1
        return signal

    def _judge(self, now: float) -> RateSignal:
        self._under_way += 1
        self.most_seen = max(self.most_seen, self._under_way)
        self.arrivals.append(now)
        if now >= self._ends_at + self.late_seconds:
            self._used, self._ends_at = 0, self._ends_at + self.period
        if now < self._blocked_until or self._under_way > self.most:
            self._blocked_until = max(self._blocked_until, now + self.block_seconds)
            self.refusals.append(now)
            return RateSignal(Kind.SECONDARY, bucket="*", after=max(1.0, self._blocked_until - now))
        self._used += 1
        left, reset_in = max(0, self.limit - self._used), max(0.0, self._ends_at - now)
        quotas = (Quota("core", self.limit, left, reset_in),)
        if self._used > self.limit:
            self.refusals.append(now)
            return RateSignal(Kind.PRIMARY, bucket="core", after=max(1.0, reset_in), quotas=quotas)
        return RateSignal(Kind.OK, bucket="core", quotas=quotas)

"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds; called as `time.monotonic` is."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def milliseconds(self) -> int:
        return round(self.now * 1000)

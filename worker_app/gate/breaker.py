"""Breaker: after a failure Redis is left alone for a moment, then one caller looks again. It always looks again."""

import random
import threading
import time
from collections.abc import Callable

FIRST_SECONDS, MOST_SECONDS = 1.0, 2.0  # the whole fleet has looked again two seconds after Redis is back


class Breaker:
    """Tells whether Redis may be called. The pauses double and are drawn evenly, so that a fleet does not return as one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, draw: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._draw = draw
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_at = 0.0
        self._again_at = 0.0
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether Redis is taken to be away."""
        return self._failures > 0

    @property
    def open_seconds(self) -> float:
        """For how long Redis has been away; 0 while it is there."""
        return self._clock() - self._opened_at if self._failures else 0.0

    def may_call(self) -> bool:
        """Whether this caller may call Redis; while it is away, one at a time is told so, when its pause is over.

        Who is told so says how it went: by `failed`, `succeeded` or `gave_up`.
        """
        if not self._failures:
            return True
        with self._lock:
            if self._is_probed or self._clock() < self._again_at:
                return False
            self._is_probed = True
            return True

    def failed(self) -> bool:
        """A call failed. True: it is the first of this outage."""
        with self._lock:
            is_first = self._failures == 0
            if is_first:
                self._opened_at = self._clock()
            if is_first or self._is_probed:
                longest = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(self._failures, 8))
                self._failures += 1
                self._again_at = self._clock() + longest * self._draw()
            self._is_probed = False
            return is_first

    def gave_up(self) -> None:
        """A call was ended from outside before it was answered: that says nothing of Redis, and the next one may look."""
        with self._lock:
            self._is_probed = False

    def succeeded(self) -> float:
        """A call was answered. Returns for how long Redis was away, 0 when it was not."""
        if not self._failures:
            return 0.0
        with self._lock:
            away = self._clock() - self._opened_at
            self._failures = 0
            self._is_probed = False
            return away

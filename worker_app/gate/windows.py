"""Windows that this process knows: a check of one costs no trip, and Redis gets them back should it ever lose them."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from worker_app.gate.book import Known, Seen
from worker_app.gate.key import WHOLE_KEY, GateKey

REFRESH_SECONDS = 1.0  # between two looks at Redis for a key that somebody asks for while it is closed


@dataclass(frozen=True, slots=True)
class Window:
    """One bucket that is closed."""

    bucket: str
    ends_at: float  # this process's monotonic clock
    text: str
    fails: int


class Windows:
    """The windows of all keys, on the monotonic clock of this process. One only ever grows, or all of a key are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: dict[GateKey, dict[str, Window]] = {}
        self._epochs: dict[GateKey, int] = {}  # moment of the last clear that this process has heard of
        self._looked_at: dict[GateKey, float] = {}

    def note(self, key: GateKey, bucket: str, seconds: float, text: str, fails: int = 0) -> None:
        """Remember that a bucket is closed for `seconds`."""
        ends_at = self._clock() + seconds
        with self._lock:
            windows = self._of.setdefault(key, {})
            before = windows.get(bucket)
            if before is None or ends_at > before.ends_at:
                windows[bucket] = Window(bucket, ends_at, text, fails)

    def heard(self, key: GateKey, cleared: int) -> None:
        """Forget the windows of a key that was cleared since this process last heard of it."""
        if cleared > self._epochs.get(key, 0):
            with self._lock:
                self._epochs[key] = cleared
                self._of.pop(key, None)

    def saw(self, key: GateKey, seen: Seen) -> None:
        """Take over what Redis knows of a key."""
        self.heard(key, seen.cleared)
        for bucket, left_ms, text, fails in seen.windows():
            self.note(key, bucket, left_ms / 1000, text, fails)

    def closed(self, key: GateKey, buckets: Iterable[str]) -> tuple[Window, float] | None:
        """The window over these buckets or the whole key that ends last, and the seconds that are left of it."""
        windows = self._of.get(key)
        if not windows:
            return None
        now = self._clock()
        found = [windows[name] for name in (WHOLE_KEY, *buckets) if name in windows and windows[name].ends_at > now]
        if not found:
            return None
        last = max(found, key=lambda window: window.ends_at)
        return last, last.ends_at - now

    def known(self, key: GateKey) -> tuple[Known, ...]:
        """Every window of a key that is still open; those that are over are forgotten here."""
        if key not in self._of:
            return ()
        now = self._clock()
        with self._lock:
            windows = self._of.get(key, {})
            for bucket in [bucket for bucket, window in windows.items() if window.ends_at <= now]:
                del windows[bucket]
            if not windows:
                self._of.pop(key, None)
            return tuple(Known(item.bucket, round((item.ends_at - now) * 1000), item.text) for item in windows.values())

    def epoch(self, key: GateKey) -> int:
        """The last clear of a key that this process has heard of."""
        return self._epochs.get(key, 0)

    def keys(self) -> list[GateKey]:
        """The keys of which a window is known."""
        return list(self._of)

    def may_look(self, key: GateKey) -> bool:
        """Whether Redis was not asked for a second; the caller who gets True asks it now."""
        now = self._clock()
        with self._lock:
            if now - self._looked_at.get(key, -REFRESH_SECONDS) < REFRESH_SECONDS:
                return False
            self._looked_at[key] = now
            return True

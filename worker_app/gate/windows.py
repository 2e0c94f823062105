"""Windows that this process knows: a check of one costs no trip, and Redis gets them back should it ever lose them."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from worker_app.gate.book import Known, Seen
from worker_app.gate.key import WHOLE_KEY, GateKey

REFRESH_SECONDS = 1.0  # between two looks at Redis for a key that somebody asks for while it is closed
FEW_KEYS = 1000  # so many are kept without asking whether their windows are over


@dataclass(frozen=True, slots=True)
class Window:
    """One bucket that is closed."""

    bucket: str
    ends_at: float  # this process's monotonic clock
    text: str
    fails: int
    is_told: bool  # Redis told of it: it is no news there


class Windows:
    """The windows of all keys, on the monotonic clock of this process. One only ever grows, or all of a key are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: dict[GateKey, dict[str, Window]] = {}
        self._epochs: dict[GateKey, int] = {}  # moment of the last clear that this process has heard of
        self._looked_at: dict[GateKey, float] = {}
        self._many_keys = FEW_KEYS

    def note(
        self,
        key: GateKey,
        bucket: str,
        seconds: float,
        text: str,
        fails: int = 0,
        *,
        since: float | None = None,
        is_told: bool = False,
    ) -> None:
        """Remember that a bucket is closed for `seconds`, counted from the moment `since`: now, unless it is given.

        What Redis tells is counted from before it was asked, so that a window never seems longer by the way of an answer.
        """
        ends_at = (self._clock() if since is None else since) + seconds
        with self._lock:
            windows = self._of.setdefault(key, {})
            before = windows.get(bucket)
            if before is None or ends_at > before.ends_at:
                windows[bucket] = Window(bucket, ends_at, text, fails, is_told)
            elif is_told and not before.is_told:
                windows[bucket] = replace(before, is_told=True)
            if len(self._of) > self._many_keys:
                self._forget_ended()

    def heard(self, key: GateKey, cleared: int) -> bool:
        """Forget the windows of a key that was cleared since this process last heard of it.

        False: the answer that tells so is older than a clear that this process knows, and so are the windows in it.
        """
        epoch = self._epochs.get(key, 0)
        if cleared > epoch:
            with self._lock:
                self._epochs[key] = cleared
                self._of.pop(key, None)
        return cleared >= epoch

    def saw(self, key: GateKey, seen: Seen, since: float) -> None:
        """Take over what Redis, which was asked at `since`, knows of a key."""
        if self.heard(key, seen.cleared):
            for bucket, left_ms, text, fails in seen.windows():
                self.note(key, bucket, left_ms / 1000, text, fails, since=since, is_told=True)

    def closed(self, key: GateKey, buckets: Iterable[str]) -> tuple[Window, float] | None:
        """The window over these buckets or the whole key that ends last, and the seconds that are left of it."""
        windows = self._of.get(key)
        if not windows:
            return None
        last = windows.get(WHOLE_KEY)
        for bucket in buckets:
            window = windows.get(bucket)
            if window is not None and (last is None or window.ends_at > last.ends_at):
                last = window
        if last is None:
            return None
        left = last.ends_at - self._clock()
        return (last, left) if left > 0 else None

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
            return tuple(
                Known(item.bucket, round((item.ends_at - now) * 1000), item.text, item.is_told)
                for item in windows.values()
            )

    def epoch(self, key: GateKey) -> int:
        """The last clear of a key that this process has heard of."""
        return self._epochs.get(key, 0)

    def keys(self) -> list[GateKey]:
        """The keys of which a window is known."""
        with self._lock:
            self._forget_ended()
            return list(self._of)

    def may_look(self, key: GateKey, within: float = REFRESH_SECONDS) -> bool:
        """Whether Redis was not asked for so many seconds; the caller who gets True asks it now."""
        now = self._clock()
        if now - self._looked_at.get(key, -REFRESH_SECONDS) < within:
            return False
        with self._lock:
            if now - self._looked_at.get(key, -REFRESH_SECONDS) < within:
                return False
            if len(self._looked_at) > FEW_KEYS:
                self._looked_at = {of: at for of, at in self._looked_at.items() if now - at < REFRESH_SECONDS}
            self._looked_at[key] = now
            return True

    def _forget_ended(self) -> None:
        now = self._clock()
        self._of = {
            key: windows for key, windows in self._of.items() if any(item.ends_at > now for item in windows.values())
        }
        self._many_keys = max(FEW_KEYS, 2 * len(self._of))

"""Lines: in one process one caller per key, endpoint and priority asks Redis; the others stand behind it in their order.

Nobody holds a lock while it waits. A caller that leaves hands its turn on, whatever it left for.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from worker_app.gate.key import GateKey, Priority

LOOK_SECONDS = 0.5  # between two looks of those who wait at whether they still should


@dataclass(slots=True, eq=False)
class Place:
    """A caller's place in its line."""

    key: GateKey
    endpoint: str
    priority: Priority
    turn: threading.Event = field(default_factory=threading.Event)

    @property
    def line(self) -> tuple[GateKey, str, Priority]:
        """Which line it stands in."""
        return self.key, self.endpoint, self.priority


class Lines:
    """Every line of this process. `is_stopping` ends all waits within half a second, as `stop` does at once."""

    def __init__(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        self._lock = threading.Lock()
        self._lines: dict[tuple[GateKey, str, Priority], deque[Place]] = {}
        self._hungry: dict[GateKey, list[Place]] = {}  # first of their lines, waiting for a request to end
        self._is_stopping = is_stopping
        self._was_stopped = False

    def enter(self, key: GateKey, endpoint: str, priority: Priority) -> Place:
        """A place at the end of its line; the first of a line has the turn."""
        place = Place(key, endpoint, priority)
        with self._lock:
            line = self._lines.setdefault(place.line, deque())
            line.append(place)
            if line[0] is place:
                place.turn.set()
        return place

    def leave(self, place: Place) -> None:
        """Give the place up and the turn, where it had it, to the next."""
        with self._lock:
            line = self._lines[place.line]
            had_turn = line[0] is place
            line.remove(place)
            if not line:
                del self._lines[place.line]
            elif had_turn:
                line[0].turn.set()

    def rest(self, place: Place, seconds: float) -> None:
        """Wait with the turn in hand; ended early by a stop."""
        place.turn.clear()
        self._wait(place, seconds)

    def rest_until_freed(self, place: Place, seconds: float) -> None:
        """Wait with the turn in hand until a request of the key ends in this process, at most `seconds`."""
        place.turn.clear()
        with self._lock:
            self._hungry.setdefault(place.key, []).append(place)
        try:
            self._wait(place, seconds)
        finally:
            self._sate(place)

    def freed(self, key: GateKey) -> None:
        """A request of the key has ended: the most urgent that waits for one may ask again."""
        if key not in self._hungry:
            return
        with self._lock:
            waiting = self._hungry.get(key)
            if waiting:
                first = min(waiting, key=lambda place: place.priority)
                waiting.remove(first)
                first.turn.set()

    def stop(self) -> None:
        """End every wait now and from now on."""
        with self._lock:
            self._was_stopped = True
            for line in self._lines.values():
                for place in line:
                    place.turn.set()

    @property
    def is_stopped(self) -> bool:
        """Whether waits end at once."""
        return self._was_stopped or self._is_stopping()

    def _wait(self, place: Place, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.is_stopped:
            left = until - time.monotonic()
            if left <= 0 or place.turn.wait(min(left, LOOK_SECONDS)):
                return

    def _sate(self, place: Place) -> None:
        with self._lock:
            waiting = self._hungry.get(place.key, [])
            if place in waiting:
                waiting.remove(place)
            if not waiting:
                self._hungry.pop(place.key, None)

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
        self._crowded_until: dict[GateKey, float] = {}  # no more may be under way; monotonic, for others may make room
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
        """Wait with the turn in hand until a request of the key ends in this process, or about `seconds` have passed.

        Of all who wait so, the most urgent asks each time, whoever's time is over.
        """
        place.turn.clear()
        with self._lock:
            self._hungry.setdefault(place.key, []).append(place)
        try:
            while not self._wait(place, seconds) and not self._is_first(place):
                pass
        finally:
            self._sate(place)

    def freed(self, key: GateKey) -> None:
        """A request of the key has ended: the most urgent that waits for one may ask again."""
        if key not in self._crowded_until:
            return
        with self._lock:
            if key in self._hungry:
                self._wake(key)
            else:
                self._crowded_until.pop(key, None)

    def crowd(self, key: GateKey, seconds: float) -> None:
        """No more requests of the key may be under way: whoever comes to ask within `seconds` waits for one to end."""
        self._crowded_until[key] = time.monotonic() + seconds

    def clear(self, key: GateKey) -> None:
        """There is room for more."""
        self._crowded_until.pop(key, None)

    def crowded_for(self, key: GateKey) -> float:
        """For how many seconds there will be no room, as far as is known; 0: there may be some."""
        until = self._crowded_until.get(key)
        return 0.0 if until is None else max(0.0, until - time.monotonic())

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

    def _wait(self, place: Place, seconds: float) -> bool:
        """Whether the wait was ended before its time."""
        until = time.monotonic() + seconds
        while not self.is_stopped:
            left = until - time.monotonic()
            if left <= 0:
                return False
            if place.turn.wait(min(left, LOOK_SECONDS)):
                return True
        return True

    def _is_first(self, place: Place) -> bool:
        with self._lock:
            was_woken = place not in self._hungry.get(place.key, ())
            return was_woken or self._wake(place.key) is place

    def _wake(self, key: GateKey) -> Place:
        waiting = self._hungry[key]
        first = min(waiting, key=lambda place: place.priority)
        self._take_away(first)
        first.turn.set()
        return first

    def _sate(self, place: Place) -> None:
        with self._lock:
            self._take_away(place)

    def _take_away(self, place: Place) -> None:
        waiting = self._hungry.get(place.key, [])
        if place in waiting:
            waiting.remove(place)
            if not waiting:
                del self._hungry[place.key]

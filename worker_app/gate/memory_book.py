"""The book in memory: the same rules as the scripts, step by step, for one process while Redis is away.

It is also what the scripts are held against: both get the same operations and the same time, and must answer the same.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from worker_app.gate import memory_asks, memory_replies
from worker_app.gate.book import NONE, Ask, Granted, Known, Learned, Seen, Told, Waits
from worker_app.gate.key import WHOLE_KEY, GateKey
from worker_app.gate.memory_asks import Blocked
from worker_app.gate.memory_state import ALONE, LEAP, YOUNG, State, costs
from worker_app.gate.signals import REFUSED

FORGOTTEN = frozenset({"u", "y", "g", "fails", "tk", "L", "R", "W", "O", "S", "x", "pa"})  # by a clear


class MemoryBook:
    """Implements `book.Book` in this process. `clock` gives whole milliseconds."""

    def __init__(self, clock: Callable[[], int] = lambda: int(time.monotonic() * 1000)) -> None:
        self._clock = clock
        self._states: dict[GateKey, State] = {}
        self._lock = threading.Lock()

    def acquire(self, key: GateKey, ask: Ask) -> Granted | Waits:
        """Grant the request or say how long to wait."""
        with self._lock:
            state = self._states.setdefault(key, State())
            now, stepped = state.moment(self._clock())
            state.numbers["t"] = now
            state.restore(ask.epoch, ask.known, now)
            cleared = state.cleared
            state.reap(now)
            closed, ended_at = memory_asks.windows(state, ask, now)
            if closed is not None:
                return replace(memory_asks.released(state, ask, closed, (now, cleared, stepped)), born=state.born)
            try:
                writes, left = memory_asks.quotas(state, ask, now)
                limit, room = memory_asks.concurrency(state, ask, now, ended_at)
                delay = memory_asks.pace(state, ask, now)
            except Blocked as blocked:
                wait = math.ceil(blocked.wait_ms)
                waits = Waits(wait, now, blocked.reason, cleared, stepped, blocked.bucket, held=ask.held)
                return replace(waits, born=state.born)
            state.numbers.update(writes)
            memory_asks.grant(state, ask, now, delay)
            ended = memory_asks.ended(state, ask, now) if ended_at else ()
            return Granted(delay, now, left, cleared, stepped, limit, len(state.leases), ended, room, state.born)

    def observe(self, key: GateKey, told: Told) -> Learned:
        """End the lease and learn from the reply."""
        with self._lock:
            state = self._states.setdefault(key, State())
            now, stepped = state.moment(self._clock())
            state.numbers["t"] = now
            live = len(state.leases)
            was_live = state.leases.pop(told.lease, None) is not None
            if was_live:
                state.lessen(costs(told.lease))
            learned = memory_replies.refused(state, told, now) if told.signal.kind in REFUSED else (0, 0, 0, False)
            for quota in told.signal.quotas:
                memory_replies.take(state, quota, told.policies[quota.bucket], told.sent_ms, now)
            memory_replies.succeeded(state, told, now, live if was_live else None)
            left, fails, opened, leaked = learned
            cleared = state.cleared
            bucket = told.signal.bucket
            return Learned(was_live, left, now, cleared, stepped, bucket, fails, opened, leaked, state.born)

    def sync(
        self, key: GateKey, epoch: int = 0, known: tuple[Known, ...] = (), leases: Mapping[str, int] = NONE
    ) -> Seen:
        """Add the windows that the caller knows and the leases that it holds, and tell all that is known."""
        with self._lock:
            state = self._states.get(key) or State()
            if known or leases:
                self._states[key] = state
                now, stepped = state.moment(self._clock())
                state.restore(epoch, known, now)
                state.adopt(leases, now)
                if leases and now - state.born < YOUNG:
                    state.numbers["p"] = now + ALONE
                state.numbers["t"] = now
            else:
                seen, clock = state.numbers.get("t", 0), self._clock()
                now, stepped = max(clock, seen), seen - clock if seen - clock > LEAP else 0
            live = sum(ends > now for ends in state.leases.values())
            fields = {name: str(number) for name, number in state.numbers.items()} | state.texts
            return Seen(now, max(epoch, state.cleared), stepped, live, fields)

    def begin(self, key: GateKey, leases: Mapping[str, int], conc: int) -> None:
        """Take a key over from another book: the leases that are under way, and how many requests may be at first."""
        with self._lock:
            state = self._states.setdefault(key, State())
            state.adopt(leases, self._clock())
            state.numbers["conc"] = conc * 1000

    def clear(self, key: GateKey, bucket: str) -> int:
        """Forget the windows and quotas of a bucket, `*` of all; returns how many windows were open."""
        with self._lock:
            state = self._states.setdefault(key, State())
            now, _ = state.moment(self._clock())
            wanted = [
                name
                for name in (*state.numbers, *state.texts)
                if ":" in name and bucket in (WHOLE_KEY, name.partition(":")[2])
            ]
            opened = sum(name.startswith("u:") and state.numbers[name] > now for name in wanted)
            for name in wanted:
                if name.partition(":")[0] in FORGOTTEN:
                    state.numbers.pop(name, None)
                    state.texts.pop(name, None)
            state.numbers.update(e=max(now, state.cleared + 1), t=now)
            return opened

    def every_key(self) -> list[GateKey]:
        """Every key of which something is known."""
        with self._lock:
            return sorted(self._states, key=lambda key: key.text)

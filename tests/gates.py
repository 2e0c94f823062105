"""A gate for tests of what sends requests: it keeps a record of every slot and closes when a test says so."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from worker_app.gate.key import Decision, GateKey, Priority, Reason
from worker_app.gate.signals import REFUSED, Kind, RateSignal

DEADLINE = 20.0


class RecordedPermit:
    """One slot that was given; `signal` is what the gate was told in it, None as long as it was told nothing."""

    def __init__(self, key: GateKey, endpoint: str, cost: float, priority: Priority, max_wait: float) -> None:
        self.key = key
        self.endpoint = endpoint
        self.cost = cost
        self.priority = priority
        self.max_wait = max_wait
        self.signal: RateSignal | None = None
        self.is_live = True

    def observe(self, signal: RateSignal, /) -> Decision:
        """Record it; a refusal closes for what it states, else for 60 s."""
        assert self.is_live
        assert self.signal is None
        self.signal = signal
        if signal.kind not in REFUSED:
            return Decision(True, bucket=signal.bucket)
        wait = 60.0 if signal.after is None else signal.after
        return Decision(False, wait, Reason.WINDOW, signal.bucket, f"{signal.kind.value}: {signal.detail}", fails=1)


class RecordingGate:
    """Gives every slot that is asked for, at most `most` at once; while `is_open` is clear, all wait."""

    def __init__(self, *, most: int = 1_000) -> None:
        self.permits: list[RecordedPermit] = []
        self.waiting = 0
        self.is_open = threading.Event()
        self.is_open.set()
        self._places = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()

    @contextmanager
    def slot(
        self,
        key: GateKey,
        endpoint: str,
        *,
        cost: float = 1.0,
        priority: Priority = Priority.SYNC,
        max_wait: float = 5.0,
        retry: bool = False,
    ) -> Iterator[RecordedPermit]:
        """As the gate's."""
        self._wait()
        permit = RecordedPermit(key, endpoint, cost, priority, max_wait)
        with self._lock:
            self.permits.append(permit)
        try:
            yield permit
        finally:
            permit.is_live = False
            self._places.release()

    @property
    def live(self) -> int:
        """How many slots are held."""
        return sum(permit.is_live for permit in self.permits)

    @property
    def kinds(self) -> list[Kind | None]:
        """What the gate was told, slot by slot; None: nothing."""
        return [permit.signal.kind if permit.signal else None for permit in self.permits]

    def _wait(self) -> None:
        with self._lock:
            self.waiting += 1
        assert self.is_open.wait(DEADLINE)
        assert self._places.acquire(timeout=DEADLINE)
        with self._lock:
            self.waiting -= 1

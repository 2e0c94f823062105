"""Fresh: a value that one caller at a time reads and that the others share for a moment. An old one is never given out."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from worker_app import errors

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Spans:
    """For how long, in seconds."""

    value: float  # a value is given out, from when its reader began
    fault: float  # a fault is, so that those who waited for it do not wait each for their own
    patience: float  # a caller waits for another one who reads


class Fresh(Generic[Value]):
    """What `read` gives. `clock` is monotonic."""

    def __init__(self, read: Callable[[], Value], spans: Spans, clock: Callable[[], float]) -> None:
        self._read = read
        self._spans = spans
        self._clock = clock
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._value: Value | None = None
        self._fault: errors.DevHopsError | None = None

    def get(self) -> Value:
        """The value. Raises what `read` raises, and StoreAway where its reader does not come back."""
        if not self._lock.acquire(timeout=self._spans.patience):
            raise errors.StoreAway("a store did not answer in time")
        try:
            began = self._clock()
            if began >= self._until:
                self._look(began)
            if self._fault is not None:
                raise self._fault.with_traceback(None)
            return cast("Value", self._value)
        finally:
            self._lock.release()

    def _look(self, began: float) -> None:
        self._value = self._fault = None
        try:
            self._value = self._read()
            self._until = began + self._spans.value
        except errors.DevHopsError as error:
            self._fault = error
            self._until = self._clock() + self._spans.fault

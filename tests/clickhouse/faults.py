"""What a test makes the front do wrong, for statements that contain a given text."""

import threading
from dataclasses import dataclass
from typing import Literal

Kind = Literal["unavailable", "drop", "lose", "delay", "code"]


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong, `times` times, from the first matching statement on that comes after `after` others.

    delay: the statement runs `seconds` later. drop: the connection ends and the statement does not run. lose: it ends after the
    statement has run. unavailable: 503 as a proxy says it, nothing runs. code: ClickHouse refuses with `code`, nothing runs.
    All of them come after `seconds`, so that there is time to kill whoever waits.
    """

    kind: Kind
    matching: str = ""
    times: int = 1_000_000
    seconds: float = 0.0
    code: int = 0
    after: int = 0


class Faults:
    """The faults that are set, and the statements that were asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set: list[Fault] = []
        self.asked: list[str] = []  # one whose answer gets lost stands here once it has run
        self.is_over = threading.Event()  # ends the delays that run when the faults are cleared

    def add(self, fault: Fault) -> None:
        """Set one more."""
        with self._lock:
            self._set.append(fault)

    def clear(self) -> None:
        """As if nothing had been set or asked."""
        with self._lock:
            self._set, self.asked = [], []
            self.is_over.set()
            self.is_over = threading.Event()

    def take(self, statement: str) -> Fault | None:
        """What goes wrong with this statement; None where nothing does."""
        with self._lock:
            fault = next((item for item in self._set if item.matching in statement and _is_due(item)), None)
            if fault is None or fault.kind != "lose":
                self.asked.append(statement)
            return fault


def _is_due(fault: Fault) -> bool:
    if fault.after > 0:
        fault.after -= 1
        return False
    fault.times -= 1
    return fault.times >= 0

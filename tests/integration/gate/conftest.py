from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from tests.integration.gate.timed import KEY as KEY
from tests.integration.gate.timed import Timed
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Reason
from worker_app.gate.listener import Listener


@dataclass
class Heard(Listener):
    """Keeps what the gate tells of itself."""

    windows: list[tuple[str, str, str]] = field(default_factory=list)  # event, bucket, text
    outages: list[bool] = field(default_factory=list)
    deferrals: list[Reason] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    lost: int = 0
    steps: list[float] = field(default_factory=list)
    trips: int = 0

    def window(
        self, event: str, key: GateKey, bucket: str, *, seconds: float = 0.0, text: str = "", by: str = ""
    ) -> None:
        self.windows.append((event, bucket, text or by))

    def outage(self, is_over: bool, seconds: float, error: str = "") -> None:
        self.outages.append(is_over)

    def deferred(self, key: GateKey, reason: Reason) -> None:
        self.deferrals.append(reason)

    def leaked(self, key: GateKey, bucket: str) -> None:
        self.leaks.append(bucket)

    def lease_lost(self, key: GateKey) -> None:
        self.lost += 1

    def clock_stepped(self, seconds: float) -> None:
        self.steps.append(seconds)

    def trip(self, script: str, seconds: float) -> None:
        self.trips += 1


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def gate_of(redis_url: str) -> Iterator[Callable[..., Gate]]:
    """Makes gates on the test's Redis, as so many processes would have; all are closed in the end."""
    made: list[Gate] = []

    def make(**options: Any) -> Gate:
        made.append(Gate.from_url(redis_url, **{"slots": None, **options}))
        return made[-1]

    yield make
    for gate in made:
        gate.close()


@pytest.fixture
def timed(redis_client: redis.Redis) -> Timed:
    """The scripts under a time that the test sets."""
    return Timed(redis_client)

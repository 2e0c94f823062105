from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from tests.integration.gate.timed import KEY as KEY
from tests.integration.gate.timed import Timed
from tests.redis_proxy import RedisProxy
from worker_app.embedded.stores import StoreAddresses
from worker_app.embedded.valkey import EmbeddedValkey
from worker_app.gate import gate
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Reason
from worker_app.gate.listener import Listener
from worker_app.gate.policies import GITHUB
from worker_app.gate.policy import BucketPolicy

UNPACED = {"github": replace(GITHUB, buckets={**GITHUB.buckets, "ep.repos.get": BucketPolicy()})}


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
def gate_of(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Gate]]:
    """Makes gates on the test's Redis, as so many processes would have; all are closed in the end.

    Unless a test says how long a gate waits for Redis, it is longer than a busy machine may stand still.
    """
    made: list[Gate] = []

    def make(url: str = redis_url, *, timeout: float = 2.0, **options: Any) -> Gate:
        monkeypatch.setattr(gate, "REDIS_TIMEOUT_SECONDS", timeout)
        made.append(Gate.from_url(url, **{"slots": None, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def proxy(redis_url: str) -> Iterator[RedisProxy]:
    """The way to the test's Redis, which the test may break."""
    made = RedisProxy(redis_url)
    yield made
    made.close()


@pytest.fixture(scope="session")
def spare(stores: StoreAddresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """A second Redis with the same password, to fail over to."""
    password = urlsplit(stores.redis_url).password
    started = EmbeddedValkey(tmp_path_factory.mktemp("spare"), password=password, durable=False)
    started.start()
    yield started
    started.stop()


@pytest.fixture
def spare_client(spare: EmbeddedValkey) -> Iterator[redis.Redis]:
    """A client of the second Redis, which is empty and healthy."""
    with redis.Redis.from_url(spare.url) as client:
        client.replicaof("NO", "ONE")
        client.config_set("maxmemory", 0)
        client.flushall()
        yield client


@pytest.fixture
def timed(redis_client: redis.Redis) -> Timed:
    """The scripts under a time that the test sets."""
    return Timed(redis_client)

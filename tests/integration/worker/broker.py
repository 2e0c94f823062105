"""Redis as deliveries see it, for tests: messages as kombu writes them, what stands where, and lines that lose answers."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

import pytest
import redis

from tests.integration.worker.line import Line
from worker_app.worker.deliveries import SCRIPTS, Deliveries, Keys

LIFE_SECONDS = 3600
TAKE = (b"EVALSHA", b"unacked_answer")  # marks of an exchange
GIVE_BACK = (b"EVALSHA", b"PUSH")  # marks of what moves messages from unacked to their lists


def text_of(tag: str, list_key: str = "work", **changes: Any) -> str:
    """A message as kombu writes it."""
    properties = {
        "correlation_id": tag,
        "reply_to": "",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": list_key},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": tag,
    }
    content = {"body": "W10=", "content-encoding": "utf-8", "content-type": "application/json", "headers": {}}
    return json.dumps({**content, "properties": properties, **changes})


def tag_of(text: str) -> str:
    """The delivery tag of a message."""
    return str(json.loads(text)["properties"]["delivery_tag"])


def is_redelivered(text: str) -> bool:
    """Whether a message says that it was delivered before."""
    return bool(json.loads(text)["properties"]["delivery_info"].get("redelivered"))


def lists_of(_: dict[str, Any], exchange: str, routing_key: str) -> Sequence[str]:
    """The lists of a message: that of its routing key."""
    return [routing_key]


class Broker:
    """The Redis of one test. What it opened is closed with it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.redis = redis.Redis.from_url(url, decode_responses=True)
        self.parameters = redis.ConnectionPool.from_url(url).connection_kwargs
        scripts = resources.files("worker_app.worker").joinpath("lua")
        for name in SCRIPTS:  # a first call would be two, and its answer another one than the script's
            self.redis.script_load(scripts.joinpath(f"{name}.lua").read_text(encoding="utf-8"))
        self._lines: list[Line] = []
        self._opened: list[Deliveries] = []

    def line(self) -> Line:
        """A line to this Redis."""
        self._lines.append(Line((self.parameters["host"], self.parameters["port"])))
        return self._lines[-1]

    def deliveries(self, line: Line | None = None) -> Deliveries:
        """Open deliveries of one more process."""
        way = {"host": "127.0.0.1", "port": line.port} if line else {}
        self._opened.append(Deliveries())
        self._opened[-1].open({**self.parameters, **way}, Keys())
        return self._opened[-1]

    def close(self) -> None:
        """Close all that was opened here."""
        for deliveries in self._opened:
            deliveries.client.connection_pool.disconnect()
        for line in self._lines:
            line.close()
        self.redis.close()

    def publish(self, *tags: str, list_key: str = "work") -> None:
        """One message for each tag."""
        for tag in tags:
            self.redis.lpush(list_key, text_of(tag, list_key))

    def texts(self, list_key: str = "work") -> list[str]:
        """The messages of a list, the next one first."""
        found: Any = self.redis.lrange(list_key, 0, -1)
        return [str(text) for text in reversed(found)]

    def raw(self, list_key: str) -> list[bytes]:
        """The messages of a list as bytes, the next one first."""
        with redis.Redis.from_url(self._url) as client:
            found: Any = client.lrange(list_key, 0, -1)
        return list(reversed(found))

    def ready(self, list_key: str = "work") -> list[str]:
        """The tags of a list, the next one first."""
        return [tag_of(text) for text in self.texts(list_key)]

    def unacked(self) -> set[str]:
        """The tags that are taken and not settled. They stand in the hash and in its index."""
        with self.redis.pipeline() as pipe:  # in one step: others work meanwhile
            pipe.hkeys("unacked")
            pipe.zrange("unacked_index", 0, -1)
            noted, indexed = pipe.execute()
        assert set(noted) == set(indexed)
        return set(noted)

    def note(self, tag: str) -> str:
        """What stands in unacked of one message."""
        found: Any = self.redis.hget("unacked", tag)
        return str(found)

    def age(self, *tags: str) -> None:
        """Let these have been taken long ago."""
        self.redis.zadd("unacked_index", dict.fromkeys(tags, 1.0))


def take(deliveries: Deliveries, most: int = 100, lists: Sequence[str] = ("work",)) -> list[str]:
    """The tags of one exchange."""
    return [tag for tag, _ in deliveries.exchange(lists, most, life_seconds=LIFE_SECONDS)]


def take_all(deliveries: Deliveries, most: int = 10_000, lists: Sequence[str] = ("work",)) -> list[str]:
    """The tags of as many exchanges as bring `most` messages, or all that there are."""
    found: list[str] = []
    while new := take(deliveries, most - len(found), lists):
        found += new
    return found


def take_what_comes(deliveries: Deliveries) -> list[str]:
    """The tags that come in some exchanges of which each may fail."""
    found: list[str] = []
    for _ in range(12):
        with contextlib.suppress(redis.RedisError):
            found += take(deliveries)
    return found


@pytest.fixture(name="broker")
def broker_of_the_test(redis_url: str) -> Iterator[Broker]:
    """An emptied Redis for one test, which imports this fixture by its long name."""
    opened = Broker(redis_url)
    yield opened
    opened.close()


@pytest.fixture(name="deliveries")
def deliveries_of_the_test(broker: Broker) -> Deliveries:
    """The deliveries of one process at that Redis."""
    return broker.deliveries()

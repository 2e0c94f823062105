"""The watch in a patched process: it rings when a message comes, does without what Redis refuses, and outlives its Redis."""

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.integration.worker.broker import (
    Broker,
    broker_of_the_test,  # noqa: F401 - pytest finds it
    text_of,
)
from tests.processes import wait_for
from worker_app.embedded.valkey import EmbeddedValkey

pytestmark = pytest.mark.integration

RINGS_SECONDS = 0.2
TOP = Path(__file__).resolve().parents[3]


class Listener:
    """A process of `listener.py`, and the lines that it says."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "gevent.monkey", "--module", "tests.integration.worker.listener", *arguments]
        self.process = subprocess.Popen(
            command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self._lines.put(line.strip())

    def next(self, mark: str, seconds: float = 15) -> list[str]:
        """The words of the next line that holds `mark`."""
        until = time.monotonic() + seconds
        while True:
            try:
                self.said.append(self._lines.get(timeout=max(0.0, until - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"no {mark!r} within {seconds} s: {self.said}") from None
            if mark in self.said[-1]:
                return self.said[-1].split()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(10)
        self._reader.join(10)


@pytest.fixture
def listen() -> Iterator[Any]:
    """Starts listeners and ends them."""
    started: list[Listener] = []

    def start(*arguments: str) -> Listener:
        started.append(Listener(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.end()


def tracked(client: Any) -> int:
    """Keys that somebody has read and wants to hear of."""
    return int(client.info("stats")["tracking_total_keys"])


def test_message_that_comes_while_it_waits_rings_at_once(broker: Broker, redis_url: str, listen: Any) -> None:
    listener = listen("watch", redis_url, "a", "b", "c")
    late = []
    for number in range(7):
        wait_for(lambda: tracked(broker.redis) == 3, "it watches all lists", 15)
        sent = time.time()
        broker.publish("x", list_key="abc"[number % 3])
        _, found, at = listener.next("rang")
        assert found == "1"
        late.append(float(at) - sent)
    assert sorted(late)[3] < RINGS_SECONDS  # the half of them: others share this machine
    assert max(late) < 5 * RINGS_SECONDS


def test_message_that_is_there_already_rings_too(broker: Broker, redis_url: str, listen: Any) -> None:
    broker.publish("x", list_key="b")
    assert listen("watch", redis_url, "a", "b").next("rang")[1] == "1"


def test_bursts_ring_as_often_as_there_is_something(broker: Broker, redis_url: str, listen: Any) -> None:
    listener = listen("watch", redis_url, "a", "b")
    wait_for(lambda: tracked(broker.redis) == 2, "it watches both lists", 15)
    for number in range(200):
        broker.publish("x", list_key="ab"[number % 2])
    wait_for(lambda: broker.redis.exists("a", "b") == 0, "everything is seen", 10)
    broker.publish("y", list_key="a")
    wait_for(lambda: broker.redis.exists("a", "b") == 0, "it watches still", 10)
    assert listener.process.poll() is None


def test_waiting_costs_one_connection_and_asks_next_to_nothing(broker: Broker, redis_url: str, listen: Any) -> None:
    listen("watch", redis_url, "a")
    wait_for(lambda: tracked(broker.redis) == 1, "it watches", 15)
    before: Any = broker.redis.info("stats")
    began = time.monotonic()
    wait_for(lambda: time.monotonic() - began > 1.0, "a second of waiting", 5)
    after: Any = broker.redis.info("stats")
    asked = after["total_commands_processed"] - before["total_commands_processed"]
    assert asked <= 3  # two of them are our own INFO and what came before it
    assert after["total_connections_received"] == before["total_connections_received"]


def test_redis_that_refuses_tracking_is_polled(broker: Broker, redis_url: str, listen: Any) -> None:
    broker.redis.execute_command(  # type: ignore[no-untyped-call]
        "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-client|tracking"
    )
    try:
        address = f"{broker.parameters['host']}:{broker.parameters['port']}/0"
        listener = listen("consume", f"redis://blind:secret@{address}", "work")
        listener.next("watch.polls")
        late = []
        for number in range(5):
            sent = time.time()
            broker.publish(tag := f"m{number}")
            _, taken, at = listener.next("took")
            assert taken == tag
            late.append(float(at) - sent)
        assert sorted(late)[2] < RINGS_SECONDS
        wait_for(lambda: broker.unacked() == set(), "all are acknowledged", 10)
    finally:
        broker.redis.execute_command("ACL", "DELUSER", "blind")  # type: ignore[no-untyped-call]


@pytest.mark.timeout(60)
def test_it_watches_again_when_redis_is_back(tmp_path: Path, listen: Any) -> None:
    valkey = EmbeddedValkey(tmp_path, password=None)
    valkey.start()
    client = redis.Redis.from_url(valkey.url)
    try:
        listener = listen("consume", valkey.url, "work")
        listener.next("consumes")
        wait_for(lambda: tracked(client) >= 1, "it watches", 15)
        valkey.stop()
        valkey.start()
        wait_for(lambda: tracked(client) >= 1, "it watches again", 15)
        sent = time.time()
        client.lpush("work", text_of("late"))
        _, taken, at = listener.next("took")
        assert taken == "late"
        assert float(at) - sent < 5 * RINGS_SECONDS
    finally:
        client.close()
        valkey.delete_data()

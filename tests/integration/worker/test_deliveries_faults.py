"""Deliveries and a Redis that makes it hard: messages that nobody can read, forgotten scripts, no memory, wrong keys."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from tests.integration.worker.broker import (
    Broker,
    broker_of_the_test,  # noqa: F401 - pytest finds it
    deliveries_of_the_test,  # noqa: F401 - pytest finds it
    lists_of,
    take,
    take_all,
    take_what_comes,
    text_of,
)
from worker_app.worker.deliveries import Deliveries, Delivery

pytestmark = pytest.mark.integration

UNREADABLE = {
    "no JSON": b"no JSON",
    "no object": b'["a"]',
    "no properties": b'{"body": ""}',
    "no tag": b'{"properties": {}}',
    "empty tag": b'{"properties": {"delivery_tag": ""}}',
    "number as tag": b'{"properties": {"delivery_tag": 7}}',
    "properties as text": b'{"properties": "delivery_tag"}',
    "cut off": text_of("a").encode()[:-1],
}
# Lua reads these, Python does not
UNREADABLE_HERE = {
    "no UTF-8": text_of("odd", body="BODY").encode().replace(b"BODY", b"\xff\xfe"),
    "line break in a text": text_of("odd", body="BODY").encode().replace(b"BODY", b"a\nb"),
    "number with a leading zero": text_of("odd", headers={"n": 77}).encode().replace(b"77", b"07"),
    "number of 5,000 digits": text_of("odd", headers={"n": 77}).encode().replace(b"77", b"7" * 5000),
}


@pytest.fixture
def is_full(broker: Broker) -> Iterator[None]:
    """Redis has no memory left when the test says so, by `fill`; afterwards it has."""
    before: Any = broker.redis.config_get("maxmemory*")
    yield
    for name, value in before.items():
        if name in ("maxmemory", "maxmemory-policy"):
            broker.redis.config_set(name, value)


def fill(broker: Broker) -> None:
    broker.redis.config_set("maxmemory-policy", "noeviction")
    broker.redis.config_set("maxmemory", "1")
    with pytest.raises(redis.OutOfMemoryError):
        broker.redis.set("one", "more")


def empty(broker: Broker) -> None:
    broker.redis.config_set("maxmemory", "0")


@pytest.mark.parametrize("message", UNREADABLE.values(), ids=UNREADABLE)
def test_message_without_a_tag_is_set_aside_as_it_is_and_the_rest_is_taken(
    broker: Broker, deliveries: Deliveries, message: bytes
) -> None:
    broker.publish("a")
    broker.redis.lpush("work", message)
    broker.publish("b")
    with capture_logs() as logs:
        assert take(deliveries, 3) == ["a", "b"]
    assert broker.texts("work:unreadable") == [message.decode()]
    assert broker.unacked() == {"a", "b"}
    assert [(line["event"], line["queue"]) for line in logs] == [("message.unreadable", "work")]
    assert message.decode() not in str(logs)


@pytest.mark.parametrize("message", UNREADABLE_HERE.values(), ids=UNREADABLE_HERE)
def test_message_that_python_cannot_read_stops_neither_the_taking_nor_its_setting_aside(
    broker: Broker, deliveries: Deliveries, message: bytes
) -> None:
    broker.publish("a")
    broker.redis.lpush("work", message)
    broker.publish("b")
    found = take(deliveries, 3)
    if "odd" in found:  # who reads it stumbles over it, and sets it aside
        found.remove("odd")
        deliveries.set_aside("odd")
    assert found == ["a", "b"]
    deliveries.pay()
    assert broker.raw("work:unreadable") == [message]
    assert broker.unacked() == {"a", "b"}


@pytest.mark.parametrize("message", UNREADABLE_HERE.values(), ids=UNREADABLE_HERE)
def test_stale_message_that_python_cannot_read_stops_no_sweep_and_is_kept(
    broker: Broker, deliveries: Deliveries, message: bytes
) -> None:
    broker.publish("a", "b")
    take(broker.deliveries())
    broker.redis.hset("unacked", "odd", b"[" + message + b',"","work"]')
    broker.age("a", "odd", "b")
    deliveries.sweep(60, lists_of)
    lists: Any = [key for key in broker.redis.scan_iter() if broker.redis.type(key) == "list"]
    kept = [text for key in lists for text in broker.raw(key)] + ([message] * broker.redis.hexists("unacked", "odd"))
    assert len(kept) == 3
    assert message in kept
    assert broker.redis.hexists("unacked", "a") == broker.redis.hexists("unacked", "b") == 0


def test_redis_that_has_forgotten_the_scripts_is_given_them_again(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    assert take(deliveries, 1) == ["a"]
    broker.redis.script_flush()
    assert take(deliveries, 1) == ["b"]
    broker.redis.script_flush()
    deliveries.give_back_all()
    deliveries.pay()
    broker.redis.script_flush()
    assert sorted(take(deliveries)) == ["a", "b"]
    broker.redis.script_flush()
    deliveries.renew()
    assert broker.unacked() == {"a", "b"}


def test_redis_without_memory_keeps_what_it_cannot_note(broker: Broker, deliveries: Deliveries, is_full: None) -> None:
    broker.publish("a", "b")
    broker.redis.lpush("work", "no JSON")
    fill(broker)
    with pytest.raises(redis.OutOfMemoryError):
        take(deliveries)
    assert take_what_comes(deliveries) == []
    assert (broker.redis.llen("work"), broker.unacked(), deliveries.held) == (3, set(), 0)
    empty(broker)
    assert take_what_comes(deliveries) == ["a", "b"]
    assert broker.texts("work:unreadable") == ["no JSON"]


def test_message_is_settled_and_given_back_while_redis_has_no_memory(
    broker: Broker, deliveries: Deliveries, is_full: None
) -> None:
    broker.publish("a", "b", "c")
    take(deliveries, 2)
    fill(broker)
    deliveries.settle("a")
    deliveries.give_back_later("b")
    deliveries.pay()
    assert (broker.ready(), broker.unacked()) == (["c", "b"], set())
    deliveries.renew()
    empty(broker)
    assert take(deliveries) == ["c", "b"]


def test_everything_that_is_asked_of_a_full_redis_is_done_when_it_has_memory_again(
    broker: Broker, deliveries: Deliveries, is_full: None
) -> None:
    tags = [str(number) for number in range(20)]
    broker.publish(*tags)
    taken = take_all(deliveries, 10)
    fill(broker)
    for tag in taken[:5]:
        deliveries.settle(tag)
    for tag in taken[5:]:
        deliveries.give_back_later(tag)
    late = take_what_comes(deliveries)
    empty(broker)
    late += take_what_comes(deliveries)
    assert sorted(late) == sorted(tags[5:])
    assert broker.unacked() == set(late)


def test_key_that_is_no_list_keeps_no_message_of_another_list_in_limbo(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    broker.redis.set("wrong", "no list")
    for _ in range(4):
        with contextlib.suppress(redis.ResponseError):
            take(deliveries, 2, ["work", "wrong"])
    assert len(broker.unacked()) == deliveries.held


def test_message_whose_list_has_become_something_else_is_kept(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a")
    take(deliveries)
    broker.redis.set("work", "no list")
    deliveries.give_back_later("a")
    with contextlib.suppress(redis.ResponseError):
        deliveries.pay()
    assert broker.unacked() == {"a"} or broker.ready("work:unreadable") == ["a"]


def test_message_that_kombu_has_taken_and_redis_cannot_note_is_held_all_the_same(
    broker: Broker, deliveries: Deliveries, is_full: None
) -> None:
    fill(broker)
    deliveries.hold("a", Delivery("work", text_of("a").encode()), "", "work")
    assert deliveries.holds("a")
    empty(broker)
    deliveries.settle("a")
    deliveries.pay()
    assert (deliveries.held, broker.unacked()) == (0, set())

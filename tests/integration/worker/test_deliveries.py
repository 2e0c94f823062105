"""Deliveries on a real Redis: what is taken, settled, given back and set aside, and where it stands meanwhile."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.messaging import Producer
from kombu.transport import redis as kombu_redis
from kombu.utils import json as kombu_json

from tests.integration.worker.broker import (
    Broker,
    broker_of_the_test,  # noqa: F401 - pytest finds it
    deliveries_of_the_test,  # noqa: F401 - pytest finds it
    is_redelivered,
    lists_of,
    tag_of,
    take,
    take_all,
    text_of,
)
from worker_app.worker.deliveries import MOST_AT_ONCE, Deliveries, Delivery

pytestmark = pytest.mark.integration

HEADERS: dict[str, Any] = {
    "empty_list": [],
    "empty_object": {},
    "nested": [{"list": [[]], "object": {"a": {}}}],
    "text": 'snow ☃, a 𝕏, "quoted", back\\slash, line\nbreak, nul\x00',
    "keys with ü": None,
    "big": 2**63 + 1,
    "bigger": 10**40,
    "negative": -(2**53) - 1,
    "float": 0.1 + 0.2,
    "small": 5e-324,
    "whole": 3.0,
    "minus": -0.0,
    "yes": True,
}


@pytest.fixture
def stock(redis_url: str) -> Iterator[Any]:
    """A channel of kombu's own transport."""
    connection: Any = Connection(redis_url, transport=kombu_redis.Transport)  # type: ignore[no-untyped-call]
    with connection:
        yield connection.channel()


def publish(stock: Any, headers: dict[str, Any], body: object = "", priority: int = 0) -> str:
    """A message through kombu's own producer; as it stands in its list."""
    producer: Any = Producer(stock)  # type: ignore[no-untyped-call]
    producer.publish(body, routing_key="work", headers=headers, priority=priority, serializer="json")
    return str(stock.client.lindex(stock._q_for_pri("work", priority), 0).decode())


def read_by_kombu(text: str) -> Any:
    """As kombu reads it."""
    return kombu_json.loads(text)  # type: ignore[no-untyped-call]


def content_of(text: str) -> dict[str, Any]:
    """A message without what says that it was delivered before."""
    content: dict[str, Any] = json.loads(text)
    content["headers"].pop("redelivered", None)
    content["properties"]["delivery_info"].pop("redelivered", None)
    return content


def test_messages_are_taken_one_from_each_list_in_turn(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a1", "a2", "a3", list_key="a")
    broker.publish("b1", list_key="b")
    broker.publish("c1", "c2", list_key="c")
    assert take(deliveries, 4, ["a", "none", "b", "c"]) == ["a1", "b1", "c1", "a2"]
    assert take(deliveries, 4, ["a", "none", "b", "c"]) == ["a3", "c2"]
    assert take(deliveries, 4, ["a", "none", "b", "c"]) == []


def test_no_more_is_taken_than_asked_for(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish(*map(str, range(2 * MOST_AT_ONCE)))
    assert take(deliveries, 0) == []
    assert take(deliveries, 1) == ["0"]
    assert take(deliveries, 3) == ["1", "2", "3"]
    assert 1 <= len(found := take(deliveries, 10 * MOST_AT_ONCE)) <= MOST_AT_ONCE
    assert deliveries.held == len(broker.unacked()) == 4 + len(found)


def test_taken_message_comes_with_its_list_and_its_text(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", list_key="queue\x06\x163")
    ((tag, delivery),) = deliveries.exchange(["queue\x06\x163"], 5, life_seconds=9)
    assert (tag, delivery) == ("a", Delivery("queue\x06\x163", text_of("a", "queue\x06\x163").encode()))
    assert deliveries.holds("a")


def test_taken_message_is_noted_as_kombu_notes_it(broker: Broker, deliveries: Deliveries, stock: Any) -> None:
    text = publish(stock, HEADERS)
    (tag,) = take(deliveries)
    assert broker.unacked() == {tag_of(text)} == {tag}
    assert read_by_kombu(broker.note(tag)) == [read_by_kombu(text), "", "work"]
    assert text in broker.note(tag)
    seconds, micros = broker.redis.time()
    score: Any = broker.redis.zscore("unacked_index", tag)
    assert seconds + micros / 1e6 - 5 < score <= seconds + micros / 1e6


@pytest.mark.parametrize("priority", [0, 3, 9])
def test_stock_kombu_restores_what_was_taken_with_body_and_headers_as_they_were(
    broker: Broker, deliveries: Deliveries, stock: Any, priority: int
) -> None:
    key = stock._q_for_pri("work", priority)
    text = publish(stock, HEADERS, [[], {}, HEADERS], priority)
    (tag,) = take(deliveries, lists=[key])
    stock.qos.restore_by_tag(tag)
    (restored,) = broker.texts(key)
    assert is_redelivered(restored)
    assert content_of(restored) == content_of(text)
    assert broker.unacked() == set()
    got = stock.basic_get("work")
    assert got.payload == [[], {}, HEADERS]
    assert {name: value for name, value in got.headers.items() if name != "redelivered"} == HEADERS


def test_what_stock_kombu_has_taken_is_swept_as_it_was(broker: Broker, deliveries: Deliveries, stock: Any) -> None:
    text = publish(stock, HEADERS)
    message = stock.basic_get("work")
    assert broker.unacked() == {message.delivery_tag}
    broker.age(message.delivery_tag)
    assert deliveries.sweep(60, lists_of) == 1
    assert content_of(broker.texts()[0]) == content_of(text)
    stock.qos._delivered.clear()


def test_settled_message_is_gone_with_the_next_exchange(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", "b", "c")
    take(deliveries, 2)
    deliveries.settle("a")
    assert (deliveries.held, deliveries.owed, broker.unacked()) == (1, 1, {"a", "b"})
    assert take(deliveries, 1) == ["c"]
    assert (deliveries.held, deliveries.owed, broker.unacked()) == (2, 0, {"b", "c"})


def test_everything_owed_is_paid_in_one_call(broker: Broker, deliveries: Deliveries) -> None:
    tags = [str(number) for number in range(3 * MOST_AT_ONCE)]
    broker.publish(*tags)
    take_all(deliveries)
    for tag in tags[10:]:
        deliveries.settle(tag)
    deliveries.give_back_all()
    deliveries.pay()
    assert (deliveries.held, deliveries.owed, broker.unacked()) == (0, 0, set())
    assert sorted(broker.ready()) == sorted(tags[:10])


def test_settling_rings_the_bell_and_a_strange_tag_does_not(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a")
    take(deliveries)
    deliveries.settle("strange")
    assert (deliveries.bell.is_set(), deliveries.owed) == (False, 0)
    deliveries.settle("a")
    assert deliveries.bell.is_set()


def test_settling_twice_is_settling_once(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a")
    take(deliveries)
    deliveries.settle("a")
    deliveries.pay()
    deliveries.settle("a")
    assert deliveries.owed == 0


@pytest.mark.parametrize(("is_next", "order"), [(True, ["a", "b", "c"]), (False, ["b", "c", "a"])])
def test_message_is_given_back_as_the_next_or_the_last_one(
    broker: Broker, deliveries: Deliveries, is_next: bool, order: list[str]
) -> None:
    broker.publish("a", "b", "c")
    take(deliveries, 1)
    deliveries.give_back_later("a", is_next=is_next)
    deliveries.pay()
    assert broker.ready() == order
    assert [is_redelivered(text) for text in broker.texts()] == [tag == "a" for tag in order]
    assert (deliveries.held, deliveries.owed, broker.unacked()) == (0, 0, set())


def test_messages_given_back_as_the_next_ones_keep_their_order(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", "b", "c", "d")
    take(deliveries, 3)
    deliveries.give_back_all()
    deliveries.pay()
    assert broker.ready() == ["a", "b", "c", "d"]


def test_given_back_message_is_the_same_but_for_its_flags(broker: Broker, deliveries: Deliveries, stock: Any) -> None:
    text = publish(stock, HEADERS)
    (tag,) = take(deliveries)
    deliveries.give_back_later(tag)
    deliveries.pay()
    expected = json.loads(text)
    expected["headers"]["redelivered"] = expected["properties"]["delivery_info"]["redelivered"] = True
    assert broker.texts() == [json.dumps(expected)]


def test_giving_back_what_is_settled_does_nothing(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    take(deliveries)
    deliveries.settle("a")
    deliveries.give_back_later("a")
    deliveries.give_back_later("b")
    deliveries.settle("b")
    assert deliveries.owed == 2
    deliveries.pay()
    deliveries.give_back_later("a")
    deliveries.give_back_later("strange")
    assert deliveries.owed == 0
    assert (broker.ready(), broker.unacked(), deliveries.held) == ([], set(), 0)


def test_message_that_somebody_else_has_settled_is_not_put_back(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a")
    take(deliveries)
    broker.redis.hdel("unacked", "a")
    deliveries.give_back_later("a")
    deliveries.pay()
    assert (broker.ready(), broker.unacked(), deliveries.held) == ([], set(), 0)


def test_message_set_aside_stands_beside_its_list(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    take(deliveries, 1)
    deliveries.set_aside("a")
    deliveries.set_aside("strange")
    assert take(deliveries) == ["b"]
    assert broker.ready("work:unreadable") == ["a"]
    assert broker.unacked() == {"b"}


def test_message_that_somebody_has_mended_and_put_back_is_a_message_as_any(
    broker: Broker, deliveries: Deliveries
) -> None:
    broker.publish("a")
    take(deliveries)
    deliveries.set_aside("a")
    deliveries.pay()
    broker.redis.lmove("work:unreadable", "work")
    assert take(deliveries) == ["a"]
    deliveries.give_back_later("a")
    deliveries.pay()
    assert (broker.ready(), broker.ready("work:unreadable")) == (["a"], [])


def test_message_that_came_another_way_can_be_settled_and_given_back(broker: Broker, deliveries: Deliveries) -> None:
    for tag in ("a", "b"):
        deliveries.hold(tag, Delivery("work", text_of(tag).encode()), "", "work")
    assert broker.unacked() == {"a", "b"}
    deliveries.settle("a")
    deliveries.give_back_later("b")
    deliveries.pay()
    assert (broker.ready(), broker.unacked()) == (["b"], set())


def test_nothing_is_taken_after_stop_taking(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    take(deliveries, 1)
    deliveries.stop_taking()
    assert deliveries.bell.is_set()
    deliveries.settle("a")
    assert take(deliveries) == []
    assert (broker.ready(), broker.unacked()) == (["b"], set())


def test_what_is_on_its_way_at_stop_taking_is_put_back(broker: Broker) -> None:
    line = broker.line()
    deliveries = broker.deliveries(line)
    broker.publish("a", "b", "c")
    line.before(b"EVALSHA", do=deliveries.stop_taking)
    assert take(deliveries, 2) == []
    deliveries.pay()
    assert sorted(broker.ready()) == ["a", "b", "c"]
    assert (broker.unacked(), deliveries.held) == (set(), 0)


def test_held_messages_are_renewed_by_the_clock_of_redis(broker: Broker, deliveries: Deliveries) -> None:
    tags = [str(number) for number in range(MOST_AT_ONCE + 50)]
    broker.publish(*tags, "other")
    take_all(deliveries, len(tags))
    take(broker.deliveries())
    broker.age(*tags, "other")
    deliveries.renew()
    found: Any = broker.redis.zrange("unacked_index", 0, -1, withscores=True)
    scores = dict(found)
    seconds, _ = broker.redis.time()
    assert scores.pop("other") == 1
    assert min(scores.values()) > seconds - 5


def test_renewal_brings_nothing_back_into_the_index(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a")
    take(deliveries)
    broker.redis.delete("unacked", "unacked_index")
    deliveries.renew()
    assert broker.redis.exists("unacked_index") == 0


def test_deliveries_that_are_not_open_have_no_client() -> None:
    deliveries = Deliveries()
    assert not deliveries.is_open
    with pytest.raises(RuntimeError, match="not open"):
        _ = deliveries.client

"""Deliveries over a line that loses what was asked or answered: nothing is lost with it, and nothing comes twice."""

from collections.abc import Callable

import pytest
import redis
from structlog.testing import capture_logs

from tests.integration.worker.broker import (
    GIVE_BACK,
    TAKE,
    Broker,
    broker_of_the_test,  # noqa: F401 - pytest finds it
    lists_of,
    take,
    take_all,
)
from tests.integration.worker.line import Line
from worker_app import telemetry
from worker_app.worker.deliveries import Deliveries

pytestmark = pytest.mark.integration


@pytest.fixture
def line(broker: Broker) -> Line:
    return broker.line()


@pytest.fixture
def deliveries(broker: Broker, line: Line) -> Deliveries:
    return broker.deliveries(line)


def fail_to(call: Callable[[], object], line: Line) -> None:
    """Call over a line that breaks once."""
    with pytest.raises(redis.ConnectionError):
        call()
    assert line.is_whole


def test_take_whose_answer_is_lost_is_recalled_once(broker: Broker, line: Line, deliveries: Deliveries) -> None:
    broker.publish("a", "b", "c")
    line.lose_answer(*TAKE)
    fail_to(lambda: take(deliveries, 2), line)
    assert broker.unacked() == {"a", "b"}
    assert deliveries.held == 0
    assert take(deliveries, 2) == ["a", "b"]
    assert deliveries.held == 2
    assert take(deliveries, 2) == ["c"]
    assert take(deliveries, 2) == []


def test_recalled_message_is_what_was_taken(broker: Broker, line: Line, deliveries: Deliveries) -> None:
    broker.publish("a", list_key="queue\x06\x163")
    (text,) = broker.texts("queue\x06\x163")
    line.lose_answer(*TAKE)
    fail_to(lambda: take(deliveries, 1, ["queue\x06\x163"]), line)
    ((tag, delivery),) = deliveries.exchange(["other"], 1, life_seconds=9)
    assert (tag, delivery.list_key, delivery.text) == ("a", "queue\x06\x163", text.encode())


def test_take_that_never_reached_redis_is_taken_anew(broker: Broker, line: Line, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    assert take(deliveries, 1) == ["a"]  # an older answer stands there
    line.lose_request(*TAKE)
    fail_to(lambda: take(deliveries, 1), line)
    assert broker.unacked() == {"a"}
    assert take(deliveries, 1) == []
    assert take(deliveries, 1) == ["b"]


def test_recall_whose_answer_is_lost_is_asked_again(broker: Broker, line: Line, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    line.lose_answer(*TAKE)
    fail_to(lambda: take(deliveries), line)
    line.lose_answer(b"GET", b"unacked_answer")
    fail_to(lambda: take(deliveries), line)
    line.lose_answer(b"HMGET")
    fail_to(lambda: take(deliveries), line)
    assert take(deliveries) == ["a", "b"]


def test_answer_that_is_lost_twice_in_a_row_loses_nothing(broker: Broker, line: Line, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    for tag in ("a", "b"):
        line.lose_answer(*TAKE)
        fail_to(lambda: take(deliveries, 1), line)
        assert take(deliveries, 1) == [tag]


@pytest.mark.parametrize("lost", ["lose_request", "lose_answer"])
def test_settled_message_stays_settled_when_the_exchange_is_lost(
    broker: Broker, line: Line, deliveries: Deliveries, lost: str
) -> None:
    broker.publish("a", "b")
    take(deliveries, 1)
    deliveries.settle("a")
    getattr(line, lost)(*TAKE)
    fail_to(lambda: take(deliveries, 1), line)
    assert deliveries.owed == 1
    deliveries.pay()
    assert deliveries.owed == 0
    assert "a" not in broker.unacked() | set(broker.ready())
    assert broker.unacked() | set(broker.ready()) == {"b"}


@pytest.mark.parametrize("lost", ["lose_request", "lose_answer"])
def test_message_is_given_back_once_when_the_exchange_is_lost(
    broker: Broker, line: Line, deliveries: Deliveries, lost: str
) -> None:
    broker.publish("a", "b", "c")
    take(deliveries, 2)
    deliveries.give_back_all()
    getattr(line, lost)(*GIVE_BACK)
    fail_to(deliveries.pay, line)
    deliveries.pay()
    assert sorted(broker.ready()) == ["a", "b", "c"]
    assert (broker.unacked(), deliveries.held, deliveries.owed) == (set(), 0, 0)


def test_message_given_back_with_a_lost_answer_stays_with_who_has_taken_it_since(
    broker: Broker, line: Line, deliveries: Deliveries
) -> None:
    broker.publish("a")
    take(deliveries)
    deliveries.give_back_later("a")
    line.lose_answer(*GIVE_BACK)
    fail_to(deliveries.pay, line)
    assert take(other := broker.deliveries()) == ["a"]
    deliveries.pay()
    assert (broker.ready(), broker.unacked(), deliveries.held, other.held) == ([], {"a"}, 0, 1)


@pytest.mark.parametrize("meanwhile", ["pay", "tend"])
def test_messages_recalled_by_who_only_pays_come_with_the_next_take(
    broker: Broker, line: Line, deliveries: Deliveries, meanwhile: str
) -> None:
    broker.publish("a", "b", "c")
    line.lose_answer(*TAKE)
    fail_to(lambda: take(deliveries, 2), line)
    if meanwhile == "pay":
        deliveries.pay()
    else:
        deliveries.tend(3600, lists_of)
    assert take(deliveries, 2) + take(deliveries, 2) == ["a", "b", "c"]


def test_take_that_was_lost_with_its_process_comes_back_by_the_sweep(
    broker: Broker, line: Line, deliveries: Deliveries
) -> None:
    broker.publish("a", "b")
    line.lose_answer(*TAKE)
    fail_to(lambda: take(deliveries), line)
    broker.age("a", "b")
    assert (other := broker.deliveries()).sweep(60, lists_of) == 2
    assert sorted(take(other)) == ["a", "b"]


def test_take_that_was_lost_and_swept_is_not_recalled(broker: Broker, line: Line, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    line.lose_answer(*TAKE)
    fail_to(lambda: take(deliveries), line)
    broker.age("a", "b")
    broker.deliveries().sweep(60, lists_of)
    assert deliveries.exchange(["other"], 5, life_seconds=9) == []
    assert sorted(broker.ready()) == ["a", "b"]
    assert broker.unacked() == set()


def test_take_that_was_lost_and_that_another_has_since_stays_with_it(
    broker: Broker, line: Line, deliveries: Deliveries
) -> None:
    broker.publish("a", "b")
    line.lose_answer(*TAKE)
    fail_to(lambda: take(deliveries), line)
    broker.age("a", "b")
    other = broker.deliveries()
    other.sweep(60, lists_of)
    assert take_all(other) == ["a", "b"]
    assert deliveries.exchange(["other"], 4, life_seconds=9) == []
    assert (deliveries.held, other.held, broker.unacked()) == (0, 2, {"a", "b"})


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "lost"])
def test_message_that_comes_back_while_it_runs_here_does_not_run_twice(
    broker: Broker, line: Line, deliveries: Deliveries, is_lost: bool
) -> None:
    broker.publish("a", "b")
    assert take(deliveries, 1) == ["a"]
    broker.age("a")
    broker.deliveries().sweep(60, lists_of)  # this process was away for longer than the visibility timeout
    if is_lost:
        line.lose_answer(*TAKE)
        fail_to(lambda: take(deliveries, 1), line)
    assert take(deliveries, 1) == []
    assert broker.unacked() == {"a"}
    deliveries.settle("a")
    assert take(deliveries) == ["b"]
    assert broker.unacked() == {"b"}


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "lost"])
def test_settled_message_that_comes_back_before_redis_has_heard_does_not_run_again(
    broker: Broker, line: Line, deliveries: Deliveries, is_lost: bool
) -> None:
    broker.publish("a")
    take(deliveries)
    broker.age("a")
    broker.deliveries().sweep(60, lists_of)
    deliveries.settle("a")
    if is_lost:
        line.lose_answer(*TAKE)
        fail_to(lambda: take(deliveries), line)
    assert take(deliveries) == []
    deliveries.pay()
    assert (broker.ready(), broker.unacked(), deliveries.held, deliveries.owed) == ([], set(), 0, 0)


def test_lost_take_is_put_back_when_the_worker_stops_taking(broker: Broker, line: Line, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    line.lose_answer(*TAKE)
    fail_to(lambda: take(deliveries), line)
    deliveries.stop_taking()
    deliveries.pay()
    assert sorted(broker.ready()) == ["a", "b"]
    assert (broker.unacked(), deliveries.held) == (set(), 0)


def test_sweep_whose_answer_is_lost_puts_back_once(broker: Broker, line: Line, deliveries: Deliveries) -> None:
    broker.publish("a", "b")
    take(broker.deliveries())
    broker.age("a", "b")
    line.lose_answer(*GIVE_BACK)
    fail_to(lambda: deliveries.sweep(60, lists_of), line)
    assert deliveries.sweep(60, lists_of) == 0
    assert sorted(broker.ready()) == ["a", "b"]


def test_outage_is_one_line_when_it_begins_and_one_when_it_ends(
    broker: Broker, line: Line, deliveries: Deliveries
) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            line.lose_request(b"unacked_answer")
            fail_to(lambda: take(deliveries), line)
        deliveries.exchange(["work"], 1, life_seconds=9)
        take(deliveries)
    assert [entry["event"] for entry in logs] == ["broker.away", "broker.back"]


def test_settled_message_of_which_redis_has_not_heard_is_counted_once(
    broker: Broker, line: Line, deliveries: Deliveries
) -> None:
    broker.publish("a", "b", "c")
    take_all(deliveries)
    before = telemetry.WORKER_ACK_FAILURES._value.get()
    deliveries.settle("a")
    for _ in range(2):
        line.lose_request(*TAKE)
        fail_to(deliveries.pay, line)
    deliveries.settle("b")
    deliveries.pay()
    deliveries.settle("c")
    deliveries.pay()
    assert telemetry.WORKER_ACK_FAILURES._value.get() == before + 2

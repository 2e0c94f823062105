"""The sweep: what a dead process held goes back to its list, once, whoever sweeps and whatever happens meanwhile."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
import redis

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
from worker_app import telemetry
from worker_app.worker.deliveries import MOST_AT_ONCE, Deliveries

pytestmark = pytest.mark.integration


def leave(broker: Broker, *tags: str, **changes: Any) -> None:
    """Messages that somebody took long ago."""
    with broker.redis.pipeline() as pipe:
        for tag in tags:
            pipe.hset("unacked", tag, f'[{text_of(tag, **changes)},"","work"]')
        pipe.zadd("unacked_index", dict.fromkeys(tags, 1.0))
        pipe.execute()


def test_sweep_puts_back_what_is_stale_and_leaves_what_is_not(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("fresh")
    take(broker.deliveries())
    leave(broker, "stale")
    assert deliveries.sweep(60, lists_of) == 1
    assert (broker.ready(), broker.unacked()) == (["stale"], {"fresh"})
    assert is_redelivered(broker.texts()[0])
    assert deliveries.sweep(0, lists_of) == 1
    assert broker.unacked() == set()


def test_stale_is_what_redis_holds_for_stale(broker: Broker, deliveries: Deliveries) -> None:
    leave(broker, "stale", "fresh")
    seconds, _ = broker.redis.time()
    broker.redis.zadd("unacked_index", {"stale": seconds - 100, "fresh": seconds - 20})
    assert deliveries.sweep(60, lists_of) == 1
    assert broker.unacked() == {"fresh"}


def test_swept_message_is_the_next_one_of_its_list(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("ready")
    leave(broker, "stale")
    deliveries.sweep(60, lists_of)
    assert broker.ready() == ["stale", "ready"]


def test_swept_messages_keep_their_order(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("a", "b", "c", "d")
    for age in (10, 20, 30):
        (tag,) = take(broker.deliveries(), 1)
        broker.redis.zadd("unacked_index", {tag: age})
    deliveries.sweep(60, lists_of)
    assert broker.ready() == ["a", "b", "c", "d"]


def test_index_entry_without_a_message_is_dropped(broker: Broker, deliveries: Deliveries) -> None:
    leave(broker, "stale")
    broker.age("nothing")
    assert deliveries.sweep(60, lists_of) == 1
    assert broker.redis.zcard("unacked_index") == 0


def test_own_messages_are_never_swept(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("own")
    take(deliveries)
    leave(broker, "stale")
    broker.age("own")
    assert deliveries.sweep(60, lists_of) == 1
    assert (broker.ready(), broker.unacked()) == (["stale"], {"own"})


def test_hundreds_of_own_stale_messages_hide_none_of_a_dead_process(broker: Broker, deliveries: Deliveries) -> None:
    own = [str(number) for number in range(2 * MOST_AT_ONCE)]
    broker.publish(*own)
    take_all(deliveries)
    broker.redis.zadd("unacked_index", {tag: 0.5 + int(tag) % 2 for tag in own})  # the dead one's is in their middle
    leave(broker, "stale")
    assert deliveries.sweep(60, lists_of) == 1
    assert broker.ready() == ["stale"]


def test_thousands_are_swept_in_one_call(broker: Broker, deliveries: Deliveries) -> None:
    tags = [str(number) for number in range(3000)]
    leave(broker, *tags)
    broker.age(*(f"nothing-{number}" for number in range(500)))
    assert deliveries.sweep(60, lists_of) == 3000
    assert sorted(broker.ready()) == sorted(tags)
    assert broker.unacked() == set()


def test_two_that_sweep_at_once_put_each_message_back_once(broker: Broker) -> None:
    tags = [str(number) for number in range(1000)]
    leave(broker, *tags)
    barrier, counts = threading.Barrier(2), []

    def run(deliveries: Deliveries) -> None:
        barrier.wait(5)
        counts.append(deliveries.sweep(60, lists_of))

    threads = [threading.Thread(target=run, args=(broker.deliveries(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sum(counts) == 1000
    assert sorted(broker.ready()) == sorted(tags)


def test_message_that_another_has_put_back_and_a_third_has_taken_stays_with_the_third(
    broker: Broker, deliveries: Deliveries
) -> None:
    leave(broker, "a")
    third = broker.deliveries()

    def meanwhile(*given: Any) -> Sequence[str]:
        if not third.held:
            assert broker.deliveries().sweep(60, lists_of) == 1
            assert take(third) == ["a"]
        return lists_of(*given)

    assert deliveries.sweep(60, meanwhile) == 0
    assert (broker.ready(), broker.unacked(), third.held) == ([], {"a"}, 1)


def test_message_that_is_renewed_while_somebody_sweeps_stays_where_it_is(
    broker: Broker, deliveries: Deliveries
) -> None:
    broker.publish("a")
    take(slow := broker.deliveries())
    broker.age("a")

    def meanwhile(*given: Any) -> Sequence[str]:
        slow.renew()
        return lists_of(*given)

    assert deliveries.sweep(60, meanwhile) == 0
    assert (broker.ready(), broker.unacked()) == ([], {"a"})


def test_index_entry_of_who_takes_while_somebody_sweeps_stays(broker: Broker) -> None:
    line = broker.line()
    deliveries, third = broker.deliveries(line), broker.deliveries()
    leave(broker, "a")

    def meanwhile() -> None:
        assert broker.deliveries().sweep(60, lists_of) == 1
        line.before(b"unacked_index", do=lambda: take(third))

    line.before(b"HMGET", do=meanwhile)
    assert deliveries.sweep(60, lists_of) == 0
    third.renew()
    assert third.held == 1
    assert broker.unacked() == {"a"}  # without its entry in the index no sweep would ever find it


def test_message_that_another_has_taken_since_is_left_to_it(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("settled", "given back", "renewed")
    take(deliveries)
    broker.age("settled", "given back", "renewed")
    other = broker.deliveries()
    assert other.sweep(60, lists_of) == 3
    assert len(take(other)) == 3
    broker.age("renewed")
    deliveries.renew()
    deliveries.settle("settled")
    deliveries.give_back_all()
    deliveries.pay()
    assert (broker.ready(), broker.unacked(), deliveries.held) == ([], {"settled", "given back", "renewed"}, 0)
    assert broker.redis.zscore("unacked_index", "renewed") == 1
    other.give_back_all()
    other.pay()
    assert len(broker.ready()) == 3


def test_index_that_changes_all_the_time_stops_no_sweep(broker: Broker) -> None:
    line = broker.line()
    deliveries, other = broker.deliveries(line), broker.deliveries()
    broker.publish(*map(str, range(9)))
    leave(broker, "stale")
    broker.age("nothing", "nothing else")
    for mark in (b"ZSCORE", b"MULTI", b"ZREM", b"EVALSHA"):
        line.before(mark, do=lambda: take(other, 1))
    assert deliveries.sweep(60, lists_of) == 1
    assert "stale" in broker.ready()
    assert broker.unacked() <= set(map(str, range(9)))


@pytest.mark.parametrize(
    "note", ["", "null", "{}", "[]", '[{},"","work"]', '[[],"","work"]', '["text","","work"]', "[1,2,3]"]
)
def test_note_that_is_none_stops_no_sweep(broker: Broker, deliveries: Deliveries, note: str) -> None:
    leave(broker, "a", "b")
    broker.redis.hset("unacked", "odd", note)
    broker.redis.zadd("unacked_index", {"odd": 1.5})
    deliveries.sweep(60, lists_of)
    assert {"a", "b"} <= {tag_of(text) for text in broker.texts() if "delivery_tag" in text}
    kept = broker.redis.llen("work") + broker.redis.llen("unacked:unreadable") + broker.redis.hlen("unacked")
    assert kept == 3
    assert broker.redis.hexists("unacked", "a") == broker.redis.hexists("unacked", "b") == 0


def test_message_of_which_one_list_is_wrong_does_not_pile_up_in_the_other(
    broker: Broker, deliveries: Deliveries
) -> None:
    leave(broker, "a", "b")
    broker.redis.set("wrong", "no list")
    for _ in range(3):
        deliveries.sweep(
            60, lambda message, *_: ["work", "wrong"] if message["properties"]["delivery_tag"] == "a" else ["work"]
        )
    assert broker.ready().count("a") <= 1
    assert broker.ready().count("b") == 1


def test_message_for_two_lists_goes_back_to_both_as_with_kombu(broker: Broker, deliveries: Deliveries) -> None:
    leave(broker, "a")
    deliveries.sweep(60, lambda *_: ["work", "other"])
    assert (broker.ready(), broker.ready("other")) == (["a"], ["a"])


def test_message_that_no_list_wants_is_kept_where_it_can_be_found(broker: Broker, deliveries: Deliveries) -> None:
    leave(broker, "a")
    deliveries.sweep(60, lambda *_: [])
    is_listed = any("a" in broker.ready(key) for key in ("work", "unacked:unreadable", "work:unreadable"))
    assert is_listed or broker.redis.zscore("unacked_index", "a") is not None


def test_tending_pays_renews_and_sweeps(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("settled", "held")
    take(deliveries)
    deliveries.settle("settled")
    leave(broker, "stale")
    broker.age("held")
    before = telemetry.WORKER_RECOVERED._value.get()
    assert deliveries.tend(1e-6, lists_of) == 1
    score: Any = broker.redis.zscore("unacked_index", "held")
    seconds, _ = broker.redis.time()
    assert score > seconds - 5
    assert (broker.ready(), broker.unacked()) == (["stale"], {"held"})
    assert telemetry.WORKER_RECOVERED._value.get() == before + 1


def test_tending_renews_no_more_often_than_it_must(broker: Broker, deliveries: Deliveries) -> None:
    broker.publish("held")
    take(deliveries)
    broker.age("held")
    deliveries.tend(3600, lists_of)
    assert broker.redis.zscore("unacked_index", "held") == 1


def age_by(broker: Broker, seconds_ago: int, *tags: str) -> None:
    seconds, _ = broker.redis.time()
    broker.redis.zadd("unacked_index", dict.fromkeys(tags, float(seconds - seconds_ago)))


def test_what_a_silent_process_held_comes_back_before_the_visibility_timeout(
    broker: Broker, deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_app.worker.deliveries.GRACE_SECONDS", 0.0)
    broker.publish("of ours")
    take(broker.deliveries())
    leave(broker, "of stock Celery")
    age_by(broker, 400, "of ours", "of stock Celery")
    assert deliveries.tend(3600, lists_of) == 1
    assert (broker.ready(), broker.unacked()) == (["of ours"], {"of stock Celery"})


def test_nobody_is_held_for_dead_until_all_could_renew_after_an_outage(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_app.worker.deliveries.GRACE_SECONDS", 1000.0)
    broker.publish("held")
    take(broker.deliveries())
    age_by(broker, 400, "held")
    with broker.line() as line:
        sweeper = broker.deliveries(line)
        sweeper._well_since -= 2000  # it has been well for long
        line.lose_request(b"TIME")
        with pytest.raises(redis.RedisError):
            sweeper.tend(3600, lists_of)
        _judge(sweeper)


def _judge(sweeper: Deliveries) -> None:
    assert sweeper.tend(3600, lists_of) == 0
    sweeper._well_since -= 2000
    assert sweeper.tend(3600, lists_of) == 1

import time

import pytest
import redis

from worker_app import broker_health, errors

pytestmark = pytest.mark.integration


def test_nothing_unacked_has_an_age_of_zero(redis_client: redis.Redis) -> None:
    assert broker_health.unacked(redis_client) == broker_health.Unacked(0, 0.0)


def test_unacked_tells_the_number_and_the_oldest_sign_of_work(redis_client: redis.Redis) -> None:
    redis_client.hset("unacked", mapping={"a": "[]", "b": "[]"})
    redis_client.zadd("unacked_index", {"a": time.time() - 90, "b": time.time()})
    found = broker_health.unacked(redis_client)
    assert found.messages == 2
    assert found.oldest_age_seconds == pytest.approx(90, abs=1)


def test_capacity_tells_policy_and_clients(redis_client: redis.Redis) -> None:
    found = broker_health.capacity(redis_client)
    assert (found.eviction_policy, found.is_policy_safe) == ("noeviction", True)
    assert found.clients_ratio is not None
    assert 0 < found.clients_ratio < 1


def test_policy_that_evicts_is_not_safe(redis_client: redis.Redis) -> None:
    redis_client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert broker_health.capacity(redis_client).is_policy_safe is False
    finally:
        redis_client.config_set("maxmemory-policy", "noeviction")


def test_redis_that_forbids_to_ask_tells_nothing_and_breaks_nothing(redis_client: redis.Redis, redis_url: str) -> None:
    redis_client.acl_setuser("managed", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-config", "-info"])
    managed = redis.Redis.from_url(redis_url, username="managed", password="x")
    try:
        found = broker_health.capacity(managed)
    finally:
        managed.close()
        redis_client.acl_deluser("managed")
    assert (found.is_policy_safe, found.clients_ratio) == (None, None)


def test_stray_lists_are_those_of_our_queues_with_a_priority(redis_client: redis.Redis) -> None:
    redis_client.lpush("sync\x06\x163", "a", "b")
    redis_client.lpush("sync\x06\x169", "c")
    redis_client.lpush("celery\x06\x166", "d")
    redis_client.lpush("someone-else\x06\x163", "e")
    redis_client.lpush("sync", "f")
    redis_client.set("sync\x06\x166", "no list")
    assert broker_health.stray_lists(redis_client) == {"celery": 1, "sync": 3}


@pytest.mark.parametrize("ask", [broker_health.unacked, broker_health.capacity, broker_health.stray_lists])
def test_redis_that_is_away_is_a_store_that_is_away(ask: object) -> None:
    absent = redis.Redis(port=1)
    with pytest.raises(errors.StoreAway):
        ask(absent)  # type: ignore[operator]
    absent.close()

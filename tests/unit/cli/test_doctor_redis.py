import pytest

from worker_app import fleets
from worker_app.broker_health import Capacity
from worker_app.cli import doctor_redis
from worker_app.queue_depth import QueueDepth, Worker


def capacity(policy: str | None = "noeviction", most: int | None = 10_000) -> Capacity:
    return Capacity(policy, clients=40, max_clients=most)


def depth(queue: str, consumers: int) -> QueueDepth:
    return QueueDepth(queue, ready=0, oldest_age_seconds=None, running=0, held=0, consumers=consumers)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_policy_that_evicts_is_a_fault_with_its_remedy(policy: str) -> None:
    assert doctor_redis.policy(capacity(policy)) == (
        False,
        f"{policy}: a broker that evicts loses messages; set maxmemory-policy noeviction",
    )


def test_redis_that_does_not_tell_is_no_fault_and_says_what_to_look_at() -> None:
    assert doctor_redis.policy(capacity()) == (True, "noeviction")
    is_ok, said = doctor_redis.policy(capacity(None))
    assert is_ok
    assert "does not tell" in said
    assert doctor_redis.clients(capacity(most=None), [])[0]


def test_clients_that_are_not_let_in_are_a_fault() -> None:
    present = [Worker("worker@a", "worker", (), 20, {})] * 3
    assert doctor_redis.clients(capacity(most=265), present)[0]
    is_ok, said = doctor_redis.clients(capacity(most=264), present)
    assert not is_ok
    assert said == "3 workers x (2 x slots + 15) + 100 = 265 of maxclients 264: raise maxclients"


def test_stray_lists_are_counted_and_reported_by_queue() -> None:
    assert doctor_redis.told_strays({}) == (True, "no message has a priority")
    is_ok, said = doctor_redis.told_strays({"celery": 1, "sync": 3})
    assert not is_ok
    assert "1 of celery, 3 of sync" in said
    assert "without a priority" in said


def test_queue_without_a_worker_names_the_fleets_of_the_map() -> None:
    known = fleets.parse(f"{fleets.text_of(fleets.BUILT_IN)};spare=metrics,reports")
    assert doctor_redis.consumers([depth("sync", 1), depth("metrics", 2)], known)[0]
    is_ok, said = doctor_redis.consumers([depth("sync", 1), depth("metrics", 0)], known)
    assert not is_ok
    assert said == "nobody consumes metrics: start a worker of fleet spare, worker-heavy"

import pytest
import redis

from worker_app import queues
from worker_app.worker.heartbeat import PRESENCE_SECONDS, ROLL_CALL

pytestmark = pytest.mark.integration


def call(client: redis.Redis, node: str, processes: int = 1) -> object:
    return client.eval(ROLL_CALL, 1, queues.ROLL_CALL_KEY, node, processes, PRESENCE_SECONDS)


def test_roll_call_counts_the_processes_of_the_workers_that_are_there(redis_client: redis.Redis) -> None:
    assert call(redis_client, "worker@a") == 1
    assert call(redis_client, "worker@b", 4) == 5
    assert call(redis_client, "worker@a") == 5
    assert 0 < redis_client.ttl(queues.ROLL_CALL_KEY) <= PRESENCE_SECONDS


def test_worker_that_gave_no_sign_for_long_is_not_counted(redis_client: redis.Redis) -> None:
    call(redis_client, "worker@dead", 8)
    redis_client.zadd(queues.ROLL_CALL_KEY, {"worker@dead|8": 1_000_000})
    assert call(redis_client, "worker@a") == 1
    assert redis_client.zcard(queues.ROLL_CALL_KEY) == 1

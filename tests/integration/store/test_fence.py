import pytest
import redis

from worker_app.store import fence
from worker_app.store.fence import Fence

pytestmark = pytest.mark.integration


def test_one_holder_at_a_time_and_the_number_grows_with_each(redis_client: redis.Redis) -> None:
    first, second = Fence(redis_client, "t"), Fence(redis_client, "t")
    assert (first.hold(), second.hold(), first.hold()) == (True, False, True)
    first.release()
    assert (second.hold(), first.hold()) == (True, False)
    assert second.epoch == fence.current_epoch(redis_client, "t") == 2


def test_holder_whose_lock_was_taken_stops_at_once(redis_client: redis.Redis) -> None:
    holder, other = Fence(redis_client, "t"), Fence(redis_client, "t")
    holder.hold()
    redis_client.delete("dev-hops/t")
    assert other.hold()
    assert holder.hold() is False
    assert holder.is_held() is False
    holder.release()
    assert other.hold(), "the release of a lost lock must not free the new holder's"


def test_lock_has_a_life_of_its_own(redis_client: redis.Redis) -> None:
    Fence(redis_client, "t", ttl_seconds=5).hold()
    assert 0 < redis_client.pttl("dev-hops/t") <= 5000


def test_redis_that_is_away_makes_nobody_a_holder() -> None:
    away = Fence(redis.Redis(port=1), "t")
    assert away.hold() is False
    away.release()

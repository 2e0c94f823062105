import time
from typing import Any

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


def test_holder_acts_no_longer_than_to_a_second_before_its_lock_ends_by_its_own_clock(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, began = Fence(redis_client, "t"), time.monotonic()
    assert fence.TTL_SECONDS <= 30
    with monkeypatch.context() as clock:
        clock.setattr(time, "monotonic", lambda: began)
        assert holder.hold()
        clock.setattr(time, "monotonic", lambda: began + fence.TTL_SECONDS - 1.1)
        assert holder.is_held()
        clock.setattr(time, "monotonic", lambda: began + fence.TTL_SECONDS - 0.9)
        assert not holder.is_held()
    assert 0 < redis_client.pttl("dev-hops/t") <= fence.TTL_SECONDS * 1000


class Failing:
    """A client of which one call fails: its answer is lost."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self.lost = ""

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            if name == self.lost:
                self.lost = ""
                raise redis.ConnectionError
            return getattr(self._client, name)(*given, **more)

        return call


def test_error_of_redis_ends_the_hold_until_the_next_renewal(redis_client: redis.Redis) -> None:
    client: Any = Failing(redis_client)
    holder, other = Fence(client, "t"), Fence(redis_client, "t")
    assert holder.hold()
    client.lost = "eval"
    assert (holder.hold(), holder.is_held(), other.hold()) == (False, False, False)
    assert (holder.hold(), holder.epoch) == (True, 1)


def test_holder_that_could_not_take_its_number_does_not_act_under_an_older_one(redis_client: redis.Redis) -> None:
    client: Any = Failing(redis_client)
    holder, other = Fence(client, "t"), Fence(redis_client, "t")
    assert holder.hold()
    redis_client.delete("dev-hops/t")  # it stood still for longer than its lock lived
    assert other.hold()
    other.release()
    client.lost = "incr"
    assert holder.hold() is False
    assert holder.hold() is False  # the lock is its own and nobody's: it runs out
    redis_client.delete("dev-hops/t")
    assert (holder.hold(), holder.epoch) == (True, 3)

"""Broker health: what the Redis that carries the messages tells of itself, beside the queues.

A managed Redis may forbid CONFIG. What it tells by INFO is taken instead, and what it does not tell is None: a guess would
look like an answer.
Page: https://redis.io/docs/latest/develop/reference/eviction/
"""

from dataclasses import dataclass
from typing import Any

import redis

from worker_app import errors, queues

SAFE_POLICY = "noeviction"
UNACKED, UNACKED_INDEX = "unacked", "unacked_index"  # kombu's: what is taken and not settled, and since when
PRIORITY_MARK = "\x06\x16"  # kombu's: between the name of a queue and a priority, in the name of a list of its own


@dataclass(frozen=True, slots=True)
class Unacked:
    """What workers have taken and not settled."""

    messages: int
    oldest_age_seconds: float  # since the last sign of work on it, Redis's clock; 0.0: there is none


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a Redis lets in and keeps; None: it does not tell."""

    eviction_policy: str | None
    clients: int
    max_clients: int | None

    @property
    def is_policy_safe(self) -> bool | None:
        """Whether it never throws a message away to make room."""
        return None if self.eviction_policy is None else self.eviction_policy == SAFE_POLICY

    @property
    def clients_ratio(self) -> float | None:
        """Connected clients as a share of the most that are let in."""
        return self.clients / self.max_clients if self.max_clients else None


def unacked(client: redis.Redis) -> Unacked:
    """What is taken and not settled, of all workers. Raises StoreAway."""
    try:
        with client.pipeline(transaction=False) as pipe:
            pipe.hlen(UNACKED)
            pipe.zrange(UNACKED_INDEX, 0, 0, withscores=True)
            pipe.time()
            messages, oldest, (seconds, micros) = pipe.execute()
    except redis.RedisError as error:
        raise _away(error) from error
    since = oldest[0][1] if oldest and messages else None
    return Unacked(messages, 0.0 if since is None else round(max(0.0, seconds + micros / 1e6 - since), 3))


def capacity(client: redis.Redis) -> Capacity:
    """The eviction policy and the clients. Raises StoreAway."""
    try:
        told = _info(client, "clients") | _info(client, "memory")
        policy = told.get("maxmemory_policy") or _configured(client, "maxmemory-policy")
        most = told.get("maxclients") or _configured(client, "maxclients")
    except redis.RedisError as error:
        raise _away(error) from error
    return Capacity(
        eviction_policy=None if policy is None else str(policy),
        clients=int(told.get("connected_clients", 0)),
        max_clients=None if most is None else int(most),
    )


def stray_lists(client: redis.Redis) -> dict[str, int]:
    """Messages of our queues that a producer sent with a priority, by queue: they stand in lists of their own.

    Workers take them, and nobody counts them. Walks over every key, so it is not for a scrape. Raises StoreAway.
    """
    found: dict[str, int] = {}
    try:
        for key in client.scan_iter(match=f"*{PRIORITY_MARK}*", count=1000, _type="list"):
            name = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
            queue = name.partition(PRIORITY_MARK)[0]
            if queue in queues.ALL_QUEUES:
                found[queue] = found.get(queue, 0) + int(client.llen(key))
    except redis.RedisError as error:
        raise _away(error) from error
    return dict(sorted(found.items()))


def _info(client: redis.Redis, section: str) -> dict[str, Any]:
    """A section of INFO; empty where Redis forbids to ask."""
    try:
        told: Any = client.info(section)
    except redis.ResponseError:
        return {}
    return dict(told)


def _configured(client: redis.Redis, name: str) -> str | None:
    """A value of CONFIG; None where Redis forbids to ask."""
    try:
        told: Any = client.config_get(name)
    except redis.ResponseError:
        return None
    value = told.get(name)
    return None if value is None else str(value)


def _away(error: redis.RedisError) -> errors.StoreAway:
    return errors.StoreAway(f"Redis does not answer: {type(error).__name__}")

"""Queue depth: what is ready, running and how old, per queue, and who consumes it. Reads Redis alone, broadcasts nothing."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from worker_app import errors, queues


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker as its presence key tells."""

    node: str
    fleet: str
    queues: tuple[str, ...]
    slots: int
    running: dict[str, int]  # queue -> tasks
    hub_lag_seconds: float = 0.0  # longest blockage of its hub in the last ten minutes; 0: none, or it does not tell
    hub_blocked_in: str = ""  # `file:line in function` that held the hub


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """One queue. The field names are public."""

    queue: str
    ready: int  # messages, what `redis-cli llen` shows
    oldest_age_seconds: (
        float | None
    )  # of the oldest ready message, Redis's clock; None: empty, or of a foreign producer
    running: int  # tasks
    held: int  # ready messages whose gate is closed; they are no work now
    consumers: int  # workers


def workers(client: redis.Redis) -> list[Worker]:
    """The workers that were there in the last 30 seconds, by name. Raises StoreAway."""
    try:
        keys = sorted(client.scan_iter(match=f"{queues.PRESENCE_PREFIX}*", count=1000))
        values = client.mget(keys) if keys else []
    except redis.RedisError as error:
        raise errors.StoreAway(f"Redis does not answer: {type(error).__name__}") from error
    found = (_worker(_text(key), _text(value)) for key, value in zip(keys, values, strict=True) if value is not None)
    return [worker for worker in found if worker is not None]


def depths(client: redis.Redis, names: Sequence[str] = queues.ALL_QUEUES) -> list[QueueDepth]:
    """The named queues in order. Raises StoreAway."""
    present = workers(client)
    try:
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.llen(name)
                pipe.lindex(name, -1)
            pipe.time()
            *answers, (seconds, micros) = pipe.execute()
    except redis.RedisError as error:
        raise errors.StoreAway(f"Redis does not answer: {type(error).__name__}") from error
    now = seconds + micros / 1e6
    return [
        QueueDepth(
            queue=name,
            ready=answers[2 * index],
            oldest_age_seconds=_age(answers[2 * index + 1], now),
            running=sum(worker.running.get(name, 0) for worker in present),
            held=0,
            consumers=sum(name in worker.queues for worker in present),
        )
        for index, name in enumerate(names)
    ]


def _age(message: bytes | str | None, now: float) -> float | None:
    """The age of a message by its `enqueued_at` header; None where it has none, as a foreign producer's may."""
    if message is None:
        return None
    try:
        return round(max(0.0, now - float(json.loads(message)["headers"]["enqueued_at"])), 3)
    except (ValueError, TypeError, KeyError):
        return None


def _worker(key: str, value: str) -> Worker | None:
    """The worker behind a presence key; None for one that is not in our words."""
    try:
        content = json.loads(value)
        return Worker(
            node=key.removeprefix(queues.PRESENCE_PREFIX),
            fleet=str(content["fleet"]),
            queues=tuple(content["queues"]),
            slots=int(content["slots"]),
            running={str(queue): int(count) for queue, count in content["running"].items()},
            hub_lag_seconds=float(content.get("hub_lag_seconds", 0.0)),
            hub_blocked_in=str(content.get("hub_blocked_in", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value

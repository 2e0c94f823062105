"""Queue depth: what is ready, running and how old, per queue, and who consumes it. Broadcasts nothing.

All of it stands in Redis, but for what a closed gate holds back: that is asked of the gate and counted in Postgres.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from uuid import UUID

import redis

from worker_app import errors, queues
from worker_app.gate.key import WHOLE_KEY, GateKey, GateState
from worker_app.providers import registry
from worker_app.store import batches
from worker_app.store.batches import Unclaimed
from worker_app.store.postgres import Transaction


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
    held: (
        int | None
    )  # ready messages whose gate is closed; they are no work now. None: nobody asked, or it cannot be told
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


def depths(
    client: redis.Redis, names: Sequence[str] = queues.ALL_QUEUES, *, held: Mapping[str, int] | None = None
) -> list[QueueDepth]:
    """The named queues in order; `held` is what `held` counts. Raises StoreAway."""
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
            held=None if held is None else min(held.get(name, 0), answers[2 * index]),
            consumers=sum(name in worker.queues for worker in present),
        )
        for index, name in enumerate(names)
    ]


def held(states: Iterable[GateState], transaction: Callable[[], AbstractContextManager[Transaction]]) -> dict[str, int]:
    """How many messages of each queue are for batches that a closed gate would send away: more workers cannot help them.

    Asks Postgres only where a gate is closed. Raises what `transaction` does.
    """
    closed = {(state.key, state.bucket) for state in states if state.retry_in > 0}
    keys = {key for key, _ in closed if _is_ours(key)}
    if not keys:
        return {}
    with transaction() as tx:
        waiting = batches.unclaimed(tx, [(UUID(key.org_id), key.provider, key.host) for key in keys])
    counts: Counter[str] = Counter()
    for item in waiting:
        if closed & _buckets(item):
            counts[item.queue] += item.number
    return dict(counts)


def _is_ours(key: GateKey) -> bool:
    """Whether an organisation of ours may be behind a key; others may use the same Redis."""
    try:
        UUID(key.org_id)
    except ValueError:
        return False
    return True


def _buckets(item: Unclaimed) -> set[tuple[GateKey, str]]:
    """What keeps batches from their first request where it is closed; nothing for a provider without a gate."""
    provider = registry.PROVIDERS.get(item.provider)
    bucket = None if provider is None else provider.buckets.get(item.dataset)
    key = GateKey(item.provider, str(item.org_id), item.host)
    return set() if bucket is None else {(key, WHOLE_KEY), (key, bucket)}


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

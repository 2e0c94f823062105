"""Queue depth: what is ready, running and how old, per queue and per fleet, and who consumes it. Broadcasts nothing.

All of it stands in Redis, but for what a closed gate holds back: that is asked of the gate and counted in Postgres. What runs
is at most as old as a heartbeat, and a killed worker is gone with its presence.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from uuid import UUID

import redis

from worker_app import enqueued, errors, queues
from worker_app.fleets import Fleets
from worker_app.gate.key import WHOLE_KEY, GateKey, GateState
from worker_app.providers import registry
from worker_app.store import batches
from worker_app.store.batches import Unclaimed
from worker_app.store.postgres import Transaction

SEARCHED = 16  # messages from the oldest on, where the oldest one waits for its time or does not tell its age


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
    )  # of the oldest ready message whose time has come, Redis's clock; None: empty, or of a foreign producer
    running: int  # tasks
    held: (
        int | None
    )  # ready messages whose gate is closed; they are no work now. None: nobody asked, or it cannot be told
    consumers: int  # workers


@dataclass(frozen=True, slots=True)
class FleetDepth:
    """One fleet. The field names are public."""

    fleet: str
    work: int  # ready + running - held: what the autoscaler sees
    ready: int  # messages in its queues
    held: int  # of them: what more workers cannot help
    running: int  # tasks
    slots: int  # most tasks at once
    workers: int
    oldest_age_seconds: float | None  # of what is ready and not held; 0.0: nothing is. None: nobody can tell


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
    client: redis.Redis,
    names: Sequence[str] = queues.ALL_QUEUES,
    *,
    held: Mapping[str, int] | None = None,
    present: Sequence[Worker] | None = None,
) -> list[QueueDepth]:
    """The named queues in order; `held` is what `held` counts, `present` what `workers` gives. Raises StoreAway."""
    there = workers(client) if present is None else present
    try:
        lengths, ages = _lengths_and_ages(client, names)
    except redis.RedisError as error:
        raise errors.StoreAway(f"Redis does not answer: {type(error).__name__}") from error
    return [
        QueueDepth(
            queue=name,
            ready=length,
            oldest_age_seconds=age,
            running=sum(worker.running.get(name, 0) for worker in there),
            held=None if held is None else min(held.get(name, 0), length),
            consumers=sum(name in worker.queues for worker in there),
        )
        for name, length, age in zip(names, lengths, ages, strict=True)
    ]


def fleet_depths(
    client: redis.Redis,
    known: Fleets,
    states: Iterable[GateState],
    transaction: Callable[[], AbstractContextManager[Transaction]],
) -> list[FleetDepth]:
    """The fleets in their order, without what the closed gates of `states` hold back. Raises StoreAway of either store."""
    waiting, present = held(states, transaction), workers(client)
    return by_fleet(known, depths(client, held=waiting, present=present), present)


def by_fleet(known: Fleets, found: Sequence[QueueDepth], present: Sequence[Worker]) -> list[FleetDepth]:
    """The queues and workers of each fleet together. A queue of which nobody told what is held counts as a whole."""
    return [
        _fleet(
            name,
            [item for item in found if item.queue in consumed],
            [worker for worker in present if worker.fleet == name],
        )
        for name, consumed in known.items()
    ]


def _fleet(name: str, found: Sequence[QueueDepth], members: Sequence[Worker]) -> FleetDepth:
    ready, back = sum(item.ready for item in found), sum(item.held or 0 for item in found)
    running = sum(sum(worker.running.values()) for worker in members)
    waiting = [item.oldest_age_seconds for item in found if item.ready > (item.held or 0)]
    told = [age for age in waiting if age is not None]
    return FleetDepth(
        fleet=name,
        work=ready - back + running,
        ready=ready,
        held=back,
        running=running,
        slots=sum(worker.slots for worker in members),
        workers=len(members),
        oldest_age_seconds=max(told) if told else None if waiting else 0.0,
    )


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


def _lengths_and_ages(client: redis.Redis, names: Sequence[str]) -> tuple[list[int], list[float | None]]:
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.llen(name)
            pipe.lindex(name, -1)
        pipe.time()
        *answers, (seconds, micros) = pipe.execute()
    lengths, now = answers[::2], seconds + micros / 1e6
    ages = [_age(message, now) for message in answers[1::2]]
    silent = [index for index, age in enumerate(ages) if not age and lengths[index] > 1]
    with client.pipeline(transaction=False) as pipe:
        for index in silent:
            pipe.lrange(names[index], -SEARCHED, -1)
        for index, messages in zip(silent, pipe.execute() if silent else (), strict=True):
            ages[index] = max((age for message in messages if (age := _age(message, now)) is not None), default=None)
    return lengths, ages


def _age(message: bytes | str | None, now: float) -> float | None:
    """For how long a message might have been taken, by its headers; 0.0 before its time has come.

    None where it does not tell, as a foreign producer's may not.
    """
    if message is None:
        return None
    try:
        since = enqueued.since(json.loads(message)["headers"])
        return None if since is None else round(max(0.0, now - since), 3)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
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

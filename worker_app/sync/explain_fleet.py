"""What Redis tells an explanation: who is there, what lies in the queues, and where a message is that somebody waits for.

Reads alone. What could not be read is None or absent, so that nobody takes it for a no.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import redis

from worker_app import errors, fleets, queue_depth
from worker_app.fleets import BUILT_IN, Fleets
from worker_app.queue_depth import QueueDepth, Worker
from worker_app.sync import rescue

BEAT_KEY = "dev-hops/beat"  # the fence of beat
UNACKED_KEY = "unacked"  # what workers have taken and not settled, kombu's name
SEARCHED_MOST = (
    10_000  # messages of one queue that are looked through, from the oldest on: what OUTBOX_MAX_DEPTH lets in
)
STEP = 500  # messages in one answer of Redis, about half a megabyte
MESSAGE = re.compile(rb"'(?:run|batch)_id': '([0-9a-f-]{36})'")  # in the header that shows the arguments
TASK = re.compile(rb"worker_app\.tasks\.(\w+)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A message that left the outbox and that a run or a batch waits for."""

    subject: UUID  # of the run or batch
    task: str
    queue: str
    wakes: int  # tells this arming from the next


@dataclass(frozen=True, slots=True)
class Fleet:
    """Redis at one moment."""

    away: str | None = None  # which Redis does not answer, and how it failed
    is_beat_there: bool | None = None  # somebody holds the lock; None: it could not be read
    workers: tuple[Worker, ...] | None = None
    depths: Mapping[str, QueueDepth] = field(default_factory=dict)
    ahead: Mapping[UUID, int] = field(default_factory=dict)  # found in its queue: messages that are older than it
    taken: frozenset[UUID] = frozenset()  # found among what workers have taken and not settled
    searched: frozenset[str] = frozenset()  # queues that were looked through to their end
    is_emptied: bool | None = None  # Redis may have lost messages and no rescue has seen it yet
    known: Fleets = field(default_factory=lambda: BUILT_IN)  # the fleets that there are to be

    @property
    def publishing(self) -> tuple[str, ...]:
        """The fleets whose workers take messages from the outbox to Redis."""
        return tuple(name for name, consumed in self.known.items() if fleets.publishes(consumed))


def read(
    broker: redis.Redis,
    locks: redis.Redis,
    wanted: Sequence[Wanted],
    known_epoch: str | None,
    known: Fleets = BUILT_IN,
) -> Fleet:
    """Redis as it is now, beside the fleets that are `known`. Raises nothing where it is away: the answer says so."""
    away, is_beat_there = None, None
    try:
        is_beat_there = bool(locks.exists(BEAT_KEY))
    except redis.RedisError as error:
        if _address(locks) == _address(broker):  # asked again it would only let the person wait again
            return Fleet(away=f"Redis does not answer ({type(error).__name__})")
        away = f"the Redis of the locks does not answer ({type(error).__name__})"
    try:
        workers, depths = queue_depth.workers(broker), {item.queue: item for item in queue_depth.depths(broker)}
        ahead, searched = _search_queues(broker, wanted)
        return Fleet(
            away=away,
            is_beat_there=is_beat_there,
            workers=tuple(workers),
            depths=depths,
            ahead=ahead,
            searched=searched,
            taken=_search_taken(broker, [item for item in wanted if item.subject not in ahead]),
            is_emptied=rescue.epoch(broker) != known_epoch,
            known=known,
        )
    except (redis.RedisError, errors.StoreAway) as error:
        cause = error.__cause__ or error
        return Fleet(away=f"Redis does not answer ({type(cause).__name__})", is_beat_there=is_beat_there)


def _address(client: redis.Redis) -> tuple[object, ...]:
    """Which server a client asks."""
    chosen = client.connection_pool.connection_kwargs
    return tuple(chosen.get(name) for name in ("host", "port", "path"))


def _search_queues(client: redis.Redis, wanted: Sequence[Wanted]) -> tuple[dict[UUID, int], frozenset[str]]:
    """How many messages are older than each wanted one, and which queues were looked through to their end."""
    found: dict[UUID, int] = {}
    searched: set[str] = set()
    for queue in sorted({item.queue for item in wanted}):
        missing = {(item.subject, item.task) for item in wanted if item.queue == queue}
        for before in range(0, SEARCHED_MOST, STEP):
            step: Any = client.lrange(queue, -before - STEP, -before - 1)
            for ahead, raw in enumerate(reversed(step), start=before):  # the right end is the oldest
                if (key := _subject(raw)) in missing:
                    missing.discard(key)
                    found[key[0]] = ahead
            if len(step) < STEP:
                searched.add(queue)
            if len(step) < STEP or not missing:
                break
    return found, frozenset(searched)


def _search_taken(client: redis.Redis, wanted: Sequence[Wanted]) -> frozenset[UUID]:
    """Which of the wanted messages some worker has taken and not settled."""
    missing = {(item.subject, item.task) for item in wanted}
    if not missing:
        return frozenset()
    notes = client.hscan_iter(UNACKED_KEY, count=STEP)
    return frozenset(key[0] for _, raw in notes if (key := _subject(raw)) in missing)


def _subject(raw: bytes | str) -> tuple[UUID, str] | None:
    """The run or batch that a message of ours is about, and its task; None for any other."""
    message = raw.encode() if isinstance(raw, str) else raw
    subject, task = MESSAGE.search(message), TASK.search(message)
    try:
        return None if subject is None or task is None else (UUID(subject[1].decode()), task[1].decode())
    except ValueError:
        return None

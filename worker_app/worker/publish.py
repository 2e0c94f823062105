"""Publishing: how outbox rows become Celery messages. Nothing else of ours sends one, apart from beat.

A batch costs one round trip. The messages are Celery's own (`envelope`); what is left out is the work that `send_task` does for
each of them to find out a route that the row names anyway, and its signals.
Page: https://docs.celeryq.dev/en/stable/internals/protocol.html
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter

import redis
import structlog
from celery import Celery
from kombu.exceptions import KombuError

from worker_app import errors, message_guard
from worker_app.jobs import Message
from worker_app.sync.outbox import PublishError
from worker_app.worker.envelope import Envelopes

CLOCK_SECONDS = 60.0  # how long a reading of Redis's clock serves
CONNECTION_SECONDS = 10.0  # a batch waits this long for one of the app's connections

log = structlog.get_logger(__name__)


def publisher(
    app: Celery, client: redis.Redis, clock: "RedisClock | None" = None
) -> Callable[[Sequence[Message]], None]:
    """A function that sends a batch in one round trip; it raises PublishError when the broker does not take it.

    The task id is made from the outbox row, so that a row published twice is one task. `enqueued_at` is Redis's clock, so
    that the age of a message compares one clock with itself. A message that the publish guard refuses is told in the log and
    is not sent, now or later: its row would be refused again, and all that is due behind it would wait.
    """
    read, envelopes = clock or RedisClock(client), Envelopes(app)

    def publish(owed: Sequence[Message]) -> None:
        messages = [message for message in owed if _is_safe(message)]
        if not messages:
            return
        try:
            now = read.now()
            with (
                app.producer_pool.acquire(block=True, timeout=CONNECTION_SECONDS) as producer,
                producer.channel.conn_or_acquire() as broker,
                broker.pipeline(transaction=False) as pipe,
            ):
                for queue, owned in groupby(messages, key=attrgetter("queue")):
                    pipe.lpush(queue, *[envelopes.of(message, now) for message in owned])
                pipe.execute()
        except (KombuError, redis.RedisError, OSError) as error:
            raise PublishError(
                f"the broker did not take {messages[0].dedupe} and {len(messages) - 1} more: {type(error).__name__}"
            ) from error

    return publish


def _is_safe(message: Message) -> bool:
    refusal = _refusal(message)
    if refusal is not None:
        log.error("outbox.message_refused", error=refusal, org_id=message.origin.get("org_id"), dedupe=message.dedupe)
    return refusal is None


def _refusal(message: Message) -> str | None:
    try:
        message_guard.check(message_guard.PREFIX + message.task, (), message.kwargs)
    except errors.UnsafeMessage as error:
        return str(error)
    return None


class RedisClock:
    """Redis's clock in seconds, read once a minute and carried on by the monotonic clock between."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._read_at = -CLOCK_SECONDS
        self._offset = 0.0

    def now(self) -> float:
        """Seconds since the epoch. Raises RedisError."""
        moment = time.monotonic()
        if moment - self._read_at >= CLOCK_SECONDS:
            seconds, micros = self._client.time()
            self._offset, self._read_at = seconds + micros / 1e6 - moment, moment
        return moment + self._offset

    def refresh(self) -> None:
        """Read it if it is time to, for who may not wait later. A Redis that does not answer changes nothing."""
        with contextlib.suppress(redis.RedisError):
            self.now()

    def about_now(self) -> float:
        """Seconds since the epoch as last read, without asking anybody; of this host's clock where nothing was read."""
        return time.monotonic() + self._offset if self._offset else time.time()


def held_queues(client: redis.Redis, queues: Sequence[str], most: int) -> Callable[[], list[str]]:
    """A function that names the queues with `most` messages or more, whose further ones wait in Postgres."""

    def held() -> list[str]:
        try:
            with client.pipeline(transaction=False) as pipe:
                for queue in queues:
                    pipe.llen(queue)
                depths = pipe.execute()
        except redis.RedisError as error:
            raise PublishError(f"Redis does not answer: {type(error).__name__}") from error
        return [queue for queue, depth in zip(queues, depths, strict=True) if depth >= most]

    return held

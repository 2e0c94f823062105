"""Publishing: how an outbox row becomes a Celery message. Nothing else of ours sends one, apart from beat."""

import time
from collections.abc import Callable, Sequence

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from worker_app import jobs
from worker_app.jobs import Message
from worker_app.sync.outbox import PublishError

CLOCK_SECONDS = 60.0  # how long a reading of Redis's clock serves
TASK_PREFIX = "worker_app.tasks."


def publisher(app: Celery, client: redis.Redis) -> Callable[[Message], None]:
    """A function that sends one message; it raises PublishError when the broker does not take it.

    The task id is made from the outbox row, so that a row published twice is one task. `enqueued_at` is Redis's clock, so
    that the age of a message compares one clock with itself.
    """
    clock = _RedisClock(client)

    def publish(message: Message) -> None:
        try:
            app.send_task(
                TASK_PREFIX + message.task,
                kwargs=dict(message.kwargs),
                queue=message.queue,
                task_id=str(jobs.message_id(message.dedupe)),
                ignore_result=True,
                headers={"enqueued_at": clock.now()},
                retry=False,
            )
        except (OperationalError, redis.RedisError, OSError) as error:
            raise PublishError(f"the broker did not take {message.dedupe}: {type(error).__name__}") from error

    return publish


class _RedisClock:
    """Redis's clock in seconds, read once a minute and carried on by the monotonic clock between."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._read_at = -CLOCK_SECONDS
        self._offset = 0.0

    def now(self) -> float:
        moment = time.monotonic()
        if moment - self._read_at >= CLOCK_SECONDS:
            seconds, micros = self._client.time()
            self._offset, self._read_at = seconds + micros / 1e6 - moment, moment
        return moment + self._offset


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

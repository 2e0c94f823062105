"""The envelope that we push is the one that kombu pushes, to the last key."""

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from celery import Celery

from celery_utils import PerformanceProfile, create_worker_app
from worker_app import jobs, message_guard, queues
from worker_app.jobs import Message
from worker_app.worker import message_context, publish
from worker_app.worker.envelope import Envelopes

pytestmark = pytest.mark.integration
MOMENT = 1_790_000_000.25
OWED = [
    name for name, arguments in message_guard.ARGUMENTS.items() if "epoch" not in arguments
]  # those that the outbox owes


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    made = create_worker_app("t", PerformanceProfile(), broker_url=redis_url, queues=queues.ALL_QUEUES)
    yield made
    made.backend.client.connection_pool.disconnect()
    made.close()


def owed(task: str, number: int = 0) -> Message:
    (name,) = message_guard.ARGUMENTS[task]
    subject = str(UUID(int=number + 1))
    origin = {"org_id": str(uuid4()), "correlation_id": subject, "provider": "git", "run_id": subject}
    return Message(
        number,
        f"run/{subject}/dispatch/1",
        task,
        queues.TASK_QUEUES[task],
        {name: subject},
        origin=origin,
    )


def by_kombu(app: Celery, message: Message) -> None:
    """Push a message by Celery's own code and kombu's own channel."""
    task_id, kwargs = str(jobs.message_id(message.dedupe)), dict(message.kwargs)
    made = app.amqp.create_task_message(
        task_id, message_guard.PREFIX + message.task, (), kwargs, root_id=task_id, ignore_result=True, argsrepr="()"
    )
    headers = message_context.headers_of(message, task_id, MOMENT)
    properties = {**made.properties, message_context.CORRELATION: headers[message_context.CORRELATION]}
    with app.producer_or_acquire() as producer:
        producer.publish(
            made.body,
            exchange="",
            routing_key=message.queue,
            headers={**made.headers, **headers},
            serializer="json",
            **properties,
        )


def read(raw: Any) -> dict[str, Any]:
    """An envelope with its body as it is read, and without what is new in each."""
    envelope: dict[str, Any] = json.loads(raw)
    envelope["body"] = json.loads(b64decode(envelope["body"]))
    assert UUID(envelope["properties"].pop("delivery_tag")).version == 4
    return envelope


@pytest.mark.parametrize("task", OWED)
def test_envelope_is_that_of_kombu_on_redis(app: Celery, redis_client: redis.Redis, task: str) -> None:
    message = owed(task)
    by_kombu(app, message)
    expected = read(redis_client.lpop(message.queue))
    assert read(Envelopes(app).of(message, MOMENT)) == expected
    publish.publisher(app, redis_client)([message])
    pushed = read(redis_client.lpop(message.queue))
    del pushed["headers"]["enqueued_at"], expected["headers"]["enqueued_at"]
    assert pushed == expected


def test_envelopes_of_one_task_share_nothing_that_differs(app: Celery) -> None:
    envelopes, messages = Envelopes(app), [owed("dispatch_sync_run", number) for number in range(3)]
    made = [read(envelopes.of(message, MOMENT)) for message in messages]
    assert [item["body"][1] for item in made] == [dict(message.kwargs) for message in messages]
    assert [item["headers"]["id"] for item in made] == [str(jobs.message_id(message.dedupe)) for message in messages]
    assert [item["headers"]["org_id"] for item in made] == [message.origin["org_id"] for message in messages]
    assert read(envelopes.of(messages[0], MOMENT)) == made[0]


def test_batch_keeps_its_order_within_each_queue(app: Celery, redis_client: redis.Redis) -> None:
    tasks = ["dispatch_sync_run", "compute_daily_metrics", "dispatch_sync_run", "dispatch_sync_run"]
    messages = [owed(task, number) for number, task in enumerate(tasks)]
    publish.publisher(app, redis_client)(messages)
    for queue in ("sync", "metrics"):
        lying = [
            read(raw)["body"][1] for raw in reversed(redis_client.lrange(queue, 0, -1))
        ]  # the right end is the oldest
        assert lying == [dict(message.kwargs) for message in messages if message.queue == queue]

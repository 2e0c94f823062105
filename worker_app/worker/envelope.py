"""Envelopes: what lies in Redis for a message, as Celery and kombu make it.

kombu puts each message together anew, which is most of what publishing costs. Here it makes one for each task and queue, and
what differs from message to message is put into its place: ids, arguments, headers.
Page: https://docs.celeryq.dev/en/stable/internals/protocol.html
"""

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu.connection import Connection
from kombu.messaging import Producer

from worker_app import jobs, message_guard
from worker_app.jobs import Message
from worker_app.worker import message_context


@dataclass(frozen=True, slots=True)
class _Model:
    """One message of a task on a queue."""

    envelope: dict[str, Any]
    embed: dict[str, Any]  # what stands in the body beside the arguments


class Envelopes:
    """The envelopes of one app's messages."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._models: dict[tuple[str, str], _Model] = {}

    def of(self, message: Message, enqueued_at: float) -> str:
        """The JSON to push for a message; the task id is made from its outbox row. `enqueued_at`: seconds since the epoch."""
        task_id, kwargs = str(jobs.message_id(message.dedupe)), dict(message.kwargs)
        model = self._model(message.task, message.queue)
        headers = message_context.headers_of(message, task_id, enqueued_at)
        own = {"id": task_id, "root_id": task_id, "kwargsrepr": repr(kwargs)}  # ids alone: nothing to be cut or hidden
        tags = {message_context.CORRELATION: headers[message_context.CORRELATION], "delivery_tag": str(uuid4())}
        return json.dumps(
            {
                **model.envelope,
                "body": b64encode(json.dumps([[], kwargs, model.embed]).encode()).decode(),
                "headers": {**model.envelope["headers"], **own, **headers},
                "properties": {**model.envelope["properties"], **tags},
            }
        )

    def _model(self, task: str, queue: str) -> _Model:
        if (task, queue) not in self._models:
            self._models[task, queue] = self._made(task, queue)
        return self._models[task, queue]

    def _made(self, task: str, queue: str) -> _Model:
        """Let kombu send one message to a transport that keeps it within this process."""
        name = message_guard.PREFIX + task
        made = self._app.amqp.create_task_message(
            "", name, (), {}, root_id="", ignore_result=True, argsrepr="()", kwargsrepr="{}"
        )
        *_, embed = made.body
        with Connection("memory://") as connection, connection.channel() as channel:
            Producer(channel, serializer="json").publish(
                made.body, exchange="", routing_key=queue, headers=made.headers, **made.properties
            )
            return _Model(channel._get(queue), embed)

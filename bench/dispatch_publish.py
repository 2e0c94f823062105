"""Ours: owed outbox rows to Celery messages in Redis, by the relay as a worker builds it."""

import json
import time
from typing import Any

import redis
from sqlalchemy import text

from bench import dispatch_ours, dispatch_side
from bench.dispatch_side import Found, Gate, Place, Share
from worker_app import celery, queues, runtime
from worker_app.store.postgres import Postgres
from worker_app.sync.outbox import Relay
from worker_app.worker import publish

QUEUE = queues.TASK_QUEUES["dispatch_sync_run"]
LOOK_SECONDS = 0.02
RELAY_CONNECTIONS = 4


def relay_of(postgres: Postgres, client: redis.Redis) -> Relay:
    """A relay as `worker_app.worker.boot` builds it."""
    held = publish.held_queues(client, queues.ALL_QUEUES, celery.settings.outbox_max_depth)
    send = publish.publisher(celery.app, client)
    return Relay(postgres, send, held, celery.settings.outbox_poll_seconds)


def client_of(place: Place) -> redis.Redis:
    """A client of Redis with one open connection."""
    client = runtime.redis_client(place.redis_url, connections=RELAY_CONNECTIONS)
    client.ping()
    return client


def is_owed(postgres: Postgres) -> bool:
    """Whether the outbox still holds a row."""
    with postgres.transaction() as tx:
        return bool(tx.execute(text("SELECT EXISTS (SELECT FROM task_outbox)")).scalar_one())


def work(place: Place, gate: Gate) -> Share:
    """Drain until nothing is owed. What another relay has claimed is owed still."""
    with dispatch_ours.opened(place) as postgres:
        relay = relay_of(postgres, client_of(place))
        start, sent = gate(), 0
        while drained := relay.drain():
            sent += drained
        share = start.share(sent, postgres.longest_ms)
        while is_owed(postgres):
            time.sleep(LOOK_SECONDS)
        return share


def found(place: Place) -> Found:
    """Messages in the queue, and how many of them are different tasks."""
    client: Any = client_of(place)
    ids = {json.loads(message)["headers"]["id"] for message in client.lrange(QUEUE, 0, -1)}
    return {"messages": int(client.llen(QUEUE)), "distinct_task_ids": len(ids)}


if __name__ == "__main__":
    dispatch_side.main(dispatch_ours.seed, work, found)

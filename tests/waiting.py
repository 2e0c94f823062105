"""Batches of a GitHub source that wait, queued or deferred by a gate, made through the same functions as in production."""

import json
from collections.abc import Sequence
from uuid import UUID, uuid4

import redis

from tests.seed import Seed
from worker_app import jobs
from worker_app.jobs import BatchState, Message, NewBatch
from worker_app.store import batches, runs, sources
from worker_app.store.postgres import Postgres
from worker_app.sync.outbox import Relay

REASON = {
    "gate": "github on github.com",
    "bucket": "core",
    "reason": "window",
    "detail": "secondary: You have exceeded a secondary rate limit",
}


def github(postgres: Postgres, name: str = "acme", host: str = "github.com") -> Seed:
    """An organisation with one repository on GitHub."""
    with postgres.transaction() as tx:
        org = sources.add_org(tx, name, "UTC")
        return Seed(org, sources.add_source(tx, org.id, "github", host, f"{name}/api", "4711"))


def queued(postgres: Postgres, made: Seed, *datasets: str, queue: str = "sync.github") -> list[UUID]:
    """A run with one queued batch for each dataset; their messages are still owed."""
    run_id, owner = uuid4(), uuid4()
    new = [NewBatch(jobs.batch_id(run_id, made.source.id, name), made.source.id, name, queue) for name in datasets]
    with postgres.transaction() as tx:
        runs.add_manual(tx, made.org.id, made.source.provider, made.source.id, run_id)
        run = runs.claim(tx, run_id, owner, "plan", 300)
        assert run is not None
        runs.lock_cap(tx, made.org.id, made.source.provider)
        assert runs.plan(tx, run, owner, new, cap=100) == len(new)
    return [item.id for item in new]


def deferred(postgres: Postgres, made: Seed, *datasets: str, seconds: float = 3600.0) -> list[UUID]:
    """A run with one batch for each dataset, deferred for `seconds` by the gate."""
    found = queued(postgres, made, *datasets)
    with postgres.transaction() as tx:
        for batch_id in found:
            batch = batches.claim(tx, batch_id, uuid4(), lease_seconds=300, cap=100)
            assert batch is not None
            assert batches.give_back(tx, batch, BatchState.DEFERRED, wait_seconds=seconds, defer_reason=REASON)
    return found


def published(postgres: Postgres, client: redis.Redis) -> int:
    """Publish what is owed and due; returns how many messages that were."""

    def publish(messages: Sequence[Message]) -> None:
        for message in messages:
            client.lpush(message.queue, json.dumps({"headers": {}, "kwargs": dict(message.kwargs)}))

    return Relay(postgres, publish, list, 60).drain()

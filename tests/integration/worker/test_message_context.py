"""What messages carry beside their arguments: when they were sent and for what, by each way on which we send them."""

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
import structlog
from celery import Celery

from celery_utils import PerformanceProfile, create_worker_app
from tests import waiting
from tests.seed import column, execute, manual_run, seed
from worker_app import jobs, queues, tasks
from worker_app.store import runs
from worker_app.store.postgres import Postgres
from worker_app.sync.outbox import Relay
from worker_app.worker import publish
from worker_app.worker.guarded_app import GuardedApp

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
RESCUE = tasks.rescue_lost.name
NOW = 1_800_000_000.0


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    made = create_worker_app(
        "t", PerformanceProfile(), broker_url=redis_url, queues=queues.ALL_QUEUES, app_class=GuardedApp
    )
    made.enqueue_clock = lambda: NOW
    yield made
    made.backend.client.connection_pool.disconnect()
    made.close()


@pytest.fixture
def no_context() -> Iterator[None]:
    structlog.contextvars.clear_contextvars()
    yield
    structlog.contextvars.clear_contextvars()


def messages(client: redis.Redis, queue: str) -> list[dict[str, Any]]:
    """The newest first."""
    return [json.loads(message) for message in client.lrange(queue, 0, -1)]


def send(app: Celery, **options: Any) -> None:
    app.send_task(RESCUE, kwargs={"epoch": 0}, queue="scheduler", ignore_result=True, **options)


def test_message_says_when_it_was_sent_and_begins_a_correlation(
    app: Celery, redis_client: redis.Redis, no_context: None
) -> None:
    send(app)
    send(app)
    found = [item["headers"] for item in messages(redis_client, "scheduler")]
    assert [item["enqueued_at"] for item in found] == [NOW, NOW]
    assert len({UUID(item["correlation_id"]) for item in found}) == 2


def test_message_of_a_running_task_carries_on_its_correlation_and_trace(
    app: Celery, redis_client: redis.Redis, no_context: None
) -> None:
    own, trace = str(uuid4()), "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    with structlog.contextvars.bound_contextvars(correlation_id=own, traceparent=trace, task="x"):
        send(app, headers={"enqueued_at": 1.0, "correlation_id": "of before", "org_id": "acme"})  # as a retry hands on
    (found,) = messages(redis_client, "scheduler")
    assert (found["headers"]["correlation_id"], found["properties"]["correlation_id"]) == (own, own)
    assert (found["headers"]["traceparent"], found["headers"]["org_id"]) == (trace, "acme")
    assert found["headers"]["enqueued_at"] == NOW


def test_relay_says_for_which_run_a_message_is(
    app: Celery, redis_client: redis.Redis, postgres: Postgres, no_context: None
) -> None:
    made = seed(postgres)
    run_id = manual_run(postgres, made)
    github = waiting.github(postgres, "orbit")
    (batch_id,) = waiting.queued(postgres, github, "commits")
    (batch_run,) = column(postgres, "SELECT run_id FROM sync_batches")
    follows = uuid4()
    with postgres.transaction() as tx:
        runs.add_metrics(tx, made.org.id, jobs.metrics_run_id(follows), "manual", follows=follows)
    execute(postgres, "DELETE FROM task_outbox WHERE task = 'dispatch_sync_run' AND org_id <> :id", id=made.org.id)
    assert Relay(postgres, publish.publisher(app, redis_client), list, 60).drain() == 3
    (run,), (batch,), (metrics,) = (messages(redis_client, name) for name in ("sync", "sync.github", "metrics"))
    carried = {name: run["headers"][name] for name in ("correlation_id", "run_id", "org_id", "provider")}
    assert carried == {
        "correlation_id": str(run_id),
        "run_id": str(run_id),
        "org_id": str(made.org.id),
        "provider": "git",
    }
    assert batch["headers"]["correlation_id"] == batch["headers"]["run_id"] == str(batch_run)
    assert (batch["headers"]["batch_id"], batch["headers"]["provider"]) == (str(batch_id), "github")
    assert metrics["headers"]["correlation_id"] == metrics["properties"]["correlation_id"] == str(follows)


def test_row_that_is_about_nothing_known_is_sent_all_the_same(
    app: Celery, redis_client: redis.Redis, postgres: Postgres, no_context: None
) -> None:
    made = seed(postgres)
    execute(
        postgres,
        "INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs) VALUES "
        "('a', :org, 'dispatch_sync_run', 'sync', jsonb_build_object('run_id', gen_random_uuid())), "
        "('b', :org, 'rescue', 'scheduler', '{}')",
        org=made.org.id,
    )
    assert Relay(postgres, publish.publisher(app, redis_client), list, 60).drain() == 2
    (found,) = messages(redis_client, "scheduler")
    assert found["headers"]["correlation_id"] == found["headers"]["id"]


def test_clock_of_redis_is_read_once_and_needs_no_answer_afterwards(redis_client: redis.Redis) -> None:
    clock = publish.RedisClock(redis_client)
    clock.refresh()
    seconds, micros = redis_client.time()
    assert clock.about_now() == pytest.approx(seconds + micros / 1e6, abs=1)
    absent = publish.RedisClock(redis.Redis(port=1))
    absent.refresh()
    assert absent.about_now() == pytest.approx(time.time(), abs=1)

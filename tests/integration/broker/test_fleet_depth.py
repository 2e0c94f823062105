"""The work of a fleet against the truth on real stores: what is ready, runs, waits for its time or is held back."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import redis
from celery import Celery

from tests.seed import execute
from tests.waiting import github, published, queued
from worker_app import errors, fleets, queue_depth, queues
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, GateState
from worker_app.queue_depth import FleetDepth
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
WEBHOOKS = fleets.parse(
    "worker=default,celery,scheduler,sync,sync.github,sync.gitlab,sync.jira,sync.linear,sync.git,reports,webhooks;"
    "worker-ingest=ingest;worker-heavy=metrics,backfill;worker-webhooks=webhooks"
)


@pytest.fixture
def foreign(redis_url: str) -> Iterator[Celery]:
    """A producer that knows nothing of us."""
    with Celery("foreign", broker=redis_url, set_as_current=False) as app:
        yield app


def look(
    client: redis.Redis,
    postgres: Postgres,
    states: list[GateState] | None = None,
    known: fleets.Fleets = fleets.BUILT_IN,
) -> dict[str, FleetDepth]:
    found = queue_depth.fleet_depths(client, known, states or [], postgres.transaction)
    return {item.fleet: item for item in found}


def push(client: redis.Redis, queue: str, **headers: object) -> None:
    client.lpush(queue, json.dumps({"headers": headers}))


def present(client: redis.Redis, node: str, fleet: str, running: dict[str, int], slots: int = 20) -> None:
    content = {"fleet": fleet, "queues": list(fleets.BUILT_IN[fleet]), "slots": slots, "running": running}
    client.set(f"{queues.PRESENCE_PREFIX}{node}", json.dumps(content), px=30_000)


def test_fleets_without_anything_have_no_work_and_an_age_of_zero(redis_client: redis.Redis, postgres: Postgres) -> None:
    found = look(redis_client, postgres)
    assert list(found) == list(fleets.BUILT_IN)
    assert {(item.work, item.slots, item.workers, item.oldest_age_seconds) for item in found.values()} == {
        (0, 0, 0, 0.0)
    }


def test_work_is_what_is_ready_and_what_runs_of_each_fleet(redis_client: redis.Redis, postgres: Postgres) -> None:
    for queue, number in (("sync.git", 3), ("default", 2), ("metrics", 1)):
        for _ in range(number):
            push(redis_client, queue, enqueued_at=time.time())
    present(redis_client, "worker@a", "worker", {"sync.git": 4, "scheduler": 1})
    present(redis_client, "worker@b", "worker", {"sync": 2})
    present(redis_client, "worker-heavy@a", "worker-heavy", {"backfill": 3}, slots=4)
    found = look(redis_client, postgres)
    assert (found["worker"].work, found["worker"].slots, found["worker"].workers) == (5 + 7, 40, 2)
    assert (found["worker-heavy"].work, found["worker-heavy"].running, found["worker-heavy"].slots) == (4, 3, 4)
    assert found["worker-ingest"].work == 0


def test_worker_whose_presence_has_run_out_counts_no_more(redis_client: redis.Redis, postgres: Postgres) -> None:
    present(redis_client, "worker@a", "worker", {"sync": 5})
    redis_client.pexpire(f"{queues.PRESENCE_PREFIX}worker@a", 1)
    while redis_client.exists(f"{queues.PRESENCE_PREFIX}worker@a"):
        pass
    found = look(redis_client, postgres)["worker"]
    assert (found.work, found.workers, found.slots) == (0, 0, 0)


def test_queue_of_two_fleets_is_work_of_both_and_runs_in_one(redis_client: redis.Redis, postgres: Postgres) -> None:
    push(redis_client, "webhooks", enqueued_at=time.time() - 40)
    present(redis_client, "worker@a", "worker", {"webhooks": 2})
    found = look(redis_client, postgres, known=WEBHOOKS)
    assert (found["worker"].work, found["worker-webhooks"].work) == (3, 1)
    assert found["worker-webhooks"].oldest_age_seconds == pytest.approx(40, abs=1)


@pytest.mark.parametrize("age", [0.0, 7.5, 4000.0])
def test_oldest_age_is_within_a_second_of_the_truth(redis_client: redis.Redis, postgres: Postgres, age: float) -> None:
    seconds, micros = redis_client.time()
    now = seconds + micros / 1e6
    push(redis_client, "sync.jira", enqueued_at=now - age)
    push(redis_client, "sync.jira", enqueued_at=now)
    push(redis_client, "scheduler", enqueued_at=now)
    assert look(redis_client, postgres)["worker"].oldest_age_seconds == pytest.approx(age, abs=1)
    assert look(redis_client, postgres)["worker-heavy"].oldest_age_seconds == 0.0


def test_time_that_a_countdown_asked_for_is_no_age(redis_client: redis.Redis, postgres: Postgres) -> None:
    now = time.time()
    for eta in (now + 600, now - 20):
        moment = datetime.fromtimestamp(eta, UTC).isoformat()
        push(redis_client, "sync.git", enqueued_at=now - 900, eta=moment)
    push(redis_client, "metrics", enqueued_at=now - 900, eta=datetime.fromtimestamp(now + 600, UTC).isoformat())
    found = look(redis_client, postgres)
    assert found["worker"].oldest_age_seconds == pytest.approx(20, abs=1)  # behind the one that waits for its time
    assert found["worker-heavy"].oldest_age_seconds == 0.0


def test_messages_of_a_foreign_producer_are_work_of_an_unknown_age(
    redis_client: redis.Redis, postgres: Postgres, foreign: Celery
) -> None:
    foreign.send_task("shop.pay", queue="celery", ignore_result=True)
    found = look(redis_client, postgres)["worker"]
    assert (found.work, found.oldest_age_seconds) == (1, None)
    push(redis_client, "celery", enqueued_at=time.time() - 30)
    assert look(redis_client, postgres)["worker"].oldest_age_seconds == pytest.approx(30, abs=1)
    foreign.send_task("shop.pay", queue="metrics", ignore_result=True, countdown=60)
    heavy = look(redis_client, postgres)["worker-heavy"]
    assert (heavy.work, heavy.oldest_age_seconds) == (1, 0.0)


def test_messages_that_a_closed_gate_holds_back_are_no_work(
    redis_client: redis.Redis, postgres: Postgres, gate: Gate
) -> None:
    made, other = github(postgres), github(postgres, "orbit")
    queued(postgres, made, "commits", "work_items")
    queued(postgres, other, "commits")
    execute(postgres, "DELETE FROM task_outbox WHERE task <> 'run_sync_batch'")
    assert published(postgres, redis_client) == 3
    gate.backoff(GateKey("github", str(made.org.id), "github.com"), 60.0, reason="secondary")
    found = look(redis_client, postgres, gate.states())["worker"]
    assert (found.ready, found.held, found.work) == (3, 2, 1)
    gate.backoff(GateKey("github", str(other.org.id), "github.com"), 60.0, reason="secondary")
    closed = look(redis_client, postgres, gate.states())["worker"]
    assert (closed.work, closed.oldest_age_seconds) == (0, 0.0)


def test_work_is_never_below_zero(redis_client: redis.Redis, postgres: Postgres, gate: Gate) -> None:
    made = github(postgres)
    queued(postgres, made, "commits", "work_items")
    execute(postgres, "DELETE FROM task_outbox")  # sent, and just taken: nothing lies in the queue any more
    gate.backoff(GateKey("github", str(made.org.id), "github.com"), 60.0, reason="secondary")
    found = look(redis_client, postgres, gate.states())["worker"]
    assert (found.work, found.held) == (0, 0)


def test_store_that_is_away_gives_no_number(postgres: Postgres) -> None:
    absent = redis.Redis(port=1)
    with pytest.raises(errors.StoreAway, match="Redis does not answer"):
        look(absent, postgres)
    absent.close()


def test_message_whose_age_is_no_number_is_of_an_unknown_age(redis_client: redis.Redis, postgres: Postgres) -> None:
    redis_client.lpush("sync", '{"headers": {"enqueued_at": NaN}}', '{"headers": {"enqueued_at": "x"}}', "{", "[]")
    redis_client.lpush("sync", json.dumps({"headers": {"enqueued_at": time.time() - 3, "eta": "tomorrow"}}))
    found = look(redis_client, postgres)["worker"]
    assert (found.work, found.oldest_age_seconds) == (5, None)


def test_age_is_that_of_the_oldest_even_where_the_clock_of_its_sender_is_ahead(
    redis_client: redis.Redis, postgres: Postgres
) -> None:
    push(redis_client, "sync", enqueued_at=time.time() + 3600)
    assert look(redis_client, postgres)["worker"].oldest_age_seconds == 0.0

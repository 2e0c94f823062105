"""What Celery stores and sends of tasks that leak their credential, on both pools."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery
from sqlalchemy import text

from celery_utils import PerformanceProfile, create_worker_app
from tests.canary import Canary, redis_places
from tests.integration.worker.limited import Stage
from tests.processes import Service, wait_for
from tests.seed import Seed
from worker_app import queues
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.recipe import Recipe
from worker_app.store.postgres import Postgres

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

CANARY = Canary("Zq8f3a+kn4ry/41~7kxOp")  # nothing but its being alive gives it away
LEAKING = (sys.executable, "-m", "celery", "--app", "tests.integration.worker.leaking")
SMALL = Recipe(seed=7, repositories=1, pull_requests=1, comments_per_pull=1, issues=1, pushes=1, runs=1, deployments=1)
LEAKS = ("tests.leak", "tests.leak_retried", "tests.leak_returned")


@pytest.fixture
def stage(service: Service, postgres: Postgres) -> Iterator[Stage]:
    with FakeGitHub(generate(SMALL), tokens={"demo": CANARY.value}) as fake:
        yield Stage(replace(service, program=LEAKING), postgres, fake)


@pytest.fixture
def client_app(redis_url: str) -> Iterator[Celery]:
    made = create_worker_app("t", PerformanceProfile(), broker_url=redis_url, queues=queues.ALL_QUEUES)
    yield made
    made.close()


@contextmanager
def captured(app: Celery) -> Iterator[list[dict[str, Any]]]:
    """Every event that is sent meanwhile."""
    found: list[dict[str, Any]] = []
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": found.append})
        listening = threading.Thread(target=receiver.capture, kwargs={"limit": None, "timeout": None, "wakeup": True})
        listening.start()
        try:
            yield found
        finally:
            receiver.should_stop = True
            listening.join(10)


def send(app: Celery, postgres: Postgres, made: Seed, *tasks: str) -> list[str]:
    """Send leaking tasks; returns their ids."""
    with postgres.transaction() as tx:
        credential = tx.execute(text("SELECT id FROM org_credentials")).scalar_one()
    given, ids = {"org_id": str(made.org.id), "credential_id": str(credential)}, [str(uuid4()) for _ in tasks]
    for task, task_id in zip(tasks, ids, strict=True):
        app.send_task(task, kwargs=given, task_id=task_id, queue="default")
    return ids


def results(client: redis.Redis, ids: list[str]) -> list[dict[str, Any]]:
    """What is stored of tasks, once all have ended."""

    def look() -> list[dict[str, Any]] | None:
        stored = [json.loads(client.get(f"celery-task-meta-{task_id}") or "{}") for task_id in ids]
        return stored if all(item.get("status") in ("SUCCESS", "FAILURE") for item in stored) else None

    wait_for(look, "every task has a result", 30)
    return look() or []


@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_results_events_and_logs_of_leaking_tasks_hold_no_secret(
    stage: Stage, postgres: Postgres, client_app: Celery, redis_client: redis.Redis, pool: str
) -> None:
    (made,) = stage.org("acme", CANARY.value)
    changes = {"WORKER_SEND_TASK_EVENTS": "true", "CELERY_QUEUES": "default"}
    with captured(client_app) as events, stage.worker("w", pool=pool, slots=2, **changes) as worker:
        leaked, retried, returned = results(redis_client, send(client_app, postgres, made, *LEAKS))
        wait_for(lambda: {"task-failed", "task-retried"} <= {event["type"] for event in events}, "events came", 10)
        places = list(redis_places(redis_client))
    assert leaked["result"]["exc_type"] == "ValueError"
    assert leaked["result"]["exc_message"][0] == "refused: ***"
    assert "failed with ***" in leaked["traceback"]  # the cause
    assert retried["result"]["exc_message"] == ["again with ***"]
    assert returned["result"] == [{"token": "***"}, "***"]
    (failed,) = [event for event in events if event["type"] == "task-failed" and event["uuid"] == leaked["task_id"]]
    assert "refused: ***" in failed["exception"]
    assert "failed with ***" in failed["traceback"]
    log = stage.service.log("w")
    assert {line["event"] for line in worker.lines} >= {"leak.logged"}
    assert "failed with ***" in log
    assert CANARY.found_in(places) == []
    assert CANARY.found_in([("events", repr(events).encode()), ("log", log.encode())]) == []

"""What a real worker tells of its tasks: counts, waits, and log lines that say for what they were written."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import psycopg2
import pytest
import redis
from celery import Celery
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.engine import make_url

from tests.processes import DEV_HOPS, Service, wait_for
from tests.repositories import generate
from tests.seed import column, manual_run, seed
from worker_app import queue_depth
from worker_app.embedded.ports import free_port
from worker_app.fleets import BUILT_IN
from worker_app.queue_depth import FleetDepth
from worker_app.store.postgres import Postgres
from worker_app.worker.heartbeat import PRESENCE_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
RESCUE = "worker_app.tasks.rescue"
CROWD = 20


@pytest.fixture
def foreign(redis_url: str) -> Iterator[Celery]:
    """A producer that knows nothing of us but the names of tasks."""
    with Celery("foreign", broker=redis_url, set_as_current=False) as app:
        yield app


def told(port: int) -> dict[str, float]:
    """name/labels -> value, of one worker."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return {
        sample.name.removeprefix("dev_hops_") + "".join(f"/{sample.labels[name]}" for name in sorted(sample.labels)): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def lines(service: Service, event: str) -> list[dict[str, Any]]:
    """The lines of one event in the log of worker `w`."""
    found = [json.loads(line) for line in service.log("w").splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event]


def rescue(app: Celery, **options: Any) -> None:
    app.send_task(RESCUE, kwargs={"epoch": 0}, queue="scheduler", ignore_result=True, **options)


def test_worker_counts_what_it_received_refused_and_ended(
    service: Service, foreign: Celery, postgres: Postgres
) -> None:
    port = free_port()
    with service.running("w", "worker", "--concurrency", "4", METRICS_PORT=str(port), LOG_FORMAT="json") as worker:
        service.wait_ready("w", worker)
        for _ in range(3):
            rescue(foreign, headers={"enqueued_at": time.time() - 20})
        rescue(foreign, headers={"enqueued_at": time.time() - 900}, eta=datetime.now(UTC) - timedelta(seconds=2))
        rescue(foreign)  # says nothing of when it was sent
        rescue(foreign, expires=datetime.now(UTC) - timedelta(seconds=5))
        foreign.send_task("shop.pay", queue="celery", ignore_result=True)
        done = "task_succeeded_total/scheduler/rescue"
        wait_for(lambda: told(port).get(done) == 5, "five tasks end")
        wait_for(lambda: told(port).get("task_rejected_total/celery/unknown"), "the unknown one is refused")
        found = told(port)
    assert found["task_received_total/scheduler/rescue"] == 5  # what comes too late is revoked before
    assert found["task_started_total/scheduler/rescue"] == 5
    assert found["task_revoked_total/scheduler/rescue"] == 1
    assert found["task_rejected_total/celery/unknown"] == 1
    assert found["task_queue_wait_seconds_count/scheduler"] == 4
    assert found["task_queue_wait_seconds_bucket/15.0/scheduler"] == 1  # the countdown's own time is no wait
    assert found["task_queue_wait_seconds_bucket/60.0/scheduler"] == 4
    assert found["worker_slots"] == 4
    assert found["process_resident_memory_bytes"] > 1e6
    assert not [name for name in found if name.startswith(("beat_l", "queue_", "fleet_"))]


def test_parent_of_prefork_tells_what_all_its_children_have_counted_the_renewed_ones_included(
    service: Service, foreign: Celery, postgres: Postgres
) -> None:
    port = free_port()
    how = {"METRICS_PORT": str(port), "WORKER_MAX_TASKS_PER_CHILD": "2", "TMPDIR": str(service.folder)}
    with service.running("w", "worker", "--pool", "prefork", "--concurrency", "2", **how) as worker:
        service.wait_ready("w", worker)
        for _ in range(12):
            rescue(foreign, headers={"enqueued_at": time.time()})
        wait_for(lambda: told(port).get("task_succeeded_total/scheduler/rescue") == 12, "all twelve are counted", 60)
        found = told(port)
        (folder,) = service.folder.glob("dev-hops-telemetry-*")
        assert len({path.stem.rpartition("_")[2] for path in folder.glob("counter_*.db")} - {"0"}) <= 2 + 1
        worker.terminate()
        assert worker.wait(timeout=30) == 0
    assert found["task_started_total/scheduler/rescue"] == 12
    assert found["task_received_total/scheduler/rescue"] == 12
    assert found["task_runtime_seconds_count/rescue"] == 12
    assert found["task_queue_wait_seconds_count/scheduler"] == 12
    assert (found["worker_slots"], found["worker_tasks_active"]) == (2, 0)
    assert not [name for name in found if name.startswith(("beat_l", "queue_", "fleet_"))]
    assert not folder.exists()


def test_lines_of_tasks_that_run_at_once_do_not_mix(service: Service, foreign: Celery, postgres: Postgres) -> None:
    sent = {str(uuid4()): str(uuid4()) for _ in range(CROWD)}  # task -> run that is not there
    with service.running("w", "worker", "--concurrency", str(CROWD), LOG_FORMAT="json", LOG_LEVEL="INFO") as worker:
        service.wait_ready("w", worker)
        for task_id, run_id in sent.items():
            task = "worker_app.tasks.dispatch_sync_run"
            foreign.send_task(task, kwargs={"run_id": run_id}, queue="sync", task_id=task_id, ignore_result=True)
        wait_for(lambda: len(lines(service, "message.orphan")) == CROWD, "every task has told of its run", 60)
        orphans = lines(service, "message.orphan")
    assert {line["task_id"]: line["row_id"] for line in orphans} == sent
    assert {line["task_id"]: line["run_id"] for line in orphans} == sent
    assert {(line["queue"], line["attempt"], line["task"]) for line in orphans} == {("sync", 1, "dispatch_sync_run")}
    assert all(line["root_id"] == line["task_id"] for line in orphans)
    assert not [line for line in lines(service, "rescue.found") if "run_id" in line]


def test_correlation_is_the_same_from_the_run_to_its_metrics(service: Service, postgres: Postgres) -> None:
    generate(service.folder / "r", commits=10)
    made = seed(postgres, path=service.folder / "r")
    run_id = manual_run(postgres, made)
    queues = "scheduler,sync,sync.git,metrics"
    with service.running("w", "worker", "--concurrency", "4", LOG_FORMAT="json", CELERY_QUEUES=queues) as worker:
        service.wait_ready("w", worker)
        over = "SELECT 1 FROM sync_runs WHERE kind = 'metrics' AND finished_at IS NOT NULL"
        wait_for(lambda: column(postgres, over), "the metrics run is over", 60)
        wait_for(lambda: len(lines(service, "step.ended")) >= 4, "the last step has told")
        steps = {line["task"]: line for line in lines(service, "step.ended")}
    assert set(steps) == {"dispatch_sync_run", "run_sync_batch", "finish_sync_run", "compute_daily_metrics"}
    assert {line["correlation_id"] for line in steps.values()} == {str(run_id)}
    assert {line["org_id"] for line in steps.values()} == {str(made.org.id)}
    assert steps["run_sync_batch"]["run_id"] == str(run_id)
    assert steps["run_sync_batch"]["provider"] == "git"
    assert steps["run_sync_batch"]["batch_id"]
    assert steps["compute_daily_metrics"]["run_id"] != str(run_id)


@contextmanager
def held(database_url: str, table: str) -> Iterator[None]:
    """Nobody else reads or writes a table in the meantime, so that a task which wants to goes on running."""
    address = make_url(database_url).set(drivername="postgresql")
    connection = psycopg2.connect(address.render_as_string(hide_password=False))
    try:
        connection.cursor().execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
    finally:
        connection.close()


def test_work_of_a_fleet_counts_what_runs_and_forgets_a_killed_worker(
    service: Service, postgres: Postgres, redis_client: redis.Redis
) -> None:
    generate(service.folder / "r", commits=5)
    manual_run(postgres, seed(postgres, path=service.folder / "r"))

    def fleet() -> FleetDepth:
        return queue_depth.fleet_depths(redis_client, BUILT_IN, (), postgres.transaction)[0]

    with held(service.database_url, "sync_cursors"), service.running("w", "worker", "--concurrency", "3") as worker:
        wait_for(lambda: fleet().running, "the batch runs and is told", 60)
        found = fleet()
        assert (found.work - found.ready, found.slots, found.workers) == (found.running, 3, 1)
        worker.kill()
        worker.wait(timeout=10)
    wait_for(lambda: fleet().workers == 0, "its presence has run out", PRESENCE_SECONDS + 10)
    assert (fleet().running, fleet().slots) == (0, 0)


def test_worker_on_a_redis_that_evicts_says_so_loudly(
    service: Service, redis_client: redis.Redis, postgres: Postgres
) -> None:
    redis_client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with service.running("w", "worker", "--concurrency", "2", LOG_FORMAT="json") as worker:
            service.wait_ready("w", worker)
            wait_for(lambda: lines(service, "broker.may_evict"), "it is told")
            (line,) = lines(service, "broker.may_evict")
    finally:
        redis_client.config_set("maxmemory-policy", "noeviction")
    assert (line["level"], line["policy"]) == ("critical", "allkeys-lru")
    assert "noeviction" in line["remedy"]


def test_worker_is_of_a_fleet_that_the_map_names(
    service: Service, redis_client: redis.Redis, postgres: Postgres
) -> None:
    fleets = (
        "main=default,celery,scheduler,sync,sync.github,sync.gitlab,sync.jira,sync.linear,sync.git,reports;"
        "hooks=webhooks;worker-ingest=ingest;worker-heavy=metrics,backfill"
    )
    generate(service.folder / "r", commits=5)
    manual_run(postgres, seed(postgres, path=service.folder / "r"))
    how = {"DEV_HOPS_FLEETS": fleets, "DEV_HOPS_FLEET": "main"}
    with service.running("w", "worker", "--concurrency", "2", **how) as worker:
        service.wait_ready("w", worker)
        ended = "SELECT 1 FROM sync_runs WHERE kind = 'sync' AND finished_at IS NOT NULL"
        wait_for(lambda: column(postgres, ended), "its relay publishes and its tasks run", 60)
        (key,) = redis_client.scan_iter(match="dev-hops/presence/*")
        presence = json.loads(redis_client.get(key) or b"{}")
    assert (presence["fleet"], "webhooks" in presence["queues"]) == ("main", False)


def test_folder_of_children_that_is_not_there_yet_is_made_by_any_command(tmp_path: Path) -> None:
    environment = {"PATH": os.defpath, "DEV_HOPS_DIR": str(tmp_path / "none")}
    folder, taken = tmp_path / "a/b", tmp_path / "taken"
    taken.touch()
    done = [
        subprocess.run(
            [DEV_HOPS, "worker"],
            env=environment | {"PROMETHEUS_MULTIPROC_DIR": str(path)},
            capture_output=True,
            text=True,
            timeout=25,
            check=False,
        )
        for path in (folder, taken / "c")
    ]
    assert "DATABASE_URL is not set" in done[0].stderr
    assert folder.is_dir()
    assert "PROMETHEUS_MULTIPROC_DIR is" in done[1].stderr

"""The life of a piece of data through real processes: beat, worker, worker-heavy, on real stores and real repositories."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.command_line import dev_hops
from tests.processes import Service, wait_for
from tests.repositories import Repository, generate
from tests.seed import column, execute, manual_run, schedule, seed
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

# So slow that a worker is met in the middle of a history that is read in a moment, and that nobody computes meanwhile.
SLOW_DISK = """
CREATE FUNCTION slow_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$;
CREATE TRIGGER slow_disk BEFORE INSERT ON commits FOR EACH STATEMENT EXECUTE FUNCTION slow_disk()
"""


def ended(postgres: Postgres, kind: str = "sync") -> bool:
    return bool(
        column(
            postgres,
            "SELECT 1 FROM sync_runs WHERE kind = :kind AND finished_at IS NOT NULL AND NOT EXISTS "
            "(SELECT 1 FROM sync_runs WHERE kind = :kind AND finished_at IS NULL)",
            kind=kind,
        )
    )


def stored(postgres: Postgres) -> set[object]:
    return set(column(postgres, "SELECT ext_id FROM commits"))


def reachable(path: Path) -> set[object]:
    return set(Repository(path).git("rev-list", "--branches", "--tags").split())


def test_due_schedule_becomes_commits_and_metrics_through_beat_and_two_fleets(
    service: Service, postgres: Postgres
) -> None:
    generate(service.folder / "r", commits=120, branches=2, merge_every=10)
    made = seed(postgres, path=service.folder / "r")
    schedule(postgres, made)
    with (
        service.running("w", "worker", "--autoscale", "20,2") as worker,
        service.running("h", "worker", "--fleet", "worker-heavy", "--concurrency", "2"),
        service.running("b", "beat"),
    ):
        service.wait_ready("w", worker)
        wait_for(lambda: ended(postgres, "metrics"), "the metrics run is over", 60)
        states = column(postgres, "SELECT DISTINCT state FROM sync_runs")
    assert states == ["succeeded"]
    assert stored(postgres) == reachable(service.folder / "r")
    with postgres.transaction() as tx:
        rows = PostgresMetrics().read(tx, made.org.id, metrics=["commits"], grain="repo")
    assert sum(row.value or 0 for row in rows) == 120
    assert column(postgres, "SELECT count(*) FROM task_outbox") == [0]


def test_prefork_worker_does_the_same(service: Service, postgres: Postgres) -> None:
    generate(service.folder / "r", commits=40)
    manual_run(postgres, seed(postgres, path=service.folder / "r"))
    queues = "scheduler,sync,sync.git,metrics"
    with service.running("w", "worker", "--pool", "prefork", "--concurrency", "2", CELERY_QUEUES=queues) as worker:
        service.wait_ready("w", worker)
        wait_for(lambda: ended(postgres, "metrics"), "the metrics run is over", 60)
    assert stored(postgres) == reachable(service.folder / "r")
    assert column(postgres, "SELECT DISTINCT state FROM sync_runs") == ["succeeded"]


def test_worker_killed_three_times_in_the_middle_loses_and_doubles_nothing(
    service: Service, postgres: Postgres
) -> None:
    execute(postgres, SLOW_DISK)
    generate(service.folder / "r", commits=12_000, files_per_commit=2)
    run_id = manual_run(postgres, seed(postgres, path=service.folder / "r"))

    def records() -> int:
        (found,) = column(postgres, "SELECT coalesce(sum(records), 0)::bigint FROM sync_batches")
        assert isinstance(found, int)
        return found

    with service.running("b", "beat"):
        for _ in range(3):
            before = records()
            with service.running("w", "worker", "--autoscale", "20,2") as worker:
                wait_for(lambda start=before: records() > start, "the sync goes on", 60)  # type: ignore[misc]
                assert not ended(postgres)
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait(timeout=10)
        with service.running("w", "worker", "--autoscale", "20,2"):
            wait_for(lambda: ended(postgres), "the run is over", 90)
    assert column(postgres, "SELECT state FROM sync_runs WHERE id = :id", id=run_id) == ["succeeded"]
    assert stored(postgres) == reachable(service.folder / "r")
    assert records() == 12_000
    assert column(postgres, "SELECT attempt FROM sync_batches") == [3]


def test_worker_that_is_asked_to_end_gives_its_batch_back_and_another_goes_on(
    service: Service, postgres: Postgres
) -> None:
    execute(postgres, SLOW_DISK)
    generate(service.folder / "r", commits=6_000, files_per_commit=1)
    manual_run(postgres, seed(postgres, path=service.folder / "r"))
    with service.running("w", "worker", "--concurrency", "4") as worker:
        wait_for(lambda: column(postgres, "SELECT 1 FROM sync_batches WHERE records > 0"), "the sync goes on", 60)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=15) == 0
    assert column(postgres, "SELECT state || attempt FROM sync_batches") == ["queued0"]
    assert not (service.folder / "run/w/worker.ready").exists()
    with service.running("w2", "worker", "--concurrency", "4"):
        wait_for(lambda: ended(postgres), "the run is over", 60)
    assert stored(postgres) == reachable(service.folder / "r")


def test_worker_shows_its_queues_in_redis_and_takes_its_presence_back(service: Service, postgres: Postgres) -> None:
    def consumers() -> dict[str, int]:
        done = dev_hops("queues", "--json", environment=service.environment("c"))
        return {item["queue"]: item["consumers"] for item in json.loads(done.stdout) if item["consumers"]}

    with service.running("i", "worker", "--fleet", "worker-ingest", "--concurrency", "1") as worker:
        service.wait_ready("i", worker)
        wait_for(lambda: consumers() == {"ingest": 1}, "ingest has a consumer")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=15) == 0
    assert consumers() == {}

"""The service by Compose, from an empty folder to metrics, then through the loss of a worker and of Redis."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.compose.ledger import Ledger
from tests.compose.project import REPOSITORIES, Project
from tests.containers import Container, docker, wait_for
from tests.repositories import generate, run_git

pytestmark = pytest.mark.timeout(600)

COMMITS = 700  # of the one repository that is added by hand
REPOSITORY_COUNT, REPOSITORY_COMMITS = 8, 150
ORGANISATIONS = 12
AWAY_SECONDS = 20.0
UNDER_WAY = 0.1  # of the batches are done when the worker is killed
SETTLE_SECONDS = 120.0


def test_from_clone_to_metrics_and_through_faults(fleet: Project) -> None:
    fleet.variables["CELERY_AUTOSCALE"] = "20,2"
    fleet.up()
    _sync_one(fleet)
    fleet.up("--no-recreate", "--scale", "worker=3")
    workers = fleet.containers("worker")
    assert [worker.health for worker in workers] == ["healthy"] * 3
    assert "--autoscale 20,2" in docker("top", workers[0].name, "-eo", "pid,args")
    _go_through_faults(fleet, workers[1])
    _stop_and_start(fleet)


def _sync_one(fleet: Project) -> None:
    path = fleet.repositories / "app"
    generate(path, commits=COMMITS, branches=2, merge_every=50)
    fleet.dev_hops("orgs", "add", "acme")
    source = fleet.dev_hops("sources", "add", f"{REPOSITORIES}/app", "--org", "acme")
    fleet.dev_hops("sync", source["id"], "--wait")
    wait_for(lambda: all(run["finished_at"] for run in _runs(fleet)) and len(_runs(fleet)) == 2, "its metrics", 30, 0.5)
    assert {run["state"] for run in _runs(fleet)} == {"succeeded"}
    _check_counts(fleet, path)


def _runs(fleet: Project) -> list[dict[str, object]]:
    return list(fleet.dev_hops("runs", "list", "--org", "acme"))


def _check_counts(fleet: Project, path: Path) -> None:
    truth = int(run_git(path, "rev-list", "--all", "--count"))
    metrics = fleet.dev_hops("metrics", "show", "--org", "acme", "--metric", "commits", "--grain", "repo")
    assert (
        sum(int(str(run["records"])) for run in _runs(fleet))
        == sum(row["value"] for row in metrics)
        == truth
        == COMMITS
    )


def _go_through_faults(fleet: Project, doomed: Container) -> None:
    paths = [_repository(fleet, f"r{number}") for number in range(REPOSITORY_COUNT)]
    with fleet.database() as postgres:
        ledger = Ledger.on(postgres, commits=REPOSITORY_COMMITS)
        ledger.add(ORGANISATIONS, paths=paths)
        began = time.monotonic()
        wait_for(lambda: ledger.progress().done >= UNDER_WAY * ledger.batches, "the load is under way", SETTLE_SECONDS)
        doomed.kill()
        _pause_redis(fleet)
        wait_for(ledger.is_settled, "all is done", SETTLE_SECONDS, 0.5)
        took, seen = time.monotonic() - began, ledger.progress()
        assert seen.attempts > 0, "the worker that was killed held nothing"
        ledger.check()
        sys.stdout.write(
            f"\n{ledger.batches} batches in {took:.0f} s through a killed worker and {AWAY_SECONDS:.0f} s without Redis: "
            f"{seen.attempts} taken over, 0 lost, 0 double\n"
        )
    assert len(fleet.containers("worker")) == 2
    fleet.up("--no-recreate", "--scale", "worker=3")
    assert [worker.health for worker in fleet.containers("worker")] == ["healthy"] * 3


def _repository(fleet: Project, name: str) -> Path:
    generate(fleet.repositories / name, commits=REPOSITORY_COMMITS, files=20, files_per_commit=1)
    return Path(REPOSITORIES) / name


def _pause_redis(fleet: Project) -> None:
    (redis,) = fleet.containers("redis")
    docker("pause", redis.name)
    try:
        with pytest.raises(subprocess.TimeoutExpired):  # nothing answers for so long
            subprocess.run(["docker", "wait", redis.name], timeout=AWAY_SECONDS, check=False, capture_output=True)
    finally:
        docker("unpause", redis.name)


def _stop_and_start(fleet: Project) -> None:
    fleet.compose("stop", timeout=60)
    assert fleet.containers("worker") == []
    fleet.up()
    assert "postgres: nothing to do" in fleet.compose("logs", "--no-log-prefix", "--tail", "2", "migrate")
    _check_counts(fleet, fleet.repositories / "app")

"""Files of processes that are no more: added up once, and not read for ever. Real children count."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker_app import telemetry_children

COUNT = """
from worker_app import telemetry
telemetry.TASKS_STARTED.labels("rescue", "scheduler").inc(3)
telemetry.TASK_RUNTIME.labels("rescue").observe(2.0)
telemetry.WORKER_TASKS_ACTIVE.set(1)
telemetry.DISPATCH_LAST_TICK.set({tick})
telemetry.BEAT_LEADER.set(1)
"""


def count(folder: Path, tick: float = 100.0) -> None:
    """A process that counts and ends."""
    environment = {**os.environ, telemetry_children.VARIABLE: str(folder)}
    subprocess.run([sys.executable, "-c", COUNT.format(tick=tick)], env=environment, check=True, timeout=60)


def told(folder: Path) -> dict[str, float]:
    """name -> value, of what has a value."""
    found = telemetry_children.registry(folder).collect()
    return {sample.name.removeprefix("dev_hops_"): sample.value for metric in found for sample in metric.samples}


@pytest.mark.timeout(60)
def test_what_the_dead_have_counted_is_added_up_once(tmp_path: Path) -> None:
    for tick in (300.0, 200.0):
        count(tmp_path, tick)
    for _ in range(2):
        found = told(tmp_path)
        assert found["task_started_total"] == 6
        assert (found["task_runtime_seconds_count"], found["task_runtime_seconds_sum"]) == (2, 4)
        assert found["dispatch_last_tick_timestamp_seconds"] == 300
    assert {path.name for path in tmp_path.glob("*.db")} == {"counter_0.db", "histogram_0.db", "gauge_max_0.db"}


@pytest.mark.timeout(60)
def test_gauges_of_the_dead_and_of_other_kinds_of_process_are_not_told(tmp_path: Path) -> None:
    count(tmp_path)
    found = told(tmp_path)
    assert "worker_tasks_active" not in found
    assert "beat_leader" not in found
    assert found["process_open_fds"] > 0


@pytest.mark.timeout(60)
def test_file_that_its_process_has_only_just_made_takes_nothing_from_the_others(tmp_path: Path) -> None:
    count(tmp_path)
    with subprocess.Popen(["true"]) as dead:
        dead.wait(timeout=10)
    of_dead = [tmp_path / f"{kind}_{dead.pid}.db" for kind in telemetry_children.FOLDS]
    of_living = [tmp_path / f"{kind}_{os.getpid()}.db" for kind in telemetry_children.FOLDS]
    for path in (*of_dead, *of_living):
        path.touch()
    assert told(tmp_path)["task_started_total"] == 3
    assert not any(path.exists() for path in of_dead)
    assert all(path.exists() for path in of_living)


def test_files_of_the_living_stay(tmp_path: Path) -> None:
    living = tmp_path / f"gauge_livesum_{os.getpid()}.db"
    living.touch()
    (tmp_path / "notes.txt").touch()
    telemetry_children.fold_dead(tmp_path)
    assert living.exists()
    telemetry_children.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_only_a_folder_of_our_own_making_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made, given = telemetry_children.new_folder(), tmp_path / "given"
    telemetry_children.clear(given)
    for folder in (made, given):
        telemetry_children.remove(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["given"]

from pathlib import Path

import redis

from worker_app.worker import heartbeat
from worker_app.worker.heartbeat import Heartbeat, ProbeFiles, presence_key


def test_signs_of_life_are_files_of_the_role(tmp_path: Path) -> None:
    files = ProbeFiles(tmp_path / "run", "worker")
    files.alive()
    files.ready(is_ready=True)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["role", "worker.alive", "worker.ready"]
    files.ready(is_ready=False)
    files.ready(is_ready=False)
    assert not (tmp_path / "run/worker.ready").exists()
    assert (tmp_path / "run/role").read_text() == "worker"


def test_folder_that_cannot_be_written_does_not_stop_the_worker(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = ProbeFiles(tmp_path / "file" / "run", "worker")
    files.alive()
    files.ready(is_ready=True)


def test_worker_whose_redis_is_away_for_long_is_not_ready_until_it_is_back(tmp_path: Path) -> None:
    files = ProbeFiles(tmp_path, "worker")
    beat = Heartbeat(files, redis.Redis(port=1), "worker@a", dict)
    beat.takes_work(True)
    assert (tmp_path / "worker.ready").exists()
    beat._heard_at -= heartbeat.CUT_OFF_SECONDS + 1
    beat.takes_work(True)
    assert not (tmp_path / "worker.ready").exists()
    beat._heard_at += heartbeat.CUT_OFF_SECONDS
    beat.takes_work(True)
    assert (tmp_path / "worker.ready").exists()


def test_presence_is_a_key_of_the_node() -> None:
    assert presence_key("worker@a") == "dev-hops/presence/worker@a"

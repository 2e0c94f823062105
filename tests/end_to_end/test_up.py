"""`dev-hops up` as a newcomer uses it: one command, real stores, every role, a real repository."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from tests.command_line import dev_hops
from tests.processes import DEV_HOPS, wait_for
from tests.repositories import Repository, generate
from worker_app.embedded.folder import Folder
from worker_app.embedded.stores import Stores

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(240)]
COMMITS = 300
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Run:
    """Runs `dev-hops` commands beside a folder, with nothing else of this machine's environment."""

    folder: Path
    home: Path

    def __call__(self, *arguments: str, code: int = 0, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [DEV_HOPS, *arguments],
            env=environment(self.folder, self.home),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def ask(self, *arguments: str, code: int = 0) -> Any:
        """The JSON of a verb that only looks, within this process: who waits looks often, while all roles start."""
        done = dev_hops(*arguments, "--json", environment=environment(self.folder, self.home))
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


@contextmanager
def cleared(place: Path) -> Iterator[Path]:
    """The folder of one `up`; whatever still runs in it at the end is stopped, and its data goes."""
    yield place
    if family(place) or Folder(place).read_state():
        subprocess.run([DEV_HOPS, "down", "--dir", str(place)], capture_output=True, timeout=60, check=False)
    Stores(Folder(place)).delete_data()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with cleared(tmp_path / "up") as place:
        yield place


def history(path: Path) -> Path:
    """A repository with branches, merges and a tag."""
    generate(path, commits=COMMITS, branches=3, merge_every=20)
    Repository(path).tag("v1", Repository(path).sha("main"), is_annotated=True)
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return history(tmp_path / "repo.git")


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Run:
    return Run(folder, tmp_path)


def environment(folder: Path, home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "DEV_HOPS_DIR": str(folder), "LANG": "C.UTF-8"}


def document(run: Run, *arguments: str) -> Any:
    """What a verb says as JSON; those that start and stop are processes, as for a newcomer."""
    if arguments[0] in ("up", "down"):
        return json.loads(run(*arguments, "--json").stdout)
    return run.ask(*arguments)


def succeeded(run: Run, kind: str) -> bool:
    return any(item["kind"] == kind and item["state"] == "succeeded" for item in document(run, "runs", "list"))


def synced(run: Run) -> dict[str, Any]:
    """The newest run that was asked for, with the records of all syncs: the schedule may have read some of them first."""
    syncs = [item for item in document(run, "runs", "list") if item["kind"] == "sync"]
    (newest, *_) = (item for item in syncs if item["trigger"] == "manual")
    return {**newest, "records": sum(item["records"] for item in syncs)}


def status_of(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def family(folder: Path) -> list[psutil.Process]:
    """Every process that belongs to the folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in " ".join(process.cmdline()) or Path(process.cwd()).is_relative_to(folder):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def test_repository_becomes_metrics_and_everything_can_be_looked_at(run: Run, folder: Path, repository: Path) -> None:
    summary = document(run, "up", "--detach", "--git", str(repository))
    assert summary["running"]
    assert summary["ready"]
    assert {item["name"] for item in summary["processes"] if item["running"]} == {
        "postgres", "valkey", "worker", "worker-ingest", "worker-heavy", "beat", "api", "flower",
    }  # fmt: skip
    wait_for(lambda: succeeded(run, "metrics"), "the first metrics", 90)

    expected = int(Repository(repository).git("rev-list", "--branches", "--tags", "--count"))
    sync = synced(run)
    assert (sync["state"], sync["source"]) == ("succeeded", str(repository))
    assert sync["records"] == expected == COMMITS
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", sync["finished_at"])
    rows = document(run, "metrics", "show", "--metric", "commits", "--grain", "repo")
    assert sum(row["value"] for row in rows) == expected
    assert set(rows[0]) == {
        "metric", "definition_v", "grain", "grain_id", "day", "value", "num", "den", "n", "coverage", "computed_at",
    }  # fmt: skip
    assert "█" in run("metrics", "show").stdout
    assert run("metrics", "show", "--csv").stdout.startswith("metric,definition_v,grain,")

    (schedule,) = document(run, "schedules", "list")
    assert (schedule["enabled"], schedule["fault"]) == (True, None)
    assert len(document(run, "schedules", "next", schedule["id"], "--count", "3")) == 3
    assert {item["queue"]: item["consumers"] for item in document(run, "queues")}["sync.git"] == 1
    assert document(run, "doctor")["ok"]

    api, flower = summary["addresses"]["status page"], summary["addresses"]["Flower"]
    token, password = _secrets(folder)["api_token"], _secrets(folder)["flower"]
    assert (status_of(api), status_of(api, Authorization=f"Bearer {token}")) == (401, 200)
    for path in ("livez", "readyz", "metrics"):
        assert status_of(api.replace("status", path)) == 200
    basic = "Basic " + b64encode(f"dev-hops:{password}".encode()).decode()
    assert (status_of(flower), status_of(flower, Authorization=basic)) == (401, 200)

    exported = document(run, "env")
    client = redis.Redis.from_url(exported["REDIS_URL"])
    assert client.llen("sync.git") == 0
    client.close()
    assert (folder / "env.json").stat().st_mode & 0o077 == 0

    assert "already" in run("up", "--git", str(repository), code=1).stderr
    began = time.monotonic()
    run("down")
    assert time.monotonic() - began < STOP_SECONDS + 2
    assert family(folder) == []
    assert document(run, "down") == {"stopped": False, "leftovers": []}
    run("status", code=1)


def test_second_start_reads_only_what_is_new(run: Run, repository: Path) -> None:
    run("up", "--detach", "--git", str(repository))
    wait_for(lambda: succeeded(run, "metrics"), "the first metrics", 90)
    run("down")
    Repository(repository).commit({b"new": b"1\n"})
    run("up", "--detach", "--git", str(repository))
    wait_for(lambda: all(item["finished_at"] for item in document(run, "runs", "list")), "the second sync", 60)
    assert synced(run)["records"] == COMMITS + 1
    assert len(document(run, "sources", "list")) == len(document(run, "schedules", "list")) == 1


def test_killed_up_leaves_nothing_that_stops_the_next_one(run: Run, folder: Path, repository: Path) -> None:
    pid = document(run, "up", "--detach", "--git", str(repository))["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not document_or_none(run), "the supervisor is gone")
    assert len(family(folder)) > 5
    run("up", "--detach", "--git", str(repository))
    wait_for(lambda: succeeded(run, "metrics"), "the first metrics", 90)
    assert sum("worker_app" in process.cmdline() and "beat" in process.cmdline() for process in family(folder)) == 1


def document_or_none(run: Run) -> Any:
    return run.ask("status", code=1)["running"]


def test_killed_stores_come_back_where_they_were(run: Run, repository: Path) -> None:
    before = document(run, "up", "--detach", "--git", str(repository))
    wait_for(lambda: succeeded(run, "metrics"), "the first metrics", 90)
    ports = {item["name"]: item["port"] for item in before["processes"]}
    for name in ("valkey", "postgres"):
        (pid,) = [item["pid"] for item in document(run, "status")["processes"] if item["name"] == name]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda gone=pid: not psutil.pid_exists(gone), f"{name} is dead")  # type: ignore[misc]
        wait_for(lambda store=name: _is_running(run, store), f"{name} runs again")  # type: ignore[misc]
    assert {item["name"]: item["port"] for item in document(run, "status")["processes"]} == ports
    Repository(repository).commit({b"new": b"1\n"})
    assert json.loads(run("sync", str(repository), "--wait", "--json").stdout)["state"] == "succeeded"


def _is_running(run: Run, name: str) -> bool:
    return any(item["name"] == name and item["running"] for item in document(run, "status")["processes"])


def test_wrong_setting_in_the_shell_is_refused_before_anything_is_made(folder: Path, tmp_path: Path) -> None:
    given = {**environment(folder, tmp_path), "CELERY_AUTOSCALE": "nonsense"}
    done = subprocess.run(
        [DEV_HOPS, "up", "--detach"], env=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 78
    assert "CELERY_AUTOSCALE is 'nonsense'" in done.stderr
    assert not folder.exists()


def test_interrupt_in_the_terminal_stops_everything_in_time(
    run: Run, folder: Path, repository: Path, tmp_path: Path
) -> None:
    command = [DEV_HOPS, "up", "--git", str(repository)]
    process = subprocess.Popen(
        command,
        env=environment(folder, tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(lambda: Folder(folder).read_env(), "up is ready", 60)
    wait_for(lambda: succeeded(run, "metrics"), "the first metrics", 90)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=STOP_SECONDS + 5)
    assert time.monotonic() - began < STOP_SECONDS
    assert process.returncode == 0, output
    assert family(folder) == []
    assert _secrets(folder)["flower"] not in output


def test_terminal_that_is_closed_stops_everything(folder: Path, repository: Path, tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(DEV_HOPS, [DEV_HOPS, "up", "--git", str(repository)], environment(folder, tmp_path))
    wait_for(lambda: Folder(folder).read_env(), "up is ready", 60)
    os.close(terminal)
    wait_for(lambda: os.waitpid(pid, os.WNOHANG)[0], "up has ended", STOP_SECONDS + 5)
    assert family(folder) == []
    assert Folder(folder).read_state() is None


def test_ports_that_are_taken_are_replaced_and_named(run: Run, folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        summary = document(run, "up", "--detach", "--port", str(port))
    address = summary["addresses"]["status page"]
    assert f":{port}/" not in address
    assert status_of(address.replace("status", "livez")) == 200
    assert f"port {port} is taken: the API listens on" in (folder / "log/up.log").read_text()


def test_stores_alone_are_migrated_and_reached_through_env(run: Run, folder: Path) -> None:
    summary = document(run, "up", "--detach", "--stores")
    assert {item["name"] for item in summary["processes"]} == {"postgres", "valkey"}
    assert "current" in run("migrate", "status", "--check").stdout
    assert run("env").stdout.startswith("export DATABASE_URL='postgresql://")


def test_folder_with_foreign_files_is_refused(run: Run, folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    assert "not from dev-hops" in run("up", "--detach", code=1).stderr
    assert sorted(item.name for item in folder.iterdir()) == ["thesis.txt"]
    (folder / "thesis.txt").unlink()


def _secrets(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "secrets.json").read_text())
    return found

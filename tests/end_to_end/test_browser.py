"""What a person sees in a browser beside `dev-hops up`, and what redis-cli says. Skipped where neither is installed."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_up import Run, cleared, document, history, succeeded
from tests.processes import wait_for

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(240)]

BROWSER_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--virtual-time-budget=15000",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The commands beside one folder, which the tests of this file share: they only look."""
    home = tmp_path_factory.mktemp("home")
    with cleared(home / "up") as folder:
        yield Run(folder, home)


@pytest.fixture(scope="module")
def seen(run: Run) -> Iterator[dict[str, Any]]:
    """A running `up` that has synced a repository."""
    summary = document(run, "up", "--detach", "--git", str(history(run.home / "repo.git")))
    wait_for(lambda: succeeded(run, "metrics"), "the first metrics", 90)
    yield summary
    run("down")


@pytest.fixture
def page(tmp_path: Path) -> Callable[[str], str]:
    """The page at an address as a browser has built it after its scripts ran."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed")

    def load(url: str) -> str:
        command = [program, *BROWSER_FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", url]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    return load


def test_flower_shows_the_workers_and_their_tasks(seen: dict[str, Any], run: Run, page: Callable[[str], str]) -> None:
    password = json.loads((run.folder / "secrets.json").read_text())["flower"]
    base = seen["addresses"]["Flower"].replace("http://", f"http://dev-hops:{password}@")
    nodes = ("worker@", "worker-ingest@", "worker-heavy@")
    wait_for(lambda: all(node in page(f"{base}workers") for node in nodes), "Flower knows the workers", 90)
    tasks = page(f"{base}tasks")
    assert "worker_app.tasks.run_sync_batch" in tasks
    assert "SUCCESS" in tasks


def test_redis_cli_shows_the_queue(seen: dict[str, Any], run: Run) -> None:
    if shutil.which("redis-cli") is None:
        pytest.skip("no redis-cli is installed")
    exported = document(run, "env")
    command = ["redis-cli", "-p", exported["REDIS_PORT"], "llen", "sync.git"]
    environment = {"REDISCLI_AUTH": exported["REDISCLI_AUTH"], "PATH": "/usr/bin:/bin"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=10, check=True)
    assert answer.stdout.strip() == "0"

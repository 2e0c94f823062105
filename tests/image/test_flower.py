"""Flower from the image: who may see it, what it refuses, what it keeps, and what a browser shows."""

import shutil
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

import pytest

from tests.containers import IMAGE, Container, Yard, docker, refuse, wait_for
from tests.image.browser import dom
from tests.image.slow_sync import GIT, slow_sync
from tests.image.stage import PASSWORD, Stage

AUTH = f"ops:{PASSWORD}"


@pytest.fixture
def flower(stage: Stage) -> Container:
    container = stage.role("flower", FLOWER_BASIC_AUTH=AUTH)
    container.wait_healthy()
    return container


def asked(flower: Container, path: str, *, auth: str = "", is_post: bool = False) -> int:
    """With what status Flower answers."""
    headers = {"Authorization": "Basic " + b64encode(auth.encode()).decode()} if auth else {}
    url = f"http://{flower.address}:5555{path}"
    request = urllib.request.Request(url, headers=headers, data=b"" if is_post else None)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_flower_opens_to_its_credentials_alone(flower: Container) -> None:
    for path in ("/", "/workers", "/tasks", "/broker", "/api/workers", "/api/tasks"):
        assert asked(flower, path) == 401, path
        assert asked(flower, path, auth="ops:wrong") == 401, path
    assert [asked(flower, path, auth=AUTH) for path in ("/workers", "/tasks", "/broker", "/api/tasks")] == [200] * 4
    assert [asked(flower, path) for path in ("/healthcheck", "/metrics")] == [200, 200]


def test_flower_changes_nothing_unless_told_that_it_may(stage: Stage, flower: Container) -> None:
    worker = stage.worker()
    name = f"worker@{worker.inspect()['Config']['Hostname']}"
    paths = (
        f"/api/worker/shutdown/{name}",
        f"/api/worker/pool/restart/{name}",
        f"/api/worker/pool/grow/{name}?n=1",
        f"/api/worker/queue/cancel-consumer/{name}?queue=sync",
        "/api/task/apply/worker_app.tasks.rescue",
        "/api/task/async-apply/worker_app.tasks.rescue",
        "/api/task/send-task/worker_app.tasks.rescue",
        "/api/task/revoke/0",
        "/api/task/abort/0",
    )
    for path in paths:
        assert asked(flower, path, is_post=True) in (401, 403), path
        assert asked(flower, path, auth=AUTH, is_post=True) == 403, path
    assert worker.state["Running"]
    free = stage.role("flower", FLOWER_BASIC_AUTH=AUTH, FLOWER_READ_ONLY="false")
    free.wait_healthy()
    wait_for(
        lambda: asked(free, f"/api/worker/shutdown/{name}", auth=AUTH, is_post=True) == 200, "it shuts the worker down"
    )
    assert worker.exit_code() == 0


def test_flower_without_credentials_ends_with_78(images: Yard) -> None:
    for auth in ("", "ops", "ops:a,b"):
        code, said = images.finished(IMAGE, "flower", environment={"FLOWER_BASIC_AUTH": auth})
        assert code == 78
        (line,) = said.splitlines()
        assert "FLOWER_BASIC_AUTH" in line


def test_flower_keeps_a_bounded_number_of_tasks(flower: Container) -> None:
    (line,) = [
        line
        for line in docker("top", flower.name, "-eo", "pid,args").splitlines()
        if " flower " in line and "celery" in line
    ]
    assert "--max_tasks=10000" in line
    assert "--purge_offline_workers=600" in line
    assert "--read_only=true" in line
    assert PASSWORD not in line


def test_browser_shows_workers_and_tasks(stage: Stage, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        refuse("no Chromium is installed")
        return
    flower = stage.role("flower", FLOWER_BASIC_AUTH="ops:secret")
    flower.wait_healthy()
    with slow_sync(stage) as sync:
        worker = stage.worker(options=sync.options, WORKER_SEND_TASK_EVENTS="true", CELERY_AUTOSCALE="20,2", **GIT)
        sync.ask()
        sync.wait_for_its_end()
        name = f"worker@{worker.inspect()['Config']['Hostname']}"
        base = f"http://ops:secret@{flower.address}:5555"
        wait_for(lambda: name in dom(browser, tmp_path, f"{base}/workers"), "the worker is shown")
        shown = dom(browser, tmp_path, f"{base}/tasks")
    assert "worker_app.tasks.run_sync_batch" in shown
    assert "SUCCESS" in shown

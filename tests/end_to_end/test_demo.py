"""`dev-hops up --demo` as a newcomer without a token uses it: a provider with small limits is read to the end, and respected."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_up import Run, document, family, folder, run
from tests.processes import wait_for

__all__ = ["folder", "run"]  # fixtures
pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(240)]

HOST = "github.localhost"


def closed(run: Run) -> list[dict[str, Any]]:
    return [item for item in document(run, "gate", "list", "--closed") if item["host"] == HOST]


def syncs(run: Run) -> list[dict[str, Any]]:
    return [item for item in document(run, "runs", "list") if item["kind"] == "sync"]


def metrics_when_covered(run: Run, before: str) -> list[dict[str, Any]]:
    """The metrics of every repository once all days before a date are known to be read to their end."""
    rows: list[dict[str, Any]] = document(run, "metrics", "show", "--org", "demo", "--grain", "repo")
    return rows if {row["coverage"] for row in rows if row["day"] < before} == {1.0} else []


def page(summary: dict[str, Any], folder: Path) -> str:
    token = json.loads((folder / "secrets.json").read_text())["api_token"]
    asked = urllib.request.Request(summary["addresses"]["status page"], headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return str(answer.read().decode())


def test_limited_provider_is_read_to_the_end_and_its_limits_can_be_seen(run: Run, folder: Path) -> None:
    summary = document(run, "up", "--demo", "--detach")
    assert "GitHub (demo)" in summary["addresses"]
    first = wait_for(lambda: closed(run), "a gate is closed", 60)[0]
    assert (first["provider"], first["org"], first["bucket"], first["reason"]) == ("github", "demo", "*", "secondary")
    shown = page(summary, folder)
    assert "1 closed of 1" in shown
    assert "secondary rate limit" in shown

    for item in syncs(run):
        run("runs", "watch", item["id"], timeout=150)
    names = {item["external_name"] for item in document(run, "sources", "list")}
    assert len(names) == 4
    assert {(item["state"], item["source"]) for item in syncs(run) if item["trigger"] == "manual"} == {
        ("succeeded", name) for name in names
    }
    done = syncs(run)
    assert all(item["batches_failed"] == 0 and item["attempt"] == 0 for item in done)
    began_on = done[-1]["created_at"][:10]
    rows = wait_for(lambda: metrics_when_covered(run, began_on), "metrics of whole days", 30)
    assert {row["grain_id"].rpartition("/")[0] for row in rows} == {f"github/{HOST}"}
    log = (folder / "log/worker.log").read_text()
    assert "gate.opened" in log
    assert "gate.leaked" not in log
    run("down")
    assert family(folder) == []

    run("up", "--detach")  # the folder has a demo now, so it goes on with it
    *_, oldest = [item for item in syncs(run) if item["id"] not in {known["id"] for known in done}]
    run("runs", "watch", oldest["id"], timeout=90)
    assert [len(document(run, what, "list")) for what in ("sources", "schedules", "credentials")] == [4, 1, 1]
    run("down")
    assert family(folder) == []

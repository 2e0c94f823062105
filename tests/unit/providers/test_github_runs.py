from datetime import UTC, datetime
from typing import Any

import pytest

from worker_app import records
from worker_app.providers import github_runs

DAY = [datetime(2026, 3, day, tzinfo=UTC) for day in range(1, 10)]


def row(**changes: Any) -> dict[str, Any]:
    return {
        "id": 9007199254740993,
        "name": "ci",
        "head_branch": "main",
        "head_sha": "a1",
        "run_attempt": 2,
        "status": "completed",
        "conclusion": "success",
        "created_at": "2026-03-01T00:00:00Z",
        "run_started_at": "2026-03-02T00:00:00Z",
        "updated_at": "2026-03-03T00:00:00Z",
        **changes,
    }


def test_f30_run_with_a_big_id_is_mapped() -> None:
    assert github_runs.pipeline_run(row(), "42") == records.PipelineRun(
        "9007199254740993", 2, "42", "ci", "main", "a1", "succeeded", DAY[0], DAY[2], DAY[1], DAY[2]
    )


@pytest.mark.parametrize(
    ("status", "conclusion", "expected"),
    [
        ("queued", None, "queued"),
        ("requested", None, "queued"),
        ("waiting", None, "queued"),
        ("pending", None, "queued"),
        (None, None, "queued"),
        ("in_progress", None, "running"),
        ("completed", "success", "succeeded"),
        ("completed", "neutral", "succeeded"),
        ("completed", "failure", "failed"),
        ("completed", "timed_out", "failed"),
        ("completed", "startup_failure", "failed"),
        ("completed", "cancelled", "cancelled"),
        ("completed", "stale", "cancelled"),
        ("completed", "skipped", "skipped"),
        ("completed", "action_required", "skipped"),
        ("completed", "a word of tomorrow", "skipped"),
        ("completed", None, "skipped"),
    ],
)
def test_status_is_one_of_ours(status: str | None, conclusion: str | None, expected: str) -> None:
    found = github_runs.pipeline_run(row(status=status, conclusion=conclusion), "42")

    assert found.status == expected
    assert (found.finished_at is None) == (status != "completed")


def test_old_server_shows_no_attempt_and_no_start() -> None:
    old = {name: value for name, value in row().items() if name not in {"run_attempt", "run_started_at", "name"}}

    found = github_runs.pipeline_run(old, "42")

    assert (found.attempt, found.started_at, found.name) == (1, None, None)

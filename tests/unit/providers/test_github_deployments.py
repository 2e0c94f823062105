from datetime import UTC, datetime
from typing import Any

import pytest

from worker_app.providers import github_deployments

DAY = [datetime(2026, 3, day, tzinfo=UTC) for day in range(1, 10)]


def row(**changes: Any) -> dict[str, Any]:
    return {
        "id": 2310943199,
        "sha": "a1",
        "environment": "production",
        "production_environment": True,
        "created_at": "2026-03-01T00:00:00Z",
        "updated_at": "2026-03-01T00:00:00Z",
        **changes,
    }


def step(state: str, day: int) -> dict[str, Any]:
    at = f"2026-03-0{day}T00:00:00Z"
    return {"id": day, "state": state, "created_at": at, "updated_at": at}


@pytest.mark.parametrize(
    ("states", "status", "finished_on"),
    [
        ([], "pending", None),
        (["queued"], "pending", None),
        (["in_progress", "queued"], "running", None),
        (["success", "in_progress"], "succeeded", 3),
        (["failure", "in_progress"], "failed", 3),
        (["error"], "failed", 2),
        (["inactive", "success", "in_progress"], "succeeded", 3),
        (["inactive"], "inactive", None),
        (["in_progress", "failure"], "running", None),
    ],
)
def test_newest_status_that_tells_something_counts(states: list[str], status: str, finished_on: int | None) -> None:
    newest_first = [step(state, len(states) + 1 - place) for place, state in enumerate(states)]

    found = github_deployments.deployment(row(), newest_first, "42")

    assert found.status == status
    assert found.finished_at == (DAY[finished_on - 1] if finished_on else None)
    assert found.updated_at == DAY[len(states)]


def test_order_in_which_statuses_come_does_not_matter() -> None:
    steps = [step("in_progress", 2), step("success", 3), step("inactive", 4)]

    assert github_deployments.deployment(row(), steps, "42").status == "succeeded"


def test_deployment_is_grouped_by_environment_and_commit() -> None:
    found = github_deployments.deployment(row(), [], "42")

    assert (found.ext_id, found.group_key, found.env_class) == ("2310943199", "production@a1", "production")


@pytest.mark.parametrize(
    ("name", "flag", "expected"),
    [
        ("production", False, "production"),
        ("Prod-EU", False, "production"),
        ("anything", True, "production"),
        ("live", False, "production"),
        ("staging", False, "staging"),
        ("preprod", False, "staging"),
        ("pre-production", False, "staging"),
        ("nonprod", False, "staging"),
        ("uat-2", False, "staging"),
        ("qa", False, "staging"),
        ("latest", False, "other"),
        ("products", False, "other"),
        ("test-3", False, "staging"),
        ("github-pages", False, "other"),
        ("pr-12", False, "other"),
    ],
)
def test_environment_has_a_class(name: str, flag: bool, expected: str) -> None:
    assert github_deployments.env_class(name, is_production=flag) == expected

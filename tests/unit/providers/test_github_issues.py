from datetime import UTC, datetime
from typing import Any

import pytest

from tests.github_answers import SOURCE
from worker_app import records
from worker_app.providers import github_issues

DAY = [datetime(2026, 3, day, tzinfo=UTC) for day in range(1, 10)]
ADA = {"__typename": "User", "login": "ada", "id": "U_1"}


def row(**changes: Any) -> dict[str, Any]:
    return {
        "id": 2**53 + 1,
        "node_id": "I_1",
        "number": 12,
        "state": "open",
        "state_reason": None,
        "assignee": {"login": "ada", "node_id": "U_1", "type": "User"},
        "created_at": "2026-03-01T00:00:00Z",
        "updated_at": "2026-03-02T00:00:00Z",
        "closed_at": None,
        **changes,
    }


def event(kind: str, day: int, reason: str | None = None, actor: Any = None) -> dict[str, Any]:
    return {
        "__typename": kind,
        "id": f"E_{day}",
        "createdAt": f"2026-03-0{day}T00:00:00Z",
        "stateReason": reason,
        "actor": actor,
    }


def test_f30_open_issue_with_a_big_id_is_to_do() -> None:
    assert github_issues.work_item(row(), SOURCE, "acme/api", has_history=True) == records.WorkItem(
        ext_id="9007199254740993",
        key="acme/api#12",
        project_ext_id="42",
        type=None,
        status="open",
        status_category="todo",
        resolution=None,
        assignee_ext_id="U_1",
        points=None,
        created_at=DAY[0],
        updated_at=DAY[1],
        resolved_at=None,
        history_complete=True,
    )


@pytest.mark.parametrize(
    ("reason", "category"),
    [(None, "done"), ("completed", "done"), ("not_planned", "dropped"), ("duplicate", "dropped")],
)
def test_closed_issue_is_done_or_dropped(reason: str | None, category: str) -> None:
    closed = row(state="closed", state_reason=reason, closed_at="2026-03-03T00:00:00Z", type={"name": "Bug"})

    found = github_issues.work_item(closed, SOURCE, "acme/api", has_history=False)

    assert (found.status, found.status_category, found.resolution, found.resolved_at) == (
        "closed", category, reason, DAY[2],
    )  # fmt: skip
    assert (found.type, found.history_complete) == ("Bug", False)


def test_reopened_issue_has_no_resolution() -> None:
    found = github_issues.work_item(row(state_reason="reopened"), SOURCE, "acme/api", has_history=True)

    assert (found.status_category, found.resolution) == ("todo", None)


def test_transitions_follow_each_other() -> None:
    events = [event("ClosedEvent", 4), event("ClosedEvent", 2, "NOT_PLANNED", ADA), event("ReopenedEvent", 3)]

    found = list(github_issues.transitions(row(), events))

    assert [(step.from_category, step.to_category, step.at) for step in found] == [
        ("todo", "dropped", DAY[1]), ("dropped", "todo", DAY[2]), ("todo", "done", DAY[3]),
    ]  # fmt: skip
    assert [(step.from_status, step.to_status) for step in found] == [
        ("open", "closed"), ("closed", "open"), ("open", "closed"),
    ]  # fmt: skip
    assert [step.actor_ext_id for step in found] == ["U_1", None, None]
    assert {step.item_ext_id for step in found} == {"9007199254740993"}


def test_pull_request_among_issues_is_seen() -> None:
    assert github_issues.is_pull_request(row(pull_request={"url": "u"}))
    assert not github_issues.is_pull_request(row())
    assert not github_issues.is_pull_request(row(pull_request=None))

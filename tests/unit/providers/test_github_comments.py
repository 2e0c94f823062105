from datetime import UTC, datetime
from typing import Any

import pytest

from worker_app import records
from worker_app.providers import github_comments


def row(**changes: Any) -> dict[str, Any]:
    return {
        "id": 2310943199,
        "pull_request_url": "https://api.github.com/repos/acme/api/pulls/12",
        "user": {"login": "ada", "node_id": "U_1", "type": "User"},
        "commit_id": "new",
        "original_commit_id": "old",
        "created_at": "2026-03-01T00:00:00Z",
        "updated_at": "2026-03-02T00:00:00Z",
        **changes,
    }


def test_comment_is_mapped() -> None:
    assert github_comments.comment(row(), "7") == records.Review(
        ext_id="2310943199",
        kind="comment",
        pr_ext_id="7",
        reviewer_ext_id="U_1",
        reviewer_is_bot=False,
        state="commented",
        commit_sha="old",
        submitted_at=datetime(2026, 3, 1, tzinfo=UTC),
        updated_at=datetime(2026, 3, 2, tzinfo=UTC),
    )


@pytest.mark.parametrize("user", [None, {"login": "ghost", "node_id": "U_10137", "type": "User"}])
def test_f20_f21_comment_of_nobody_is_mapped(user: Any) -> None:
    found = github_comments.comment(row(user=user), "7")

    assert (found.reviewer_ext_id, found.reviewer_is_bot) == (None, None)


def test_pull_request_is_named_by_number() -> None:
    assert github_comments.pull_number(row()) == 12

from datetime import UTC, datetime
from typing import Any

import pytest

from worker_app import records
from worker_app.providers import github_pulls

DAY = [datetime(2026, 3, day, tzinfo=UTC) for day in range(1, 10)]
ADA = {"__typename": "User", "login": "ada", "id": "U_1"}
BOT = {"__typename": "Bot", "login": "deploy", "id": "BOT_1"}


def node(**changes: Any) -> dict[str, Any]:
    return {
        "id": "PR_1",
        "fullDatabaseId": "2310943199",
        "number": 7,
        "title": "Do it",
        "body": "",
        "state": "MERGED",
        "isDraft": False,
        "createdAt": "2026-03-01T00:00:00Z",
        "updatedAt": "2026-03-05T00:00:00Z",
        "mergedAt": "2026-03-04T00:00:00Z",
        "closedAt": "2026-03-04T00:00:00Z",
        "additions": 5,
        "deletions": 2,
        "headRefOid": "a1",
        "headRefName": "change-7",
        "baseRefName": "main",
        "mergeCommit": {"oid": "m1"},
        "author": ADA,
        "commits": {"totalCount": 2},
        **changes,
    }


def test_pull_request_is_mapped() -> None:
    assert github_pulls.pull_request(node(), "42", is_complete=True) == records.PullRequest(
        ext_id="2310943199",
        repo_ext_id="42",
        number=7,
        title="Do it",
        author_ext_id="U_1",
        author_is_bot=False,
        state="merged",
        is_draft=False,
        created_at=DAY[0],
        updated_at=DAY[4],
        merged_at=DAY[3],
        closed_at=DAY[3],
        head_sha="a1",
        merge_sha="m1",
        head_ref="change-7",
        base_ref="main",
        commits_total=2,
        additions=5,
        deletions=2,
        reverts_number=None,
        detail_complete=True,
    )


def test_f21_ghost_without_merge_commit_is_mapped() -> None:
    found = github_pulls.pull_request(
        node(author=None, mergeCommit=None, mergedAt=None, closedAt=None, state="OPEN"), "42", is_complete=False
    )

    assert (found.author_ext_id, found.author_is_bot, found.merge_sha, found.merged_at) == (None, None, None, None)
    assert (found.state, found.detail_complete) == ("open", False)


@pytest.mark.parametrize(
    ("branch", "title", "body", "number"),
    [
        ("revert-12-change", 'Revert "Do it"', "Reverts acme/api#12", 12),
        ("revert-12-change", "Take it back", "", 12),
        ("mine", "Take it back", "Reverts acme/api#13", 13),
        ("mine", "Take it back", "reverts #14", 14),
        ("mine", 'Revert "Do it"', "", 0),
        ("mine", "Take it back", "This reverts commit abc.", 0),
        ("mine", "Do it", "nothing is reverted here #12", None),
        ("not-revert-12-x", "Do it", "", None),
    ],
)
def test_revert_is_seen_by_branch_body_or_title(branch: str, title: str, body: str, number: int | None) -> None:
    assert github_pulls.reverts_number(branch, title, body) == number


def test_commits_keep_their_order_and_come_once() -> None:
    shown = [{"commit": {"oid": sha, "authoredDate": "2026-03-01T00:00:00Z"}} for sha in ("a", "b", "a", "c")]

    found = list(github_pulls.commits(node(), shown))

    assert [(commit.ordinal, commit.ext_id) for commit in found] == [(0, "a"), (1, "b"), (2, "c")]
    assert {(commit.pr_ext_id, commit.authored_at, commit.updated_at) for commit in found} == {
        ("2310943199", DAY[0], DAY[4])
    }


def review(**changes: Any) -> dict[str, Any]:
    return {
        "fullDatabaseId": "9007199254740993",
        "state": "APPROVED",
        "submittedAt": "2026-03-02T00:00:00Z",
        "updatedAt": "2026-03-03T00:00:00Z",
        "commit": {"oid": "a1"},
        "author": BOT,
        **changes,
    }


def test_f30_review_with_a_big_id_is_mapped() -> None:
    assert list(github_pulls.reviews(node(), [review()])) == [
        records.Review(
            "9007199254740993", "review", "2310943199", "BOT_1", True, "approved", "a1", DAY[1], DAY[2]
        )
    ]  # fmt: skip


def test_f28_pending_review_has_no_time() -> None:
    (found,) = github_pulls.reviews(node(), [review(state="PENDING", submittedAt=None, commit=None, author=None)])

    assert (found.state, found.submitted_at, found.commit_sha, found.reviewer_ext_id) == ("pending", None, None, None)


@pytest.mark.parametrize(
    ("typename", "kind"),
    [
        ("ReadyForReviewEvent", "ready"),
        ("ConvertToDraftEvent", "draft"),
        ("ClosedEvent", "closed"),
        ("ReopenedEvent", "reopened"),
        ("MergedEvent", "merged"),
        ("ReviewRequestedEvent", "review_requested"),
    ],
)
def test_event_is_mapped(typename: str, kind: str) -> None:
    shown = {"__typename": typename, "id": "E_1", "createdAt": "2026-03-02T00:00:00Z", "actor": None}

    assert list(github_pulls.events(node(), [shown])) == [
        records.PullRequestEvent("E_1", "2310943199", kind, None, DAY[1], DAY[1])
    ]


def test_event_that_nobody_asked_for_is_left_out() -> None:
    assert list(github_pulls.events(node(), [{"__typename": "LabeledEvent"}])) == []

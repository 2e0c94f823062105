"""Pull requests one by one, with reviews, commits and comments, as REST shows them: how a reader without GraphQL walks."""

from typing import Any

from worker_app.demo import answers, rest_commits, rest_threads
from worker_app.demo.messages import Response
from worker_app.demo.rest_accounts import account, maybe_stamp, stamp
from worker_app.demo.rest_lists import Visit
from worker_app.demo.rest_repositories import page_of, repository, url_of
from worker_app.demo.rest_threads import Names
from worker_app.demo.things import Account, PullRequest, Repository, Review

SHARED = (  # with the pull request as an issue
    *("node_id", "number", "state", "locked", "title", "user", "body", "labels", "milestone", "assignee", "assignees"),
    *("created_at", "updated_at", "closed_at", "author_association", "active_lock_reason", "draft", "comments"),
)
COMMITS_MOST = 250  # that the list of a pull request's commits ever shows


def pull(visit: Visit) -> Response:
    """`GET /pulls/{pull_number}`."""
    found = _found(visit)
    return answers.not_found() if found is None else Response(200, _pull(found, visit.repository, visit.names))


def reviews(visit: Visit) -> Response:
    """`GET /pulls/{pull_number}/reviews`: the oldest first, a pending one for its author alone."""
    found = _found(visit)
    if found is None:
        return answers.not_found()
    shown = [one for one in found.reviews if one.state != "PENDING" or one.author is visit.viewer]
    return visit.page(
        shown, lambda one: _review(one, found, visit.repository, visit.names), f"/pulls/{found.number}/reviews"
    )


def commits(visit: Visit) -> Response:
    """`GET /pulls/{pull_number}/commits`: at most 250, without a word about the others."""
    found = _found(visit)
    if found is None:
        return answers.not_found()
    return visit.page(
        found.commits[:COMMITS_MOST],
        lambda one: rest_commits.commit(one, visit.repository, visit.names),
        f"/pulls/{found.number}/commits",
    )


def comments(visit: Visit) -> Response:
    """`GET /pulls/{pull_number}/comments`: on its code, the oldest first."""
    found = _found(visit)
    if found is None:
        return answers.not_found()
    return visit.page(
        found.comments,
        lambda one: rest_threads.review_comment(one, found, visit.repository, visit.names),
        f"/pulls/{found.number}/comments",
    )


def requested_reviewers(visit: Visit) -> Response:
    """`GET /pulls/{pull_number}/requested_reviewers`."""
    found = _found(visit)
    if found is None:
        return answers.not_found()
    return Response(200, {"users": [account(one, visit.names.base_url) for one in _requested(found)], "teams": []})


def _found(visit: Visit) -> PullRequest | None:
    return visit.repository.pulls.get(visit.numbers[0])


def _requested(found: PullRequest) -> list[Account]:
    """Who was asked and has not reviewed."""
    asked = [event.subject for event in found.events if event.kind == "review_requested" and event.subject]
    return [one for one in asked if all(review.author is not one for review in found.reviews)]


def _pull(found: PullRequest, within: Repository, names: Names) -> dict[str, Any]:
    here = url_of(within, names.base_url)
    url, page, issue = (
        f"{here}/pulls/{found.number}",
        f"{page_of(within)}/pull/{found.number}",
        f"{here}/issues/{found.number}",
    )
    links = {
        "self": url,
        "html": page,
        "issue": issue,
        "comments": f"{issue}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{here}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{here}/statuses/{found.head_sha}",
    }
    shown = rest_threads.issue(found, within, names)
    return {
        "url": url,
        "id": found.id,
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": issue,
        **{name: shown[name] for name in SHARED},
        "merged_at": maybe_stamp(found.merged_at),
        "merge_commit_sha": found.merge_sha,
        "requested_reviewers": [account(one, names.base_url) for one in _requested(found)],
        "requested_teams": [],
        **{
            f"{name}_url": links[name]
            for name in ("commits", "review_comments", "review_comment", "comments", "statuses")
        },
        "head": _end(found.head_ref, found.head_sha, within, names),
        "base": _end(found.base_ref, found.base_sha, within, names),
        "_links": {name: {"href": link} for name, link in links.items()},
        "auto_merge": None,
        "merged": found.merged_at is not None,
        "mergeable": None,
        "rebaseable": None,
        "mergeable_state": "unknown",
        "merged_by": names.nobody(found.merged_by),
        "review_comments": len(found.comments),
        "maintainer_can_modify": False,
        "commits": len(found.commits),
        "additions": sum(commit.additions for commit in found.commits),
        "deletions": sum(commit.deletions for commit in found.commits),
        "changed_files": max(commit.files for commit in found.commits),
    }


def _end(ref: str, sha: str, within: Repository, names: Names) -> dict[str, Any]:
    return {
        "label": f"{within.owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": account(within.owner, names.base_url),
        "repo": repository(within, names.base_url),
    }


def _review(found: Review, parent: PullRequest, within: Repository, names: Names) -> dict[str, Any]:
    pull_url = f"{url_of(within, names.base_url)}/pulls/{parent.number}"
    page = f"{page_of(within)}/pull/{parent.number}#pullrequestreview-{found.id}"
    submitted = {"submitted_at": stamp(found.submitted_at)} if found.submitted_at else {}
    return {
        "id": found.id,
        "node_id": found.node_id,
        "user": names.user(found.author),
        "body": found.body,
        "state": found.state,
        "html_url": page,
        "pull_request_url": pull_url,
        "author_association": "MEMBER",
        "_links": {"html": {"href": page}, "pull_request": {"href": pull_url}},
        **submitted,
        "commit_id": found.sha,
    }

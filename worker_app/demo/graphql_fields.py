"""GraphQL fields: how each field of the reduced schema is read from the world. A ghost is null here, as at GitHub."""

from collections.abc import Callable
from typing import Any

from worker_app.demo import graphql_lists, graphql_roots
from worker_app.demo.connections import error
from worker_app.demo.graphql_lists import ITEM_TYPES, Call, PullCommit
from worker_app.demo.node_ids import node_id
from worker_app.demo.rest_accounts import maybe_stamp, stamp
from worker_app.demo.rest_repositories import page_of
from worker_app.demo.things import Account, Commit, Event, Issue, PullRequest, Repository, Review, ReviewComment, Thread

Field = Callable[..., Any]  # (thing, call, **arguments)


def type_of(thing: object) -> str:
    """The name of a thing's GraphQL type."""
    if isinstance(thing, Account):
        return thing.kind
    if isinstance(thing, Event):
        return ITEM_TYPES[thing.kind][0]
    return {
        Review: "PullRequestReview",
        ReviewComment: "PullRequestReviewComment",
        PullCommit: "PullRequestCommit",
    }.get(type(thing), type(thing).__name__)


def _repository_of(thing: Any, call: Call) -> Repository:
    found = call.world.places[thing.node_id].repository
    assert found is not None
    return found


def _pull_of(thing: Any, call: Call) -> PullRequest:
    found = call.world.places[thing.node_id].thread
    assert isinstance(found, PullRequest)
    return found


def _commit(sha: str | None, thing: Any, call: Call) -> Commit | None:
    return _repository_of(thing, call).commits.get(sha) if sha else None


def _page(thing: Any, call: Call) -> str:
    kind = "pull" if isinstance(thing, PullRequest) else "issues"
    return f"{page_of(_repository_of(thing, call))}/{kind}/{thing.number}"


def _state_reason(issue: Thread, _: Call, *, enableDuplicate: bool = False) -> str | None:  # noqa: N803 - GitHub's name
    reason = issue.state_reason.upper() if issue.state_reason else None
    return None if reason == "DUPLICATE" and not enableDuplicate else reason


NUMBERED: dict[str, Field] = {
    "id": lambda thing, _: thing.node_id,
    "databaseId": lambda thing, _: thing.id,
    "fullDatabaseId": lambda thing, _: str(thing.id),
}
THREAD: dict[str, Field] = {
    **NUMBERED,
    "number": lambda thread, _: thread.number,
    "title": lambda thread, _: thread.title,
    "body": lambda thread, _: thread.body or "",
    "author": lambda thread, _: thread.author,
    "createdAt": lambda thread, _: stamp(thread.created_at),
    "updatedAt": lambda thread, _: stamp(thread.updated_at),
    "closedAt": lambda thread, _: maybe_stamp(thread.closed_at),
    "closed": lambda thread, _: thread.state == "closed",
    "repository": _repository_of,
    "timelineItems": graphql_lists.timeline,
    "url": _page,
}
ACCOUNT: dict[str, Field] = {
    **NUMBERED,
    "login": lambda account, _: account.login.removesuffix("[bot]"),
    "name": lambda _account, _: None,
    "url": lambda account, _: f"https://github.com/{account.login}",
}
EVENT: dict[str, Field] = {
    "id": lambda event, _: event.node_id,
    "actor": lambda event, _: event.actor,
    "createdAt": lambda event, _: stamp(event.at),
    "pullRequest": _pull_of,
}
WRITTEN: dict[str, Field] = {
    **NUMBERED,
    "author": lambda thing, _: thing.author,
    "body": lambda thing, _: thing.body,
    "commit": lambda thing, call: _commit(thing.sha, thing, call),
    "createdAt": lambda thing, _: stamp(thing.created_at),
    "updatedAt": lambda thing, _: stamp(thing.updated_at),
    "pullRequest": _pull_of,
    "url": lambda thing, call: f"{_page(_pull_of(thing, call), call)}#{thing.node_id}",
}


def _person(commit: Commit, at: object) -> dict[str, Any]:
    return {"date": at, "email": commit.author_email, "name": commit.author_name, "user": _user(commit.author)}


def _user(account: Account | None) -> Account | None:
    """The account where the schema has room for a person alone."""
    return account if account and account.kind == "User" else None


def _ref(repository: Repository, _: Call) -> dict[str, Any] | None:
    """The default branch; None where the repository is empty."""
    if repository.head is None:
        return None
    return {
        "id": node_id("REF", repository.id),
        "name": repository.default_branch,
        "prefix": "refs/heads/",
        "target": repository.commits[repository.head],
    }


def _named_ref(repository: Repository, call: Call, *, qualifiedName: str) -> dict[str, Any] | None:  # noqa: N803
    names = {repository.default_branch, f"refs/heads/{repository.default_branch}"}
    return _ref(repository, call) if qualifiedName in names else None


def _object(repository: Repository, _: Call, *, oid: str | None = None, expression: str | None = None) -> Commit | None:
    wanted = oid or expression
    if wanted in {"HEAD", repository.default_branch}:
        wanted = repository.head
    return repository.commits.get(wanted) if wanted else None


FIELDS: dict[str, dict[str, Field]] = {
    "Query": {
        "node": graphql_roots.node,
        "nodes": graphql_roots.nodes,
        "repository": graphql_roots.repository,
        "organization": graphql_roots.organization,
        "viewer": lambda _, call: call.viewer,
        "rateLimit": lambda _, call, **__: call.rate(),
    },
    "User": ACCOUNT,
    "Bot": ACCOUNT,
    "Mannequin": ACCOUNT,
    "Organization": {**ACCOUNT, "repositories": graphql_lists.repositories},
    "Repository": {
        **NUMBERED,
        "name": lambda repository, _: repository.name,
        "nameWithOwner": lambda repository, _: repository.full_name,
        "owner": lambda repository, _: repository.owner,
        "isArchived": lambda repository, _: repository.is_archived,
        "isPrivate": lambda repository, _: repository.is_private,
        "isEmpty": lambda repository, _: repository.head is None,
        "isFork": lambda *_: False,
        "isDisabled": lambda *_: False,
        "hasIssuesEnabled": lambda repository, _: repository.has_issues,
        "createdAt": lambda repository, _: stamp(repository.created_at),
        "updatedAt": lambda repository, _: stamp(repository.updated_at),
        "pushedAt": lambda repository, _: stamp(repository.pushed_at),
        "url": lambda repository, _: page_of(repository),
        "defaultBranchRef": _ref,
        "ref": _named_ref,
        "object": _object,
        "pullRequests": graphql_lists.pulls,
        "issues": graphql_lists.issues,
        "pullRequest": lambda repository, _, *, number: _numbered(repository.pulls, "PullRequest", number),
        "issue": lambda repository, _, *, number: _numbered(repository.issues, "Issue", number),
    },
    "Commit": {
        "id": lambda commit, _: commit.node_id,
        "oid": lambda commit, _: commit.sha,
        "abbreviatedOid": lambda commit, _: commit.sha[:7],
        "message": lambda commit, _: commit.message,
        "messageHeadline": lambda commit, _: commit.message.partition("\n")[0],
        "authoredDate": lambda commit, _: stamp(commit.authored_at),
        "committedDate": lambda commit, _: stamp(commit.committed_at),
        "additions": lambda commit, _: commit.additions,
        "deletions": lambda commit, _: commit.deletions,
        "changedFiles": lambda commit, _: commit.files,
        "changedFilesIfAvailable": lambda commit, _: commit.files,
        "author": lambda commit, _: _person(commit, stamp(commit.authored_at)),
        "committer": lambda commit, _: _person(commit, stamp(commit.committed_at)),
        "parents": graphql_lists.commits_of,
        "history": graphql_lists.history,
        "url": lambda commit, call: f"{page_of(_repository_of(commit, call))}/commit/{commit.sha}",
    },
    "PullRequest": {
        **THREAD,
        "state": lambda pull, _: graphql_lists.pull_state(pull),
        "isDraft": lambda pull, _: pull.is_draft,
        "isCrossRepository": lambda *_: False,
        "merged": lambda pull, _: pull.merged_at is not None,
        "mergedAt": lambda pull, _: maybe_stamp(pull.merged_at),
        "mergedBy": lambda pull, _: pull.merged_by,
        "mergeCommit": lambda pull, call: _commit(pull.merge_sha, pull, call),
        "baseRefName": lambda pull, _: pull.base_ref,
        "baseRefOid": lambda pull, _: pull.base_sha,
        "headRefName": lambda pull, _: pull.head_ref,
        "headRefOid": lambda pull, _: pull.head_sha,
        "additions": lambda pull, _: sum(commit.additions for commit in pull.commits),
        "deletions": lambda pull, _: sum(commit.deletions for commit in pull.commits),
        "changedFiles": lambda pull, _: max((commit.files for commit in pull.commits), default=0),
        "commits": graphql_lists.pull_commits,
        "reviews": graphql_lists.reviews,
    },
    "PullRequestCommit": {
        "id": lambda item, _: node_id("PURC", item.pull.id, int(item.commit.sha[:16], 16)),
        "commit": lambda item, _: item.commit,
        "pullRequest": lambda item, _: item.pull,
        "url": lambda item, call: f"{_page(item.pull, call)}/commits/{item.commit.sha}",
    },
    "PullRequestReview": {
        **WRITTEN,
        "state": lambda review, _: review.state,
        "submittedAt": lambda review, _: maybe_stamp(review.submitted_at),
        "comments": graphql_lists.review_comments,
    },
    "PullRequestReviewComment": {
        **WRITTEN,
        "path": lambda comment, _: comment.path,
        "pullRequestReview": lambda comment, call: _review_of(comment, call),
    },
    "Issue": {
        **THREAD,
        "databaseId": lambda issue, _: issue.issue_id,
        "fullDatabaseId": lambda issue, _: str(issue.issue_id),
        "state": lambda issue, _: issue.state.upper(),
        "stateReason": _state_reason,
        "assignees": lambda issue, _, **asked: graphql_lists.accounts(
            [one for one in issue.assignees if one.kind == "User"], "assignees", asked
        ),
        "labels": graphql_lists.labels,
    },
    "Label": {
        "id": lambda label, _: f"LA_{label}",
        "name": lambda label, _: label,
        "color": lambda *_: "d73a4a",
    },
    "ClosedEvent": {**EVENT, "stateReason": lambda event, _: event.reason.upper() if event.reason else None},
    "ReopenedEvent": {**EVENT, "stateReason": lambda event, call: _reopened(event, call)},
    "ReadyForReviewEvent": EVENT,
    "ConvertToDraftEvent": EVENT,
    "MergedEvent": {**EVENT, "commit": lambda event, call: _commit(event.sha, event, call)},
    "ReviewRequestedEvent": {**EVENT, "requestedReviewer": lambda event, _: event.subject},
}


def _numbered(threads: dict[int, Any], kind: str, number: int) -> Thread:
    if number not in threads:
        raise error(
            "NOT_FOUND", f"Could not resolve to {'an' if kind == 'Issue' else 'a'} {kind} with the number of {number}."
        )
    found: Thread = threads[number]
    return found


def _review_of(comment: ReviewComment, call: Call) -> Review | None:
    return next((one for one in _pull_of(comment, call).reviews if one.id == comment.review_id), None)


def _reopened(event: Event, call: Call) -> str | None:
    return "REOPENED" if isinstance(call.world.places[event.node_id].thread, Issue) else None

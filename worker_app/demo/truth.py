"""The truth: what a complete sync of the world must hold, as plain values that tests compare tables with.

Keys are the provider's: numbers as text, shas, node ids of events. Accounts are node ids, None for a ghost; times are
ISO 8601 with Z.
"""

from typing import Any

from worker_app.demo.graphql_lists import pull_state
from worker_app.demo.history import ancestry
from worker_app.demo.rest_accounts import maybe_stamp, stamp
from worker_app.demo.things import (
    Account,
    Deployment,
    Event,
    Issue,
    PullRequest,
    Repository,
    Review,
    ReviewComment,
    RunAttempt,
    Thread,
    WorkflowRun,
)
from worker_app.demo.world import World

Facts = dict[str, Any]


def truth(world: World, viewer: Account) -> dict[str, dict[str, Any]]:
    """Full name to what the repository holds. Those that are deleted or demand single sign-on are not there."""
    with world.lock:
        living = [one for one in world.repositories.values() if not one.is_deleted and not one.demands_sso]
        return {one.full_name: of_repository(one, viewer) for one in living}


def of_repository(repository: Repository, viewer: Account) -> dict[str, Any]:
    """Dataset to key to facts. Pending reviews are there if `viewer` wrote them, as GitHub shows them to nobody else."""
    pulls = repository.pulls.values()
    issues = repository.issues.values() if repository.has_issues else ()
    runs = repository.runs.values()
    return {
        "repository": _repository(repository),
        "commits": _commits(repository),
        "pull_requests": {str(pull.id): _pull(pull) for pull in pulls},
        "pull_request_commits": {
            f"{pull.id}:{commit.sha}": {"pull_request": str(pull.id), "ordinal": ordinal}
            for pull in pulls
            for ordinal, commit in enumerate(pull.commits)
        },
        "pull_request_events": {event.node_id: _event(str(pull.id), event) for pull in pulls for event in pull.events},
        "reviews": {
            str(review.id): _review(pull, review)
            for pull in pulls
            for review in pull.reviews
            if review.state != "PENDING" or review.author is viewer
        },
        "review_comments": {str(comment.id): _comment(pull, comment) for pull in pulls for comment in pull.comments},
        "work_items": {str(issue.issue_id): _issue(issue) for issue in issues},
        "transitions": {
            event.node_id: _event(str(issue.issue_id), event) for issue in issues for event in issue.events
        },
        "pipeline_runs": {f"{run.id}:{one.attempt}": _attempt(run, one) for run in runs for one in run.attempts},
        "deployments": {str(one.id): _deployment(one) for one in repository.deployments.values()},
    }


def _node(account: Account | None) -> str | None:
    return account.node_id if account else None


def _repository(found: Repository) -> Facts:
    return {
        "ext_id": str(found.id),
        "node_id": found.node_id,
        "full_name": found.full_name,
        "default_branch": found.default_branch,
        "is_archived": found.is_archived,
        "is_empty": found.head is None,
        "has_issues": found.has_issues,
        "former_names": list(found.former_names),
    }


def _commits(repository: Repository) -> dict[str, Facts]:
    """Those that the default branch leads to."""
    found = ancestry(repository.commits, repository.head) if repository.head else []
    return {
        commit.sha: {
            "parents": list(commit.parents),
            "author": _node(commit.author if commit.author and commit.author.kind == "User" else None),
            "authored_at": stamp(commit.authored_at),
            "committed_at": stamp(commit.committed_at),
            "additions": commit.additions,
            "deletions": commit.deletions,
            "files": commit.files,
        }
        for commit in found
    }


def _thread(found: Thread) -> Facts:
    return {
        "node_id": found.node_id,
        "number": found.number,
        "title": found.title,
        "author": _node(found.author),
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "closed_at": maybe_stamp(found.closed_at),
    }


def _pull(found: PullRequest) -> Facts:
    return _thread(found) | {
        "state": pull_state(found),
        "is_draft": found.is_draft,
        "merged_at": maybe_stamp(found.merged_at),
        "merge_sha": found.merge_sha,
        "head_sha": found.head_sha,
        "head_ref": found.head_ref,
        "base_ref": found.base_ref,
        "commits_total": len(found.commits),
        "additions": sum(commit.additions for commit in found.commits),
        "deletions": sum(commit.deletions for commit in found.commits),
    }


def _event(parent: str, found: Event) -> Facts:
    return {"parent": parent, "kind": found.kind, "actor": _node(found.actor), "at": stamp(found.at)}


def _review(pull: PullRequest, found: Review) -> Facts:
    return {
        "node_id": found.node_id,
        "pull_request": str(pull.id),
        "author": _node(found.author),
        "state": found.state,
        "sha": found.sha,
        "submitted_at": maybe_stamp(found.submitted_at),
        "updated_at": stamp(found.updated_at),
    }


def _comment(pull: PullRequest, found: ReviewComment) -> Facts:
    return {
        "node_id": found.node_id,
        "pull_request": str(pull.id),
        "number": pull.number,
        "author": _node(found.author),
        "sha": found.sha,
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
    }


def _issue(found: Issue) -> Facts:
    return _thread(found) | {"state": found.state, "state_reason": found.state_reason}


def _attempt(run: WorkflowRun, found: RunAttempt) -> Facts:
    return {
        "name": run.name,
        "branch": run.branch,
        "sha": run.sha,
        "status": found.status,
        "conclusion": found.conclusion,
        "created_at": stamp(run.created_at),
        "started_at": stamp(found.started_at),
        "updated_at": stamp(found.updated_at),
    }


def _deployment(found: Deployment) -> Facts:
    return {
        "environment": found.environment,
        "sha": found.sha,
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "statuses": [{"state": one.state, "at": stamp(one.at)} for one in found.statuses],
    }

"""What tables must hold after a complete sync, in the words of our records: the fake's truth, and the tables in the same form."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tests.integration.providers.github_sync import Tables
from worker_app import records

EVENT_KINDS = {
    "ready_for_review": "ready",
    "convert_to_draft": "draft",
    "closed": "closed",
    "reopened": "reopened",
    "merged": "merged",
    "review_requested": "review_requested",
}
RUN_STATUSES = {"success": "succeeded", "failure": "failed", "cancelled": "cancelled", "skipped": "skipped"}
DEPLOYMENT_STATUSES = {"success": "succeeded", "failure": "failed", "in_progress": "running"}

Facts = dict[Any, Any]


def _stamp(at: datetime | None) -> str | None:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else None


def wanted(truth: Mapping[str, Any], dataset: str) -> Facts:
    """The facts that the tables of a dataset must show."""
    return _WANTED[dataset](truth)


def shown(tables: Tables) -> Facts:
    """The facts that the tables show."""
    facts: Facts = {}
    for row in tables.rows.values():
        if read := _SHOWN.get(type(row)):
            facts |= read(row)
    return {key: fact for key, fact in facts.items() if key[1] not in tables.unreachable}


def _wanted_commits(truth: Mapping[str, Any]) -> Facts:
    return {
        ("commit", sha): (
            one["author"], one["authored_at"], one["committed_at"], len(one["parents"]) > 1,
            *(None if len(one["parents"]) > 1 else one[name] for name in ("files", "additions", "deletions")),
        )
        for sha, one in truth["commits"].items()
    }  # fmt: skip


def _shown_commit(row: records.Commit) -> Facts:
    times = _stamp(row.authored_at), _stamp(row.committed_at)
    facts = row.author_ext_id, *times, row.is_merge, row.files, row.additions, row.deletions
    return {("commit", row.ext_id): facts}


def _wanted_pulls(truth: Mapping[str, Any]) -> Facts:
    facts: Facts = {
        ("pull", ext_id): (
            one["number"], _clean(one["title"]), one["author"], one["state"].lower(), one["is_draft"], one["created_at"],
            one["updated_at"], one["closed_at"], one["merged_at"], one["merge_sha"], one["head_sha"], one["head_ref"],
            one["base_ref"], one["commits_total"], one["additions"], one["deletions"], True,
        )
        for ext_id, one in truth["pull_requests"].items()
    }  # fmt: skip
    for key, one in truth["pull_request_commits"].items():
        facts["pull commit", key] = one["ordinal"]
    for ext_id, one in truth["pull_request_events"].items():
        if one["kind"] in EVENT_KINDS:
            facts["event", ext_id] = one["parent"], EVENT_KINDS[one["kind"]], one["actor"], one["at"]
    for ext_id, one in truth["reviews"].items():
        facts["review", ext_id] = (
            one["pull_request"], one["author"], one["state"].lower(), one["sha"], one["submitted_at"], one["updated_at"],
        )  # fmt: skip
    return facts


def _shown_pull(row: records.PullRequest) -> Facts:
    return {
        ("pull", row.ext_id): (
            row.number, row.title, row.author_ext_id, row.state, row.is_draft, _stamp(row.created_at),
            _stamp(row.updated_at), _stamp(row.closed_at), _stamp(row.merged_at), row.merge_sha, row.head_sha, row.head_ref,
            row.base_ref, row.commits_total, row.additions, row.deletions, row.detail_complete,
        )
    }  # fmt: skip


def _shown_event(row: records.PullRequestEvent) -> Facts:
    return {("event", row.ext_id): (row.pr_ext_id, row.kind, row.actor_ext_id, _stamp(row.at))}


def _shown_review(row: records.Review) -> Facts:
    if row.kind == "comment":
        times = _stamp(row.submitted_at), _stamp(row.updated_at)
        return {("comment", row.ext_id): (row.pr_ext_id, row.reviewer_ext_id, row.commit_sha, *times)}
    facts = (
        row.pr_ext_id,
        row.reviewer_ext_id,
        row.state,
        row.commit_sha,
        _stamp(row.submitted_at),
        _stamp(row.updated_at),
    )
    return {("review", row.ext_id): facts}


def _wanted_comments(truth: Mapping[str, Any]) -> Facts:
    return {
        ("comment", ext_id): (one["pull_request"], one["author"], one["sha"], one["created_at"], one["updated_at"])
        for ext_id, one in truth["review_comments"].items()
    }


def _wanted_items(truth: Mapping[str, Any]) -> Facts:
    facts: Facts = {
        ("item", ext_id): (
            one["number"], one["state"], one["state_reason"] if one["state"] == "closed" else None, one["created_at"],
            one["updated_at"], one["closed_at"], True,
        )
        for ext_id, one in truth["work_items"].items()
    }  # fmt: skip
    for ext_id, one in truth["transitions"].items():
        if one["kind"] in {"closed", "reopened"}:
            facts["transition", ext_id] = one["parent"], one["kind"] == "closed", one["actor"], one["at"]
    return facts


def _shown_item(row: records.WorkItem) -> Facts:
    times = _stamp(row.created_at), _stamp(row.updated_at), _stamp(row.resolved_at)
    number = int(row.key.rpartition("#")[2])
    return {("item", row.ext_id): (number, row.status, row.resolution, *times, row.history_complete)}


def _shown_transition(row: records.Transition) -> Facts:
    facts = row.item_ext_id, row.to_status == "closed", row.actor_ext_id, _stamp(row.at)
    return {("transition", row.ext_id): facts}


def _wanted_runs(truth: Mapping[str, Any]) -> Facts:
    return {
        ("run", key): (
            one["name"], one["branch"], one["sha"],
            RUN_STATUSES[one["conclusion"]] if one["status"] == "completed" else _waiting(one["status"]),
            one["created_at"], one["started_at"], one["updated_at"],
        )
        for key, one in truth["pipeline_runs"].items()
    }  # fmt: skip


def _waiting(status: str) -> str:
    return "running" if status == "in_progress" else status


def _shown_run(row: records.PipelineRun) -> Facts:
    times = _stamp(row.created_at), _stamp(row.started_at), _stamp(row.updated_at)
    return {("run", f"{row.ext_id}:{row.attempt}"): (row.name, row.ref, row.sha, row.status, *times)}


def _wanted_deployments(truth: Mapping[str, Any]) -> Facts:
    return {
        ("deployment", ext_id): (
            one["environment"], one["sha"], one["created_at"], one["updated_at"],
            DEPLOYMENT_STATUSES.get(one["statuses"][-1]["state"], "pending") if one["statuses"] else "pending",
        )
        for ext_id, one in truth["deployments"].items()
    }  # fmt: skip


def _shown_deployment(row: records.Deployment) -> Facts:
    times = _stamp(row.created_at), _stamp(row.updated_at)
    return {("deployment", row.ext_id): (row.environment, row.sha, *times, row.status)}


def _shown_pull_commit(row: records.PullRequestCommit) -> Facts:
    return {("pull commit", f"{row.pr_ext_id}:{row.ext_id}"): row.ordinal}


def _clean(text: str) -> str:
    return "".join("�" if "\ud800" <= letter <= "\udfff" else letter for letter in text if letter != "\0")


_WANTED: dict[str, Callable[[Mapping[str, Any]], Facts]] = {
    "commits": _wanted_commits,
    "pull_requests": _wanted_pulls,
    "review_comments": _wanted_comments,
    "work_items": _wanted_items,
    "pipeline_runs": _wanted_runs,
    "deployments": _wanted_deployments,
}
_SHOWN: dict[type[Any], Callable[[Any], Facts]] = {
    records.Commit: _shown_commit,
    records.PullRequest: _shown_pull,
    records.PullRequestCommit: _shown_pull_commit,
    records.PullRequestEvent: _shown_event,
    records.Review: _shown_review,
    records.WorkItem: _shown_item,
    records.Transition: _shown_transition,
    records.PipelineRun: _shown_run,
    records.Deployment: _shown_deployment,
}

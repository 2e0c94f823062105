"""Workflow runs, deployments and installation tokens as REST shows them."""

from typing import Any

from worker_app.demo.rest_accounts import account, stamp
from worker_app.demo.rest_repositories import page_of, reference, url_of
from worker_app.demo.rest_threads import Names
from worker_app.demo.things import Deployment, DeploymentStatus, Repository, RunAttempt, WorkflowRun


def run(found: WorkflowRun, attempt: RunAttempt, repository: Repository, names: Names) -> dict[str, Any]:
    """One attempt of a run, which looks like the run itself."""
    here = url_of(repository, names.base_url)
    url, short = f"{here}/actions/runs/{found.id}", reference(repository, names.base_url)
    before = attempt.attempt - 1
    return {
        "id": found.id,
        "name": found.name,
        "node_id": found.node_id,
        "head_branch": found.branch,
        "head_sha": found.sha,
        "path": ".github/workflows/ci.yml",
        "display_title": "Work on it",
        "run_number": found.number,
        "event": found.event,
        "status": attempt.status,
        "conclusion": attempt.conclusion,
        "workflow_id": found.workflow_id,
        "check_suite_id": found.id + 1,
        "check_suite_node_id": f"CS_{found.node_id}",
        "url": url,
        "html_url": f"{page_of(repository)}/actions/runs/{found.id}",
        "pull_requests": [],
        "created_at": stamp(found.created_at),
        "updated_at": stamp(attempt.updated_at),
        "actor": account(found.actor, names.base_url),
        "run_attempt": attempt.attempt,
        "referenced_workflows": [],
        "run_started_at": stamp(attempt.started_at),
        "triggering_actor": account(attempt.actor, names.base_url),
        "jobs_url": f"{url}/jobs",
        "logs_url": f"{url}/logs",
        "check_suite_url": f"{here}/check-suites/{found.id + 1}",
        "artifacts_url": f"{url}/artifacts",
        "cancel_url": f"{url}/cancel",
        "rerun_url": f"{url}/rerun",
        "previous_attempt_url": f"{url}/attempts/{before}" if before else None,
        "workflow_url": f"{here}/actions/workflows/{found.workflow_id}",
        "head_commit": _head(found, repository),
        "repository": short,
        "head_repository": short,
    }


def _head(found: WorkflowRun, repository: Repository) -> dict[str, Any]:
    commit = repository.commits[found.sha]
    person = {"name": commit.author_name, "email": commit.author_email}
    return {
        "id": commit.sha,
        "tree_id": commit.sha[::-1],
        "message": commit.message,
        "timestamp": stamp(commit.committed_at),
        "author": person,
        "committer": person,
    }


def deployment(found: Deployment, repository: Repository, names: Names) -> dict[str, Any]:
    """A deployment without its statuses."""
    here = url_of(repository, names.base_url)
    return {
        "url": f"{here}/deployments/{found.id}",
        "id": found.id,
        "node_id": found.node_id,
        "task": "deploy",
        "original_environment": found.environment,
        "environment": found.environment,
        "description": None,
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "statuses_url": f"{here}/deployments/{found.id}/statuses",
        "repository_url": here,
        "creator": names.user(found.creator),
        "sha": found.sha,
        "ref": found.ref,
        "payload": {},
        "transient_environment": False,
        "production_environment": found.environment == "production",
        "performed_via_github_app": None,
    }


def deployment_status(
    found: DeploymentStatus, parent: Deployment, repository: Repository, names: Names
) -> dict[str, Any]:
    """One step of a deployment."""
    here = url_of(repository, names.base_url)
    url = f"{here}/deployments/{parent.id}"
    return {
        "url": f"{url}/statuses/{found.id}",
        "id": found.id,
        "node_id": found.node_id,
        "state": found.state,
        "creator": names.user(found.creator),
        "description": "",
        "environment": parent.environment,
        "target_url": "",
        "created_at": stamp(found.at),
        "updated_at": stamp(found.at),
        "deployment_url": url,
        "repository_url": here,
        "environment_url": "",
        "log_url": "",
        "performed_via_github_app": None,
    }

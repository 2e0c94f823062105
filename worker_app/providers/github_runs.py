"""Workflow runs of GitHub as records, one for each attempt. Pure.

Page: https://docs.github.com/en/rest/actions/workflow-runs
"""

from worker_app import records
from worker_app.providers.github_fields import Json, moment, moment_or_none

STATUSES = {"in_progress": "running", "completed": "completed"}  # every other word: it waits for something
CONCLUSIONS = {
    "success": "succeeded",
    "neutral": "succeeded",
    "failure": "failed",
    "timed_out": "failed",
    "startup_failure": "failed",
    "cancelled": "cancelled",
    "stale": "cancelled",
}  # every other word, as `skipped` and `action_required`: nothing was run


def attempt_of(row: Json) -> int:
    """Which attempt of the run a row shows, from 1; old Enterprise servers do not say."""
    return row.get("run_attempt") or 1


def pipeline_run(row: Json, repo_ext_id: str) -> records.PipelineRun:
    """One attempt. GitHub gives no time of its end; the last change of a completed attempt stands for it."""
    status = STATUSES.get(row["status"] or "", "queued")
    is_over = status == "completed"
    return records.PipelineRun(
        ext_id=str(row["id"]),
        attempt=attempt_of(row),
        repo_ext_id=repo_ext_id,
        name=row.get("name"),
        ref=row["head_branch"],
        sha=row["head_sha"],
        status=CONCLUSIONS.get(row["conclusion"] or "", "skipped") if is_over else status,
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        started_at=moment_or_none(row.get("run_started_at")),
        finished_at=moment(row["updated_at"]) if is_over else None,
    )

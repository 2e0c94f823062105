"""Deployments of GitHub as records, judged by their statuses. Pure.

Page: https://docs.github.com/en/rest/deployments/statuses
"""

import re
from collections.abc import Sequence

from worker_app import records
from worker_app.providers.github_fields import Json, moment

STATUSES = {
    "success": "succeeded",
    "failure": "failed",
    "error": "failed",
    "in_progress": "running",
    "queued": "pending",
    "pending": "pending",
    "waiting": "pending",
    "inactive": "inactive",
}
OVER = frozenset({"succeeded", "failed"})
# The order counts: a preproduction is none. Not `latest`, not `products`.
STAGING = re.compile(r"(?i)stage|staging|pre-?prod|non-?prod|sandbox|(?<![a-z])(?:uat|qa|test)")
PRODUCTION = re.compile(r"(?i)prod(?!uct(?!ion))|\blive\b")


def deployment(row: Json, statuses: Sequence[Json], repo_ext_id: str) -> records.Deployment:
    """A deployment. GitHub calls it inactive as soon as the next one succeeds: it counts as what it was before."""
    newest_first = sorted(statuses, key=lambda status: (status["created_at"], status["id"]), reverse=True)
    telling = next((status for status in newest_first if status["state"] != "inactive"), None)
    held = telling or (newest_first[0] if newest_first else None)
    status = STATUSES.get(held["state"], "pending") if held else "pending"
    return records.Deployment(
        ext_id=str(row["id"]),
        repo_ext_id=repo_ext_id,
        environment=row["environment"],
        env_class=env_class(row["environment"], is_production=row.get("production_environment") is True),
        sha=row["sha"],
        status=status,
        group_key=f"{row['environment']}@{row['sha']}",
        created_at=moment(row["created_at"]),
        updated_at=max(moment(found["updated_at"]) for found in (row, *statuses)),
        finished_at=moment(held["created_at"]) if held and status in OVER else None,
    )


def env_class(environment: str, *, is_production: bool) -> str:
    """production, staging or other: by what GitHub was told, else by the name."""
    if is_production:
        return "production"
    if STAGING.search(environment):
        return "staging"
    return "production" if PRODUCTION.search(environment) else "other"

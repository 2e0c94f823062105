"""Comments on the code of pull requests as records. Pure.

A comment names its pull request by number only, in a URL; the id has to be asked for.
Page: https://docs.github.com/en/rest/pulls/comments
"""

from worker_app import records
from worker_app.providers.github_fields import Json, moment, rest_account


def pull_number(row: Json) -> int:
    """The number of the pull request that a comment belongs to."""
    url: str = row["pull_request_url"]
    return int(url.rsplit("/", 1)[1])


def comment(row: Json, pr_ext_id: str) -> records.Review:
    """A comment; it counts as a review that took place when it was written."""
    reviewer = rest_account(row["user"])
    return records.Review(
        ext_id=str(row["id"]),
        kind="comment",
        pr_ext_id=pr_ext_id,
        reviewer_ext_id=reviewer.ext_id,
        reviewer_is_bot=reviewer.is_bot,
        state="commented",
        commit_sha=row["original_commit_id"],
        submitted_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
    )

"""Pull requests of GitHub as records, with their commits, reviews and events. Pure."""

import re
from collections.abc import Iterable, Iterator

from worker_app import records
from worker_app.providers.github_fields import Json, graphql_account, moment, moment_or_none, within

EVENT_KINDS = {
    "ReadyForReviewEvent": "ready",
    "ConvertToDraftEvent": "draft",
    "ClosedEvent": "closed",
    "ReopenedEvent": "reopened",
    "MergedEvent": "merged",
    "ReviewRequestedEvent": "review_requested",
}
REVERT_BRANCH = re.compile(r"revert-(\d+)-")
REVERT_BODY = re.compile(r"\b[Rr]everts (?:[\w.-]+/[\w.-]+)?#(\d+)")
REVERT_TITLE = 'Revert "'
REVERT_COMMIT = "This reverts commit"
UNKNOWN_NUMBER = 0


def pull_request(node: Json, repo_ext_id: str, *, is_complete: bool) -> records.PullRequest:
    """A pull request; `is_complete` says whether all of its commits were read."""
    author = graphql_account(node["author"])
    return records.PullRequest(
        ext_id=node["fullDatabaseId"],
        repo_ext_id=repo_ext_id,
        number=node["number"],
        title=node["title"],
        author_ext_id=author.ext_id,
        author_is_bot=author.is_bot,
        state=node["state"].lower(),
        is_draft=node["isDraft"],
        created_at=moment(node["createdAt"]),
        updated_at=moment(node["updatedAt"]),
        merged_at=moment_or_none(node["mergedAt"]),
        closed_at=moment_or_none(node["closedAt"]),
        head_sha=node["headRefOid"],
        merge_sha=within(node, "mergeCommit", "oid"),
        head_ref=node["headRefName"],
        base_ref=node["baseRefName"],
        commits_total=node["commits"]["totalCount"],
        additions=node["additions"],
        deletions=node["deletions"],
        reverts_number=reverts_number(node["headRefName"], node["title"], node["body"]),
        detail_complete=is_complete,
    )


def reverts_number(head_ref: str, title: str, body: str) -> int | None:
    """Which pull request it takes back, by branch, body or title; 0 when it takes back something unnamed, None for no revert."""
    for named in (REVERT_BRANCH.match(head_ref), REVERT_BODY.search(body)):
        if named:
            return int(named[1])
    return UNKNOWN_NUMBER if title.startswith(REVERT_TITLE) or REVERT_COMMIT in body else None


def commits(node: Json, nodes: Iterable[Json]) -> Iterator[records.PullRequestCommit]:
    """The commits of a pull request in its order, each once: a push between two requests may show one again."""
    seen = {shown["commit"]["oid"]: shown["commit"]["authoredDate"] for shown in nodes}
    for ordinal, (sha, authored) in enumerate(seen.items()):
        yield records.PullRequestCommit(
            ext_id=sha,
            pr_ext_id=node["fullDatabaseId"],
            ordinal=ordinal,
            authored_at=moment_or_none(authored),
            updated_at=moment(node["updatedAt"]),
        )


def reviews(node: Json, nodes: Iterable[Json]) -> Iterator[records.Review]:
    """The reviews of a pull request; a pending one has no `submitted_at`."""
    for shown in nodes:
        reviewer = graphql_account(shown["author"])
        yield records.Review(
            ext_id=shown["fullDatabaseId"],
            kind="review",
            pr_ext_id=node["fullDatabaseId"],
            reviewer_ext_id=reviewer.ext_id,
            reviewer_is_bot=reviewer.is_bot,
            state=shown["state"].lower(),
            commit_sha=within(shown, "commit", "oid"),
            submitted_at=moment_or_none(shown["submittedAt"]),
            updated_at=moment(shown["updatedAt"]),
        )


def events(node: Json, nodes: Iterable[Json]) -> Iterator[records.PullRequestEvent]:
    """The steps in the life of a pull request; none of them changes later."""
    for shown in nodes:
        if kind := EVENT_KINDS.get(shown["__typename"]):
            at = moment(shown["createdAt"])
            yield records.PullRequestEvent(
                ext_id=shown["id"],
                pr_ext_id=node["fullDatabaseId"],
                kind=kind,
                actor_ext_id=graphql_account(shown["actor"]).ext_id,
                at=at,
                updated_at=at,
            )

"""GraphQL lists: which items a connection has and in which order, before `connections` cuts them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from worker_app.demo import connections
from worker_app.demo.rest_accounts import stamp
from worker_app.demo.things import Account, Commit, Event, PullRequest, Repository, Review, Thread
from worker_app.demo.world import World

ITEM_TYPES = {  # REST's word of an event -> type, and its name among `itemTypes`
    "closed": ("ClosedEvent", "CLOSED_EVENT"),
    "reopened": ("ReopenedEvent", "REOPENED_EVENT"),
    "merged": ("MergedEvent", "MERGED_EVENT"),
    "ready_for_review": ("ReadyForReviewEvent", "READY_FOR_REVIEW_EVENT"),
    "convert_to_draft": ("ConvertToDraftEvent", "CONVERT_TO_DRAFT_EVENT"),
    "review_requested": ("ReviewRequestedEvent", "REVIEW_REQUESTED_EVENT"),
}
PLACE = re.compile(r"([0-9a-f]{40}) (\d+)")  # the cursor of a history: its head and how far from it


@dataclass(frozen=True, slots=True)
class Call:
    """What the fields of one query are read from."""

    world: World
    viewer: Account
    rate: Callable[[], dict[str, Any] | None]
    history: Callable[[Repository, str], list[Commit]]


class PullCommit(NamedTuple):
    """A commit as one of a pull request."""

    pull: PullRequest
    commit: Commit


def pull_state(pull: PullRequest) -> str:
    """OPEN, CLOSED or MERGED."""
    return "MERGED" if pull.merged_at else pull.state.upper()


def pulls(repository: Repository, _: Call, **asked: Any) -> dict[str, Any]:
    """`pullRequests`, by number unless an order is asked for."""
    states, found = asked.get("states"), list(repository.pulls.values())
    if states:
        found = [pull for pull in found if pull_state(pull) in states]
    for argument, name in (("headRefName", "head_ref"), ("baseRefName", "base_ref")):
        if argument in asked:
            found = [pull for pull in found if getattr(pull, name) == asked[argument]]
    return _ordered("pullRequests", found, asked)


def issues(repository: Repository, _: Call, **asked: Any) -> dict[str, Any]:
    """`issues`, none where they are switched off. `since` of the filter is honoured, no other part of it."""
    found = list(repository.issues.values()) if repository.has_issues else []
    if states := asked.get("states"):
        found = [issue for issue in found if issue.state.upper() in states]
    if (since := _moment((asked.get("filterBy") or {}).get("since"))) is not None:
        found = [issue for issue in found if issue.updated_at >= since]
    return _ordered("issues", found, asked)


def _ordered(name: str, found: Sequence[Thread], asked: dict[str, Any]) -> dict[str, Any]:
    order = asked.get("orderBy") or {"field": "NUMBER", "direction": "ASC"}
    sign = -1 if order["direction"] == "DESC" else 1
    times: dict[str, Callable[[Thread], int]] = {
        "CREATED_AT": lambda thread: int(thread.created_at.timestamp()),
        "UPDATED_AT": lambda thread: int(thread.updated_at.timestamp()),
    }
    time = times.get(order["field"])

    def rank(thread: Thread) -> connections.Rank:
        return sign * (time(thread) if time else 0), sign * thread.number

    return connections.connect(name, sorted(found, key=rank), rank, asked)


def pull_commits(pull: PullRequest, _: Call, **asked: Any) -> dict[str, Any]:
    """`commits`, the first of the branch first."""
    items = list(enumerate(pull.commits))
    found = connections.connect("commits", items, lambda item: (item[0],), asked)
    return _mapped(found, lambda item: PullCommit(pull, item[1]))


def reviews(pull: PullRequest, call: Call, **asked: Any) -> dict[str, Any]:
    """`reviews`, the oldest first. A pending one is seen by its author alone."""
    found: list[Review] = [one for one in pull.reviews if one.state != "PENDING" or one.author is call.viewer]
    if states := asked.get("states"):
        found = [one for one in found if one.state in states]
    if author := asked.get("author"):
        found = [one for one in found if one.author and one.author.login == author]
    return connections.connect("reviews", found, lambda one: (one.id,), asked)


def review_comments(review: Review, call: Call, **asked: Any) -> dict[str, Any]:
    """`comments` of a review."""
    pull = call.world.places[review.node_id].thread
    assert isinstance(pull, PullRequest)
    found = [one for one in pull.comments if one.review_id == review.id]
    return connections.connect("comments", found, lambda one: (one.id,), asked)


def timeline(thread: Thread, _: Call, **asked: Any) -> dict[str, Any]:
    """`timelineItems`, the oldest first. What `itemTypes` names and the reduced schema does not know is not there."""
    wanted, since = asked.get("itemTypes"), _moment(asked.get("since"))
    found: list[Event] = [
        event
        for event in sorted(thread.events, key=lambda event: (event.at, event.id))
        if event.kind in ITEM_TYPES
        and (not wanted or ITEM_TYPES[event.kind][1] in wanted)
        and (since is None or event.at >= since)
    ]
    found = found[asked.get("skip") or 0 :]
    cut = connections.connect("timelineItems", found, lambda event: (int(event.at.timestamp()), event.id), asked)
    counts = {"filteredCount": len(found), "pageCount": len(cut["nodes"]), "updatedAt": stamp(thread.updated_at)}
    return cut | counts


def history(commit: Commit, call: Call, **asked: Any) -> dict[str, Any]:
    """`history` of a commit, the newest first. Its cursors name the commit that the walk began at, so a push moves nothing."""
    repository = call.world.places[commit.node_id].repository
    assert repository is not None
    head, start = commit.sha, 0
    if after := asked.get("after"):
        place = PLACE.fullmatch(after)
        if place is None or place[1] not in repository.commits:
            raise connections.error("INVALID_CURSOR_ARGUMENTS", f"`{after}` does not appear to be a valid cursor.")
        head, start = place[1], int(place[2]) + 1
    found = call.history(repository, head)
    since, until = _moment(asked.get("since")), _moment(asked.get("until"))
    found = [one for one in found if _is_within(one.committed_at, since, until)]
    connections.check_size("history", asked)
    end = min(len(found), start + (asked.get("first") or connections.MOST))
    return connections.cut(found, start, end, [f"{head} {number}" for number in range(start, end)])


def _moment(text: str | None) -> datetime | None:
    """An argument of type DateTime. GraphQLError where it is none."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError as wrong:
        raise connections.error("argumentLiteralsIncompatible", f"`{text}` is no DateTime.") from wrong


def _is_within(moment: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or moment >= since) and (until is None or moment <= until)


def accounts(found: Sequence[Account], name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """A connection of accounts."""
    return connections.connect(name, found, lambda one: (one.id,), asked)


def labels(thread: Thread, _: Call, **asked: Any) -> dict[str, Any]:
    """`labels`, in the order that they were given."""
    items = list(enumerate(thread.labels))
    return _mapped(connections.connect("labels", items, lambda item: (item[0],), asked), lambda item: item[1])


def _mapped(found: dict[str, Any], shown: Callable[[Any], object]) -> dict[str, Any]:
    edges = [{"cursor": edge["cursor"], "node": shown(edge["node"])} for edge in found["edges"]]
    return found | {"nodes": [edge["node"] for edge in edges], "edges": edges}


def repositories(owner: Account, call: Call, **asked: Any) -> dict[str, Any]:
    """`repositories` of an organisation, without those that demand single sign-on."""
    found = [one for one in call.world.of_owner(owner.login) if not one.demands_sso]
    return connections.connect("repositories", found, lambda one: (one.id,), asked)


def commits_of(commit: Commit, call: Call, **asked: Any) -> dict[str, Any]:
    """`parents` of a commit, the first parent first."""
    repository = call.world.places[commit.node_id].repository
    assert repository is not None
    items = list(enumerate(repository.commits[sha] for sha in commit.parents))
    return _mapped(connections.connect("parents", items, lambda item: (item[0],), asked), lambda item: item[1])

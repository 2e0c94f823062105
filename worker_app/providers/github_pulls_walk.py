"""The walk over pull requests: those changed last first, each with all of its commits, reviews and events.

What changes during the walk moves to the front and is met by the next one, whose cursor is this one's start. A page ends early
after a pull request whose lists had to be continued, so that a crash never repeats much.
Page: https://docs.github.com/en/graphql/reference/objects#pullrequest
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from worker_app import records
from worker_app.providers import github_connection, github_position, github_pulls, github_queries
from worker_app.providers.github_connection import Listing
from worker_app.providers.github_fields import Json, moment
from worker_app.providers.github_page_size import PageSize, shrinking
from worker_app.providers.github_session import Draft, Session


@dataclass(frozen=True, slots=True)
class PullsWalk:
    """Reads the dataset pull_requests."""

    session: Session
    source: records.Source
    page_size: int

    def begin(self, cursor: records.Cursor, stamp: datetime) -> records.Walk:
        """Freeze from which time on the walk reads; a first one counts what there is."""
        since = github_position.changed_since(cursor)
        total = None if since else self._count()
        return records.Walk(started_at=stamp, since=since, total=total, state=self.session.repository.state)

    def pages(self, walk: records.Walk, position: str | None) -> Iterator[records.Page]:
        """Yield the pull requests that changed since the walk's beginning."""
        after: str | None = github_position.unpacked(position).get("after")
        outer, inner = PageSize(self.page_size), PageSize()
        while True:
            draft = Draft()
            connection = self._listed(draft, after, outer)
            edges = [edge for edge in connection["edges"] if edge and edge["node"]]
            if len(edges) < len(connection["edges"]):
                draft.reasons.append("GitHub withheld a pull request")
            changed = [edge for edge in edges if _is_changed(edge["node"], walk)]
            for edge in changed:
                if self._add(draft, edge["node"], inner) and edge is not edges[-1]:
                    yield draft.page(github_position.packed(after=edge["cursor"]))
                    draft = Draft()
            if len(changed) < len(edges) or not connection["pageInfo"]["hasNextPage"]:
                yield draft.page(None)
                return
            after = github_connection.next_cursor(connection, after)
            yield draft.page(github_position.packed(after=after))

    def _count(self) -> int:
        found = self.session.ask(github_queries.PULLS_TOTAL, self.session.repository.variables)
        total: int = found.document["repository"]["pullRequests"]["totalCount"]
        return total

    def _listed(self, draft: Draft, after: str | None, size: PageSize) -> Any:
        variables = {**self.session.repository.variables, "after": after}
        reply = shrinking(
            size, lambda first: self.session.ask(github_queries.PULLS, {**variables, "first": first}, first)
        )
        return draft.take(reply)["repository"]["pullRequests"]

    def _add(self, draft: Draft, node: Json, size: PageSize) -> bool:
        """Add a pull request and all that belongs to it; returns whether that took more requests."""
        lists = {name: Listing(node[name]) for name in github_queries.MORE_OF_PULL}
        has_asked = False
        for name, listing in lists.items():
            while listing.after is not None:
                self._continue(draft, node["id"], name, listing, size)
                has_asked = True
        commits, reviews, events = lists["commits"], lists["reviews"], lists["timelineItems"]
        draft.found += (
            github_pulls.pull_request(node, self.source.ext_id, is_complete=commits.is_complete),
            *github_pulls.commits(node, commits.nodes),
            *github_pulls.reviews(node, reviews.nodes),
            *github_pulls.events(node, events.nodes),
        )
        # Commits that GitHub never shows are told on the record, where metrics look; another walk would not get them either.
        if not (reviews.is_complete and events.is_complete):
            draft.reasons.append(f"GitHub withheld reviews or events of pull request {node['number']}")
        return has_asked

    def _continue(self, draft: Draft, node_id: str, name: str, listing: Listing, size: PageSize) -> None:
        query, variables = github_queries.MORE_OF_PULL[name], {"id": node_id, "after": listing.after}
        reply = shrinking(size, lambda first: self.session.ask(query, {**variables, "first": first}, first))
        node = draft.take(reply)["node"]
        listing.add(node[name] if node else None)


def _is_changed(node: Json, walk: records.Walk) -> bool:
    since = walk.since.get("updated_at")
    return since is None or moment(node["updatedAt"]) >= moment(since)

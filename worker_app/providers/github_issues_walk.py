"""The walk over issues: those changed last first, from REST; GraphQL brings the closings and reopenings of many issues at once.

Pages: https://docs.github.com/en/rest/issues/issues#list-repository-issues,
https://docs.github.com/en/graphql/reference/objects#issue
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from worker_app import records
from worker_app.providers import github_issues, github_position, github_queries
from worker_app.providers.github_connection import Listing
from worker_app.providers.github_fields import Json
from worker_app.providers.github_page_size import PageSize, shrinking
from worker_app.providers.github_session import Draft, Reply, Session


@dataclass(frozen=True, slots=True)
class IssuesWalk:
    """Reads the dataset work_items."""

    session: Session
    source: records.Source
    page_size: int

    def begin(self, cursor: records.Cursor, stamp: datetime) -> records.Walk:
        """Freeze from which time on the walk reads."""
        since = github_position.changed_since(cursor)
        return records.Walk(started_at=stamp, since=since, state=self.session.repository.state)

    def pages(self, walk: records.Walk, position: str | None) -> Iterator[records.Page]:
        """Yield the issues that changed since the walk's beginning, each with its whole history."""
        size, params = PageSize(self.page_size), {"state": "all", **github_position.changed(walk, self.page_size)}
        for reply in self.session.pages("issues.list", "issues", params, github_position.next_url(position)):
            draft = Draft()
            self._add(draft, [row for row in draft.take(reply) if not github_issues.is_pull_request(row)], size)
            yield draft.page(github_position.before(reply.next_url))

    def _add(self, draft: Draft, rows: Sequence[Json], size: PageSize) -> None:
        while rows:
            asked, reply = shrinking(size, lambda items: self._events(rows[:items]))  # noqa: B023 - called at once
            nodes = draft.take(reply)["nodes"]
            for row, node in zip(asked, nodes, strict=True):
                self._add_one(draft, row, node, size)
            rows = rows[len(asked) :]

    def _events(self, rows: Sequence[Json]) -> tuple[Sequence[Json], Reply]:
        ids = [row["node_id"] for row in rows]
        return rows, self.session.ask(github_queries.ISSUE_EVENTS, {"ids": ids}, len(ids))

    def _add_one(self, draft: Draft, row: Json, node: Json | None, size: PageSize) -> None:
        listing = Listing(node["timelineItems"]) if node else None
        while listing is not None and listing.after is not None:
            self._continue(draft, row, listing, size)
        has_history = listing is not None and listing.is_complete
        full_name = self.session.repository.full_name
        draft.found.append(github_issues.work_item(row, self.source, full_name, has_history=has_history))
        draft.found += github_issues.transitions(row, listing.nodes if listing else ())
        if not has_history:
            draft.reasons.append(f"GitHub withheld the history of issue {row['number']}")

    def _continue(self, draft: Draft, row: Json, listing: Listing, size: PageSize) -> None:
        query, variables = github_queries.MORE_OF_ISSUE, {"id": row["node_id"], "after": listing.after}
        reply = shrinking(size, lambda first: self.session.ask(query, {**variables, "first": first}, first))
        node = draft.take(reply)["node"]
        listing.add(node["timelineItems"] if node else None)

"""The walk over deployments: newest first, back to three days before the cursor, each with its statuses.

Statuses come later than the deployment; those that come after three days are the sweep's.
Page: https://docs.github.com/en/rest/deployments/deployments#list-deployments
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from worker_app import records
from worker_app.providers import github_deployments, github_position
from worker_app.providers.github_fields import Json
from worker_app.providers.github_session import Draft, Session


@dataclass(frozen=True, slots=True)
class DeploymentsWalk:
    """Reads the dataset deployments."""

    session: Session
    source: records.Source
    page_size: int

    def begin(self, cursor: records.Cursor, stamp: datetime) -> records.Walk:
        """Freeze from which time on the walk reads."""
        since = github_position.created_since(cursor)
        return records.Walk(started_at=stamp, since=since, state=self.session.repository.state)

    def pages(self, walk: records.Walk, position: str | None) -> Iterator[records.Page]:
        """Yield the deployments created since the walk's beginning."""
        params, goes_on = {"per_page": str(self.page_size)}, github_position.next_url(position)
        for reply in self.session.pages("deployments.list", "deployments", params, goes_on):
            draft = Draft()
            rows = draft.take(reply)
            recent = github_position.created_in(walk, rows)
            draft.found += [self._read(draft, row, walk) for row in recent]
            is_at_the_end = len(recent) < len(rows)
            yield draft.page(None if is_at_the_end else github_position.before(reply.next_url))
            if is_at_the_end:
                return

    def _read(self, draft: Draft, row: Json, walk: records.Walk) -> records.Deployment:
        part, statuses = f"deployments/{row['id']}/statuses", []
        # A first walk would fill the cache with what is never asked again.
        for reply in self.session.pages(
            "deployments.statuses", part, {"per_page": "100"}, is_conditional=bool(walk.since)
        ):
            statuses += draft.take(reply)
        return github_deployments.deployment(row, statuses, self.source.ext_id)

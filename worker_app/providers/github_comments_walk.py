"""The walk over comments on code: those changed last first, from REST; one GraphQL query a page finds their pull requests.

Page: https://docs.github.com/en/rest/pulls/comments#list-review-comments-in-a-repository
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from worker_app import records
from worker_app.providers import github_comments, github_position, github_queries
from worker_app.providers.github_fields import Json, within
from worker_app.providers.github_session import Draft, Session


@dataclass(frozen=True, slots=True)
class CommentsWalk:
    """Reads the dataset review_comments."""

    session: Session
    source: records.Source
    page_size: int

    def begin(self, cursor: records.Cursor, stamp: datetime) -> records.Walk:
        """Freeze from which time on the walk reads."""
        since = github_position.changed_since(cursor)
        return records.Walk(started_at=stamp, since=since, state=self.session.repository.state)

    def pages(self, walk: records.Walk, position: str | None) -> Iterator[records.Page]:
        """Yield the comments that changed since the walk's beginning."""
        params, goes_on = github_position.changed(walk, self.page_size), github_position.next_url(position)
        for reply in self.session.pages("pulls.comments", "pulls/comments", params, goes_on):
            draft = Draft()
            self._add(draft, draft.take(reply))
            yield draft.page(github_position.before(reply.next_url))

    def _add(self, draft: Draft, rows: Sequence[Json]) -> None:
        ids = self._pull_ids(draft, sorted({github_comments.pull_number(row) for row in rows}))
        for row in rows:
            number = github_comments.pull_number(row)
            if pr_ext_id := ids.get(number):
                draft.found.append(github_comments.comment(row, pr_ext_id))
            else:
                draft.reasons.append(f"GitHub withheld pull request {number}, which has comments")

    def _pull_ids(self, draft: Draft, numbers: Sequence[int]) -> dict[int, str]:
        if not numbers:
            return {}
        query, variables = github_queries.pull_ids(numbers), self.session.repository.variables
        found = draft.take(self.session.ask(query, variables))["repository"]
        ids = {number: within(found, f"p{number}", "fullDatabaseId") for number in numbers}
        return {number: ext_id for number, ext_id in ids.items() if ext_id}

"""The walk over commits: the history of the default branch, from a head that is frozen at the start back to the old tip.

An old tip that the new head does not contain (a forced push, another default branch) means that everything is read anew, and
what is not met is unreachable.
Pages: https://docs.github.com/en/rest/commits/commits, https://docs.github.com/en/graphql/reference/objects#commit
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from worker_app import errors, records
from worker_app.providers import github_commits, github_position, github_queries, github_state
from worker_app.providers.client import Request
from worker_app.providers.github_commits import Frontier
from worker_app.providers.github_connection import next_cursor
from worker_app.providers.github_page_size import PageSize, shrinking
from worker_app.providers.github_session import Draft, Session

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitsWalk:
    """Reads the dataset commits."""

    session: Session
    source: records.Source
    page_size: int

    def begin(self, cursor: records.Cursor, stamp: datetime) -> records.Walk:
        """Freeze the head, and how far back the walk has to go."""
        head = self._head()
        if head is None:
            return records.Walk(started_at=stamp, total=0, is_full=True, state="empty")
        repository = self.session.repository
        ref = f"refs/heads/{repository.record.default_branch}"
        tip = next((tip for tip in cursor.tips.values() if tip == head or self._contains(head, tip)), None)
        return records.Walk(
            started_at=stamp,
            since={ref: tip} if tip else {},
            until={ref: head},
            total=0 if tip == head else self._count(head, tip),
            is_full=tip is None,
            state=repository.state,
        )

    def pages(self, walk: records.Walk, position: str | None) -> Iterator[records.Page]:
        """Yield the new commits; all of them in a full walk."""
        head, tip = _only(walk.until), _only(walk.since)
        if head is None or head == tip:
            yield records.Page((), None)
            return
        place = _Place.unpacked(position) or _Place(Frontier.between(tip, head) if tip else None)
        size = PageSize(self.page_size)
        while True:
            page = self._page(walk, head, place, size)
            yield page
            if page.next is None:
                return

    def _head(self) -> str | None:
        """The newest commit of the default branch; None where there is no commit at all."""
        answer = self.session.send(
            Request("commits.list", self.session.path("commits"), {"per_page": "1"}, is_conditional=True)
        )
        if github_state.is_empty_repository(answer):
            return None
        newest = self.session.judged(answer).document
        if not newest:
            raise errors.ProviderFault(f"{self.session.repository.full_name} lists no commit, yet is not empty")
        sha: str = newest[0]["sha"]
        return sha

    def _contains(self, head: str, tip: str) -> bool:
        """Whether the history of `head` holds `tip`; also True when GitHub cannot compare them, since the walk sees to it."""
        # The second page of a comparison comes without its diff, which may be huge.
        path = self.session.path("compare", f"{tip}...{head}")
        try:
            answer = self.session.send(Request("commits.compare", path, {"per_page": "1", "page": "2"}))
        except errors.ProviderFault as fault:
            logger.warning("github_commits_not_compared", extra={"source": str(self.source.id), "error": str(fault)})
            return True
        if answer.status in {404, 422}:  # GitHub has forgotten the tip, or the two have no common ancestor
            return False
        return bool(self.session.judged(answer).document["status"] == "ahead")

    def _count(self, head: str, tip: str | None) -> int | None:
        """How many commits the walk will find; None when GitHub does not say, or cannot count a long history in time."""
        variables = {**self.session.repository.variables, "head": head, "tip": tip or head}
        try:
            found = self.session.ask(github_queries.COMMIT_TOTALS, variables).document["repository"]
        except errors.ProviderFault as fault:
            logger.warning("github_commits_not_counted", extra={"source": str(self.source.id), "error": str(fault)})
            return None
        if not (found["head"] and found["tip"]):
            return None
        before: int = found["tip"]["history"]["totalCount"] if tip else 0
        total: int = found["head"]["history"]["totalCount"]
        return total - before

    def _page(self, walk: records.Walk, head: str, place: "_Place", size: PageSize) -> records.Page:
        draft = Draft()
        history = self._history(draft, head, place.after, size)
        for node in history["nodes"]:
            if node is None:
                draft.reasons.append("GitHub withheld a commit")
            elif place.meet(node["oid"], github_commits.parents(node)):
                draft.found.append(github_commits.commit(node, self.source))
        if not history["pageInfo"]["hasNextPage"] or place.is_over:
            draft.reasons += place.missing(walk.total)
            return draft.page(None)
        place.after = next_cursor(history, place.after)
        return draft.page(place.packed())

    def _history(self, draft: Draft, head: str, after: str | None, size: PageSize) -> Any:
        variables = {**self.session.repository.variables, "head": head, "after": after}
        reply = shrinking(
            size,
            lambda first: self.session.ask(github_queries.HISTORY, {**variables, "first": first}, first),
        )
        commit = draft.take(reply)["repository"]["object"]
        if commit is None:
            raise errors.WalkLost(f"{self.session.repository.full_name} no longer has {head}; the walk starts anew")
        return commit["history"]


def _only(shas: Mapping[str, str]) -> str | None:
    return next(iter(shas.values()), None)


@dataclass(slots=True)
class _Place:
    """How far the walk has come."""

    frontier: Frontier | None  # None: everything is read
    after: str | None = None
    found: int = field(default=0)

    @property
    def is_over(self) -> bool:
        return self.frontier is not None and self.frontier.is_closed

    def meet(self, sha: str, parents: list[str]) -> bool:
        is_new = self.frontier is None or self.frontier.meet(sha, parents)
        self.found += is_new
        return is_new

    def missing(self, total: int | None) -> list[str]:
        """Why a walk that is over is not complete."""
        if self.frontier is not None and not self.frontier.is_anchored:
            return ["the history no longer holds the commits that were read before; the next run reads all of it"]
        if total is not None and self.found < total:
            return [f"GitHub counts {total} commits and showed {self.found}"]
        return []

    def packed(self) -> str:
        fields: dict[str, object] = {"after": self.after, "found": self.found}
        if self.frontier is not None:
            fields |= {
                "open": sorted(self.frontier.open),
                "known": sorted(self.frontier.known),
                "is_anchored": self.frontier.is_anchored,
            }
        return github_position.packed(**fields)

    @classmethod
    def unpacked(cls, position: str | None) -> "_Place | None":
        fields = github_position.unpacked(position)
        if not fields:
            return None
        frontier = None
        if "open" in fields:
            frontier = Frontier(open_shas=fields["open"], known_shas=fields["known"], is_anchored=fields["is_anchored"])
        return cls(frontier, fields["after"], fields["found"])

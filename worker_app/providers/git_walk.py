"""One walk over a mirror: its frame is frozen at the start, then its records are paged out, from any position on.

Repeats are upserts, a gap would stay: with any doubt about the order everything is read again. Knows no store.
"""

import logging
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from worker_app import errors, records
from worker_app.providers import git_log
from worker_app.providers.git_mirror import Mirror

logger = logging.getLogger(__name__)
Found = Generator[tuple[records.Commit | records.UnreachableCommit, bool], None, None]


def freeze(mirror: Mirror, cursor: records.Cursor, now: datetime) -> records.Walk:
    """Fetch the source and frame what a walk from `cursor` has to read. Raises as `Mirror.refresh` does."""
    edges_before = mirror.edges()
    mirror.refresh()
    edges, refs = mirror.edges(), mirror.refs()
    until = {ref: sha for ref, sha in zip(refs, mirror.commits(refs.values()), strict=True) if sha}
    # What a completed history gained stands below the old tips, where a walk from them would never come.
    is_deeper = bool(edges_before) and edges != edges_before
    since = dict(cursor.tips) if not is_deeper and all(mirror.commits(cursor.tips.values())) else {}
    reason = f"the history is cut: {mirror.address.url} is a shallow clone; run `git fetch --unshallow` there"
    return records.Walk(
        started_at=now,
        since=since,
        until=until,
        total=mirror.count(until.values(), since.values()),
        is_full=not since,
        state="active" if refs else "empty",
        incomplete_reason=reason if edges else None,
    )


def require(mirror: Mirror, walk: records.Walk) -> None:
    """See that the mirror has what frames `walk`, if need be by a fetch. Raises WalkLost when the source lost it too."""
    frame = [*walk.until.values(), *walk.since.values()]
    if mirror.has(frame):
        return
    with mirror.locked():
        mirror.with_fresh_start(mirror.refresh)
    if not mirror.has(frame):
        raise errors.WalkLost(f"{mirror.address.url} no longer has what this walk was to read; the walk starts anew")


class Position(NamedTuple):
    """How far a walk has come: `sha` is the commit number `ordinal` of its kind, and was read."""

    ordinal: int
    sha: str
    is_unreachable: bool = False

    def __str__(self) -> str:
        return f"{'unreachable' if self.is_unreachable else 'reachable'}:{self.ordinal}:{self.sha}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read what `str` gave."""
        kind, ordinal, sha = text.split(":")
        return cls(int(ordinal), sha, kind == "unreachable")


@dataclass(frozen=True, slots=True)
class Listing:
    """What `walk` has to read, in the order in which git lists it."""

    mirror: Mirror
    source: records.Source
    walk: records.Walk

    def pages(self, position: Position | None, *, size: int) -> Iterator[records.Page]:
        """Yield pages of `size` commits after `position`; the first page of a walk also holds the Repository."""
        found, position = self._resumed(position)
        ordinal, _, is_unreachable = position or (0, "", False)
        page: list[records.Record] = []
        if position is None:
            full_name, branch = self.mirror.address.full_name, self.mirror.default_branch()
            page.append(records.Repository(self.source.ext_id, full_name, branch))
        room, replaced = len(page) + size, 0
        with closing(found):
            for record, is_replaced in found:
                if not is_unreachable and isinstance(record, records.UnreachableCommit):
                    ordinal, is_unreachable = 0, True
                ordinal += 1
                replaced += is_replaced
                page.append(record)
                if len(page) == room:
                    after = str(Position(ordinal, record.ext_id, is_unreachable))
                    yield records.Page(tuple(page), after, replaced_bytes=replaced)
                    page, room, replaced = [], size, 0
        yield records.Page(tuple(page), None, replaced_bytes=replaced)

    def _resumed(self, position: Position | None) -> tuple[Found, Position | None]:
        if position is not None:
            found = self._found(position)
            first, _ = next(found, (None, False))
            if first is not None and first.ext_id == position.sha:
                return found, position
            found.close()
            logger.warning("git_walk_restarted", extra={"source": str(self.source.id), "position": str(position)})
        return self._found(None), None

    def _found(self, position: Position | None) -> Found:
        """The records of the walk from the one at `position` on, that one included, each with whether it lost bytes."""
        until, since = self.walk.until.values(), self.walk.since.values()
        skip = position.ordinal - 1 if position else 0
        if until and not (position and position.is_unreachable):
            edges = self._edges()
            with closing(self.mirror.listed(git_log.LOG_COMMAND, until, since, skip=skip)) as chunks:
                for entry in git_log.entries(chunks):
                    yield git_log.commit_of(entry, self.source, edges), entry.is_broken
            skip = 0
        if since:
            with closing(self.mirror.listed(git_log.SHA_COMMAND, since, until, skip=skip)) as chunks:
                for sha in git_log.shas(chunks):
                    yield records.UnreachableCommit(sha, self.source.ext_id), False

    def _edges(self) -> dict[str, bool]:
        """The commits at the cut edge of a shallow history, each with whether it is a merge."""
        edges = self.mirror.edges()
        if not edges:
            return {}
        with closing(self.mirror.listed(git_log.RAW_COMMAND, edges)) as chunks:
            merges = git_log.merges(chunks)
        return {sha: sha in merges for sha in edges}

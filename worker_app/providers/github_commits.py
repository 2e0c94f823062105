"""Commits of GitHub as records, and the rule that tells when every new one of them was met. Pure.

Git gives no order that could be trusted: a late push carries old dates, a clock may be wrong. So the rule looks at parents only.
"""

import hashlib
from collections.abc import Iterable
from uuid import UUID

from worker_app import records
from worker_app.providers.github_fields import Json, moment, within

HIDDEN_PARENTS = "hidden"  # stands for parents that a reply does not show; nothing is ever proven about them


def commit(node: Json, source: records.Source) -> records.Commit:
    """One node of a history. GitHub counts a merge's lines against its first parent, which is no evidence of work."""
    is_merge = node["parents"]["totalCount"] > 1
    email = within(node, "author", "email")
    return records.Commit(
        ext_id=node["oid"],
        repo_ext_id=source.ext_id,
        author_ext_id=within(node, "author", "user", "id"),
        author_email_hash=email_hash(source.org_id, email) if email else None,
        authored_at=moment(node["authoredDate"]),
        committed_at=moment(node["committedDate"]),
        is_merge=is_merge,
        files=None if is_merge else node["changedFilesIfAvailable"],
        additions=None if is_merge else node["additions"],
        deletions=None if is_merge else node["deletions"],
    )


def email_hash(org_id: UUID, email: str) -> bytes | None:
    """The address salted by organisation, as plain git's commits have it: one person keeps one hash; None for a blank one."""
    plain = email.strip().lower().encode()
    return hashlib.sha256(org_id.bytes + plain).digest() if plain else None


def parents(node: Json) -> list[str]:
    """The shas of a commit's parents, and a mark when the reply does not show all of them."""
    shown = [parent["oid"] for parent in node["parents"]["nodes"] if parent]
    return [*shown, *([HIDDEN_PARENTS] if len(shown) < node["parents"]["totalCount"] else [])]


class Frontier:
    """Tells when a walk over the history of a new head has met every commit that an old tip does not lead to.

    `open` are parents of met commits that were not met themselves and may be new; `known` are those that the old tip leads to,
    as far as the commits met so far show. What was not met is an ancestor of one of them, so with nothing open it is old.
    That holds in whatever order commits are met; a wrong order only makes the walk longer. `is_anchored` says whether the
    history was seen to hold the old tip.
    """

    def __init__(self, *, open_shas: Iterable[str], known_shas: Iterable[str], is_anchored: bool = False) -> None:
        self.open = set(open_shas)
        self.known = set(known_shas)
        self.is_anchored = is_anchored
        self._met: set[str] = set()  # not kept across processes: it only spares work

    @classmethod
    def between(cls, tip: str, head: str) -> "Frontier":
        """The start of a walk from `head` back to what `tip` leads to."""
        return cls(open_shas={head} - {tip}, known_shas={tip})

    @property
    def is_closed(self) -> bool:
        """Whether everything new was met."""
        return not self.open

    def meet(self, sha: str, its_parents: Iterable[str]) -> bool:
        """Note a commit; returns whether it may be new."""
        its_parents = set(its_parents)
        is_known = sha in self.known
        self.is_anchored |= is_known or not its_parents.isdisjoint(self.known)
        self.known.discard(sha)
        self.open.discard(sha)
        self._met.add(sha)
        ahead = its_parents - self._met
        if is_known:
            self.known |= ahead - {HIDDEN_PARENTS}
            self.open -= ahead - {HIDDEN_PARENTS}
        else:
            self.open |= ahead - self.known
        return not is_known

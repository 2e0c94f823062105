"""History: commits as git would have them, with parents, and the walk from a commit to its first ancestors."""

import hashlib
import heapq
import random
from collections.abc import Mapping
from datetime import datetime
from itertools import count

from worker_app.demo.node_ids import node_id
from worker_app.demo.things import Account, Commit, Repository
from worker_app.demo.world import World


class Historian:
    """Writes the commits of one repository. The shas follow from `name` and the order of the calls."""

    def __init__(self, world: World, repository: Repository, luck: random.Random, name: str) -> None:
        self._world = world
        self._repository = repository
        self._luck = luck
        self._name = name
        self._numbers = count()

    def write(self, at: datetime, author: Account | None, parents: tuple[str, ...], message: str) -> Commit:
        """A commit that no branch has yet. A merge changes no line, as GitHub counts it against its first parent here."""
        sha = hashlib.sha1(f"{self._name}:{next(self._numbers)}".encode(), usedforsecurity=False).hexdigest()
        is_merge = len(parents) > 1
        written = Commit(
            sha=sha,
            node_id=node_id("C", self._repository.id, int(sha[:8], 16), int(sha[8:24], 16)),
            parents=parents,
            message=message,
            author=author,
            author_name=author.login if author else "Somebody Gone",
            author_email=f"{author.login if author else 'gone'}@example.com",
            authored_at=at,
            committed_at=at,
            additions=0 if is_merge else self._luck.randint(1, 200),
            deletions=0 if is_merge else self._luck.randint(0, 80),
            files=0 if is_merge else self._luck.randint(1, 9),
        )
        self._repository.commits[sha] = self._world.settle(written, self._repository)
        return written

    def push(self, at: datetime, author: Account | None, message: str = "Tidy up") -> Commit:
        """A commit at the head of the default branch."""
        parents = () if self._repository.head is None else (self._repository.head,)
        return self.advance(self.write(at, author, parents, message), at)

    def advance(self, commit: Commit, at: datetime) -> Commit:
        """Make `commit` the head of the default branch."""
        self._repository.head = commit.sha
        self._repository.pushed_at = max(self._repository.pushed_at, at)
        return commit


def ancestry(commits: Mapping[str, Commit], head: str) -> list[Commit]:
    """`head` and all its ancestors, the newest committed first and no commit before one that leads to it by a shorter way."""
    waiting = [(-commits[head].committed_at.timestamp(), 0, head)]
    met, numbers, walked = {head}, count(1), []
    while waiting:
        _, _, sha = heapq.heappop(waiting)
        walked.append(commits[sha])
        for parent in commits[sha].parents:
            if parent not in met:
                met.add(parent)
                heapq.heappush(waiting, (-commits[parent].committed_at.timestamp(), next(numbers), parent))
    return walked

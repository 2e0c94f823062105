"""The recipe of a world: how much of everything, and which oddities."""

from dataclasses import dataclass
from datetime import UTC, datetime

from worker_app.demo.world import FIRST_ID


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is generated. The same recipe gives the same world, to the last sha."""

    seed: int = 1
    organisation: str = "acme"
    repositories: int = 3
    pull_requests: int = 30  # of each repository, like all counts below
    reviews_per_pull: float = 3.0
    comments_per_pull: float = 1.0
    issues: int = 20
    pushes: int = 20  # commits on the default branch beside those of pull requests
    runs: int = 20
    deployments: int = 10
    people: int = 12
    until: datetime = datetime(2026, 6, 1, tzinfo=UTC)  # the last moment at which anything happened
    days: int = 90  # over which it happened
    first_id: int = FIRST_ID  # 2**53 + 1 for ids that no double holds
    tick_seconds: int = 1  # all times are multiples of it: a large one gives many equal times
    long_pull_commits: int = 0  # commits of the first pull request; 0: as many as the others
    ghost_share: float = 0.05  # of authors whose account is gone
    pending_share: float = 0.0  # of reviews that nobody submitted
    has_strange_text: bool = False  # U+0000 and lone surrogates in titles and bodies

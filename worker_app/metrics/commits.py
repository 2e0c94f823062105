"""Commit metrics, by the day of `committed_at`: commits in, one row per metric, grain and day out. Pure.

All are counts: num = value = n, den = 1, and `definition_v` 1. A day without a commit has no row: no evidence is no zero. A
merge has no lines of its own. A sha counts once per organisation, also when two sources bring it. Times in the future stay
on the day they name.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from worker_app.metrics.days import Reading
from worker_app.records import Commit
from worker_app.store.metrics import MetricRow

DEFINITION_V = 1
METRICS = ("commits", "commit_authors", "additions", "deletions", "files_touched", "merge_commits")


class Place(NamedTuple):
    """A repository or an organisation: the grain and its id as a metric row names it."""

    grain: str
    grain_id: str


def repo_place(provider: str, host: str, ext_id: str) -> Place:
    """The grain of a repository: provider, host and identity, each said once, so that two hosts never meet."""
    inner = ext_id.removeprefix(host).strip("/")
    return Place("repo", f"{provider}/{host}/{inner}")


@dataclass(slots=True)
class _Sums:
    shas: set[str] = field(default_factory=set)
    authors: set[bytes | str] = field(default_factory=set)
    additions: int = 0
    deletions: int = 0
    files: int = 0
    merges: int = 0
    with_lines: int = 0

    def add(self, commit: Commit) -> None:
        if commit.ext_id in self.shas:
            return
        self.shas.add(commit.ext_id)
        self.authors.add(commit.author_email_hash or commit.author_ext_id or "unknown")
        self.merges += commit.is_merge
        if commit.files is not None:
            self.with_lines += 1
            self.files += commit.files
            self.additions += commit.additions or 0
            self.deletions += commit.deletions or 0

    def values(self) -> dict[str, int]:
        """Each metric that has evidence: lines only where a commit's lines are known."""
        known = {"commits": len(self.shas), "commit_authors": len(self.authors), "merge_commits": self.merges}
        if self.with_lines:
            known |= {"additions": self.additions, "deletions": self.deletions, "files_touched": self.files}
        return known


def rows(
    day: date, commits: Iterable[tuple[Place, Commit]], org: Place, readings: Mapping[Place, Reading]
) -> list[MetricRow]:
    """The rows of one local day, for each repository that has commits on it and for the organisation.

    `commits` are (repository, commit), each read once; `readings` says for each grain how completely the day was read.
    """
    sums: defaultdict[Place, _Sums] = defaultdict(_Sums)
    for repo, commit in commits:
        sums[repo].add(commit)
        sums[org].add(commit)
    return [
        _row(metric, place, day, value, readings.get(place, Reading(0.0, None)))
        for place, found in sums.items()
        for metric, value in found.values().items()
    ]


def _row(metric: str, place: Place, day: date, value: int, seen: Reading) -> MetricRow:
    return MetricRow(
        metric=metric,
        definition_v=DEFINITION_V,
        grain=place.grain,
        grain_id=place.grain_id,
        day=day,
        value=float(value),
        num=float(value),
        den=1.0,
        n=value,
        coverage=seen.coverage,
        input_watermark=seen.input_watermark,
    )

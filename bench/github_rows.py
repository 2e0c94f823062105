"""The rows of the GitHub benchmark: one for each world, in which both sides read the same server in turns."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from bench import github_figures, github_peer, github_truth
from bench.github_figures import Taken
from bench.github_ours import SLOTS, Ours
from bench.github_server import LATENCY_SECONDS, Server
from bench.github_truth import Difference
from bench.service import note

PART = 200  # pull requests that one perceval reads: at one request after the other all of them take many minutes
OURS = "a worker of 20 gevent slots reads GraphQL and stores records in Postgres; a batch a repository"
ONE = "as it is: REST, one request after the other, kept in memory; {} of the pull requests"
THREADS = "a backend a repository, in 20 threads: REST, kept in memory; all pull requests"


@dataclass(slots=True)
class Row:
    """What was seen of one world."""

    server: Server
    ours: list[Taken] = field(default_factory=list)
    one: list[Taken] = field(default_factory=list)
    threads: list[Taken] = field(default_factory=list)
    checks: dict[str, bool] = field(default_factory=dict)
    live: dict[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Repositories and the pull requests of each."""
        return f"{self.server.world.repositories} x {self.server.world.pull_requests}"

    @property
    def has_threads(self) -> bool:
        """Whether perceval can do several things at once: it reads one repository one item after the other."""
        return self.server.world.repositories > 1

    def judge(self, name: str, *, is_right: bool) -> None:
        """Note a check; one that failed once has failed."""
        self.checks[name] = self.checks.get(name, True) and is_right

    def report(self) -> dict[str, Any]:
        """The row for the document."""
        sides = [github_figures.side("ours", OURS, self.ours, LATENCY_SECONDS)]
        sides.append(github_figures.side("perceval", ONE.format(PART), self.one, LATENCY_SECONDS))
        if self.has_threads:
            sides.append(github_figures.side("perceval, 20 threads", THREADS, self.threads, LATENCY_SECONDS))
        return {"row": self.name, "ratios": github_figures.ratios(sides), "sides": sides, "checks": self.checks}


class Rows:
    """All rows."""

    def __init__(self, ours: Ours, servers: Sequence[Server]) -> None:
        self._ours = ours
        self.rows = [Row(server) for server in servers]

    def warm_up(self) -> None:
        """Let each side read each server once, so that its answers are made."""
        for row in self.rows:
            note(f"{row.name}: warming up")
            self._ours.sync(row.server, self._ours.new_org(row.server))
            github_peer.measure(row.server, threads=SLOTS, most=None if row.has_threads else PART)

    def run(self) -> None:
        """Measure each side of each row once."""
        for row in self.rows:
            row.ours.append(self._sync(row))
            row.one.append(self._read(row, threads=1, most=PART))
            if row.has_threads:
                row.threads.append(self._read(row, threads=SLOTS))

    def live(self) -> None:
        """Sync each world while things happen in it, and once more after that."""
        for row in self.rows:
            note(f"{row.name}: syncing while things happen")
            org = self._ours.new_org(row.server)
            with row.server.living() as changes:
                self._ours.sync(row.server, org)
            during = self._difference(row, org.id)
            self._ours.sync(row.server, org)
            after = self._difference(row, org.id)
            row.live = {"row": row.name, "changes": len(changes), "during": asdict(during), "after": asdict(after)}
            row.judge("things_happened_during_the_walk", is_right=bool(changes))
            row.judge("nothing_was_double_while_things_happened", is_right=not during.double and not during.unknown)
            row.judge("all_was_stored_after_a_quiet_run", is_right=after.is_none)
            row.judge("no_limit_was_met", is_right=row.server.refused() == 0)

    def _sync(self, row: Row) -> Taken:
        org = self._ours.new_org(row.server)
        taken, found = self._ours.sync(row.server, org), self._difference(row, org.id)
        note(f"{row.name}: ours {taken.pull_requests / taken.seconds:,.0f} per second; {found}")
        row.judge("all_was_stored_once", is_right=found.is_none)
        return replace(taken, records=found.total)

    def _read(self, row: Row, *, threads: int, most: int | None = None) -> Taken:
        taken, is_right = github_peer.measure(row.server, threads=threads, most=most)
        note(f"{row.name}: perceval by {threads} {taken.pull_requests / taken.seconds:,.1f} per second")
        row.judge("perceval_read_what_is_there", is_right=is_right)
        return taken

    def _difference(self, row: Row, org_id: UUID) -> Difference:
        must = github_truth.wanted(row.server.truth())
        return github_truth.difference(must, github_truth.stored(self._ours.postgres, org_id))

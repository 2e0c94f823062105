"""What became of a load: told by the project's own database, where triggers note every end of a batch and of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from tests.chaos.dispatch import audit, judge
from tests.chaos.dispatch.load import Load
from tests.seed import column
from worker_app import jobs
from worker_app.store.postgres import Postgres

OF_LOAD = "JOIN (SELECT DISTINCT org_id FROM scheduled_jobs) of_load USING (org_id)"
PROGRESS = (
    "SELECT count(*) FILTER (WHERE state = 'running') AS running, count(*) FILTER (WHERE finished_at IS NOT NULL) AS done, "
    "coalesce(sum(attempt), 0)::int AS attempts "
    f"FROM sync_batches {OF_LOAD}"
)


@dataclass(frozen=True, slots=True)
class Progress:
    """Batches at one moment; `attempts` are those that a lost worker cost."""

    running: int
    done: int
    attempts: int


@dataclass(slots=True)
class Ledger:
    """A load of organisations, each with one schedule that is due: each of its batches reads one source of it whole."""

    load: Load
    commits: int  # in each source

    @classmethod
    def on(cls, postgres: Postgres, *, commits: int) -> "Ledger":
        """An empty one; from now on the database keeps its own record."""
        audit.install(postgres)
        return cls(Load(postgres), commits)

    @property
    def batches(self) -> int:
        """How many batches were asked for."""
        return sum(self.load.batches.values())

    def add(self, organisations: int, *, sources: int = 0, paths: Sequence[Path] = ()) -> None:
        """So many organisations more, with made-up sources or with those at `paths`, whose schedules are due now."""
        first = len(self.load.slots)
        for number in range(first, first + organisations):
            org_id, made = self.load.organisation(f"org-{number}", sources=sources, paths=paths)
            self.load.job(org_id, made, batches=len(made))

    def progress(self) -> Progress:
        """How far it is."""
        with self.load.postgres.transaction() as tx:
            row = tx.execute(text(PROGRESS)).one()
        return Progress(row.running, row.done, row.attempts)

    def is_settled(self) -> bool:
        """Whether nothing is left to do."""
        return judge.is_settled(self.load)

    def check(self) -> None:
        """Nothing was lost and every effect is there once: runs, batches, records, metrics."""
        self._check_runs()
        self._check_batches()
        assert (
            self._column(f"SELECT count(*) FROM commits {OF_LOAD} GROUP BY org_id, source_id")
            == [self.commits] * self.batches
        )
        counted = f"SELECT sum(value)::bigint FROM metric_daily {OF_LOAD} WHERE metric = 'commits' AND grain = 'repo'"
        assert self._column(counted) == [self.commits * self.batches]
        assert self._column("SELECT what || id FROM chaos_audit WHERE what LIKE '% after its end'") == []

    def _check_runs(self) -> None:
        syncs = list(self.load.batches)
        wanted = {*syncs, *map(jobs.metrics_run_id, syncs)}
        found = self._column(f"SELECT id FROM sync_runs {OF_LOAD}")
        assert sorted(found) == sorted(wanted)
        assert set(self._column(f"SELECT kind || ' ' || state FROM sync_runs {OF_LOAD}")) == {
            "sync succeeded",
            "metrics succeeded",
        }
        assert sorted(self._ends("run")) == sorted(map(str, wanted))

    def _check_batches(self) -> None:
        found = self._column(f"SELECT id::text FROM sync_batches {OF_LOAD}")
        whole = self._column(
            f"SELECT id::text FROM sync_batches {OF_LOAD} WHERE state = 'succeeded' AND records = :commits",
            commits=self.commits,
        )
        assert len(found) == self.batches
        assert sorted(found) == sorted(whole) == sorted(self._ends("batch"))

    def _ends(self, what: str) -> list[str]:
        return [
            str(name) for name in self._column("SELECT id FROM chaos_audit WHERE what = :what AND is_end", what=what)
        ]

    def _column(self, statement: str, **given: object) -> list[Any]:
        return column(self.load.postgres, statement, **given)

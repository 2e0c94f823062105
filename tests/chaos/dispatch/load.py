"""Load: organisations, sources and jobs that are due, and for each job the slots that must become runs."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import text

from tests.chaos.dispatch.actor import BROKEN
from worker_app import jobs
from worker_app.store import schedules
from worker_app.store.postgres import Postgres
from worker_app.store.schedules import NewSchedule

DAYS_LATE = 3


@dataclass(slots=True)
class Load:
    """What was asked for so far: every (job, slot) that must become one run, and how many batches each run has."""

    postgres: Postgres
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    batches: dict[UUID, int] = field(default_factory=dict)  # run -> batches
    slots: dict[tuple[UUID, datetime], UUID] = field(default_factory=dict)  # (job, slot) -> run
    failing: set[UUID] = field(default_factory=set)  # runs all of whose sources are broken

    def organisation(
        self, name: str, *, sources: int = 0, is_broken: bool = False, paths: Sequence[Path] = ()
    ) -> tuple[UUID, list[UUID]]:
        """A new organisation with so many made-up git sources, or with those at `paths`; returns all ids."""
        org_id, prefix = uuid4(), BROKEN if is_broken else "/srv/"
        named = [str(path) for path in paths] or [f"{prefix}{name}/{number}" for number in range(sources)]
        with self.postgres.transaction() as tx:
            tx.execute(text("INSERT INTO orgs (id, name, tz) VALUES (:id, :name, 'UTC')"), {"id": org_id, "name": name})
            found = tx.execute(
                text(
                    "INSERT INTO sources (org_id, id, provider, host, external_name, ext_id) "
                    "SELECT :org_id, gen_random_uuid(), 'git', 'localhost', path, path "
                    "FROM unnest(CAST(:paths AS text[])) t (path) RETURNING id"
                ),
                {"org_id": org_id, "paths": named},
            )
            return org_id, list(found.scalars())

    def job(
        self, org_id: UUID, sources: list[UUID], *, batches: int, late: str | None = None, is_broken: bool = False
    ) -> None:
        """A job that is due now, once a day. `late` is a catch-up rule: the job has not been served for three days."""
        now = self.postgres.now().replace(second=0, microsecond=0)
        line = f"{now.minute} {now.hour} * * *"
        job_id = uuid4()
        first = now - timedelta(days=DAYS_LATE if late else 0)
        kept = [now - timedelta(days=days) for days in range(DAYS_LATE + 1)] if late == "all" else [now]
        with self.postgres.transaction() as tx:
            schedules.add(
                tx,
                NewSchedule(
                    id=job_id,
                    org_id=org_id,
                    kind="sync",
                    provider="git",
                    source_ids=tuple(sources),
                    cron_source=line,
                    cron=line,
                    tz="UTC",
                    next_run_at=first,
                    catchup=late or "latest",
                    overlap="allow" if late == "all" else "skip",
                ),
            )
        for slot in kept:
            run_id = jobs.run_id(job_id, slot)
            self.slots[job_id, slot] = run_id
            self.batches[run_id] = batches
            if is_broken:
                self.failing.add(run_id)

    def some(self, orgs: list[tuple[UUID, list[UUID]]], count: int) -> None:
        """So many jobs of random organisations, each with up to three sources; a fifth of them late in each way."""
        for _ in range(count):
            org_id, sources = self.chance.choice(orgs)
            chosen = self.chance.sample(sources, self.chance.randint(1, 3))
            self.job(org_id, chosen, batches=len(chosen), late=self.chance.choice((None, None, None, "latest", "all")))

"""Promote: the slot that waited for the active run of its job becomes a run, once that one is over.

Whoever closes a run of a job calls it; rescue does for all jobs, where the closer died in between.
"""

from uuid import UUID

from worker_app import jobs
from worker_app.store import schedules
from worker_app.store.postgres import Postgres


def waiting_slots(postgres: Postgres, job_id: UUID | None = None) -> int:
    """Mint the runs of buffered slots that have nothing left to wait for, of one job or of all; returns how many."""
    with postgres.transaction() as tx:
        free = schedules.free_buffered(tx, job_id)
        return schedules.mint_buffered(tx, [(job, slot, jobs.run_id(job, slot)) for job, slot in free]) if free else 0


def after(postgres: Postgres, job_id: UUID | None) -> int:
    """What follows the end of a run: the slot that waited for it. Nothing for a run that belongs to no job."""
    return 0 if job_id is None else waiting_slots(postgres, job_id)

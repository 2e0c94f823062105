"""Finish: a run whose batches are all closed becomes what they became; what waited for it, and its metrics run, are minted."""

from uuid import UUID, uuid4

from worker_app.jobs import RunState
from worker_app.store import runs
from worker_app.store.postgres import Postgres
from worker_app.sync import promote


def run(postgres: Postgres, run_id: UUID, *, lease_seconds: int) -> RunState | None:
    """Close the run; None for a duplicate message. Its metrics run is owed in the same transaction."""
    owner = uuid4()
    with postgres.transaction() as tx:
        claimed = runs.claim(tx, run_id, owner, "finish", lease_seconds)
        if claimed is None:
            return None
        state = runs.finish(tx, claimed, owner)
    promote.after(postgres, claimed.job_id)
    return state

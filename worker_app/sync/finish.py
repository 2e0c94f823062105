"""Finish: a run whose batches are all closed becomes what they became, and the metrics run that follows is minted."""

from uuid import UUID, uuid4

from worker_app.jobs import RunState
from worker_app.store import runs
from worker_app.store.postgres import Postgres


def run(postgres: Postgres, run_id: UUID, *, lease_seconds: int) -> RunState | None:
    """Close the run; None for a duplicate message. Its metrics run is owed in the same transaction."""
    owner = uuid4()
    with postgres.transaction() as tx:
        claimed = runs.claim(tx, run_id, owner, "finish", lease_seconds)
        return None if claimed is None else runs.finish(tx, claimed, owner)

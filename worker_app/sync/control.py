"""Control: what people ask of runs: end this one, try again what failed of that one. Command line and API come here."""

from uuid import UUID

from worker_app.store import runs
from worker_app.store.postgres import Postgres
from worker_app.store.runs import Cancelled
from worker_app.sync import promote


def cancel(postgres: Postgres, run_id: UUID, *, cap: int) -> Cancelled:
    """End a run: what has not begun at once, what runs at its next page. Raises Conflict where it is over or nearly so."""
    with postgres.transaction() as tx:
        done = runs.cancel(tx, run_id, cap)
        job_id = runs.job_of(tx, run_id)
    promote.after(postgres, job_id)
    return done


def is_known(postgres: Postgres, row_id: UUID) -> bool:
    """Whether there is a run or a batch of this id."""
    with postgres.transaction() as tx:
        return runs.is_known(tx, row_id)


def retry(postgres: Postgres, run_id: UUID, *, cap: int) -> int:
    """Try the failed batches of a closed run again, or all of one that has none; returns how many batches. Raises Conflict."""
    with postgres.transaction() as tx:
        return runs.retry(tx, run_id, cap)

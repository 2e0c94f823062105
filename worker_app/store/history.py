"""History: how long the ledger and closed runs are kept. They outlive their job, so nothing else removes them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from worker_app.store.postgres import Transaction, statement


def old_occurrences(tx: Transaction, days: int, most: int) -> list[tuple[UUID, datetime]]:
    """Keys of ledger rows older than `days`, without the newest row of each job."""
    return [
        (row.job_id, row.scheduled_for)
        for row in tx.execute(statement("old_occurrences"), {"days": days, "most": most})
    ]


def delete_occurrences(tx: Transaction, keys: Sequence[tuple[UUID, datetime]]) -> int:
    """Forget ledger rows; returns how many there were."""
    given = {"job_ids": [job_id for job_id, _ in keys], "slots": [slot for _, slot in keys]}
    return tx.execute(statement("delete_occurrences"), given).rowcount


def delete_runs(tx: Transaction, days: int) -> int:
    """Forget up to 1,000 runs that ended more than `days` ago, with their batches; returns how many."""
    return tx.execute(statement("delete_old_runs"), {"days": days}).rowcount

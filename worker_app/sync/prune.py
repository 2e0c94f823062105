"""Prune: forgets ledger rows and closed runs after a while, in short steps, and erases old versions of credentials.

What it leaves for today it takes tomorrow.
"""

from dataclasses import dataclass

from worker_app.store import credentials, history
from worker_app.store.postgres import Postgres

STEP = 1000  # rows in one transaction
MOST_OCCURRENCES = 200_000  # ledger rows of one call: finding them reads the whole table, so it is done once


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one call forgot, as counts."""

    occurrences: int
    runs: int
    credential_versions: int = 0  # superseded, held by no open run: erased


def run(postgres: Postgres, *, days: int) -> Pruned:
    """Forget what is older than `days`, and erase versions of credentials that were replaced and that no open run holds.

    Raises StoreAway; what was forgotten until then stays forgotten.
    """
    with postgres.transaction() as tx:
        versions = credentials.erase_unheld(tx)
    with postgres.transaction() as tx:
        keys = history.old_occurrences(tx, days, MOST_OCCURRENCES)
    occurrences = 0
    for start in range(0, len(keys), STEP):
        with postgres.transaction() as tx:
            occurrences += history.delete_occurrences(tx, keys[start : start + STEP])
    runs = 0
    while True:
        with postgres.transaction() as tx:
            found = history.delete_runs(tx, days)
        if not found:
            return Pruned(occurrences, runs, versions)
        runs += found

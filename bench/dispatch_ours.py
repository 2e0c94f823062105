"""What the sides of ours share in the dispatch benchmark: the schedules, a pool that is timed, and the counts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

from sqlalchemy import text

from bench.dispatch_side import Found, Gate, Line, Place, Share, lines
from worker_app.store import schedules, sources
from worker_app.store.postgres import Postgres, Transaction
from worker_app.store.schedules import NewSchedule
from worker_app.sync import dispatch

ORGS = 50
POOL_SIZE = 4  # a tick, a relay, a look, one spare
COUNTS = {
    "runs": "SELECT count(*) FROM sync_runs",
    "ledger_rows": "SELECT count(*) FROM schedule_occurrences WHERE outcome = 'minted'",
    "slots": "SELECT count(DISTINCT (job_id, scheduled_for)) FROM schedule_occurrences",
    "stamped_jobs": "SELECT count(*) FROM scheduled_jobs WHERE next_run_at > now()",
}


class TimedPostgres(Postgres):
    """Postgres that knows its longest transaction: from asking the pool for a connection to the end of the commit."""

    longest_seconds = 0.0

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """As that of Postgres."""
        began = time.perf_counter()
        try:
            with super().transaction() as tx:
                yield tx
        finally:
            self.longest_seconds = max(self.longest_seconds, time.perf_counter() - began)

    @property
    def longest_ms(self) -> float:
        """The longest in milliseconds."""
        return round(self.longest_seconds * 1000, 1)


@contextmanager
def opened(place: Place) -> Iterator[TimedPostgres]:
    """A pool with one open connection."""
    postgres = TimedPostgres(place.database_url, pool_size=POOL_SIZE, application_name=place.name)
    try:
        postgres.now()
        postgres.longest_seconds = 0.0
        yield postgres
    finally:
        postgres.close()


def seed(place: Place) -> None:
    """The due schedules, spread evenly over the organisations."""
    with opened(place) as postgres, postgres.transaction() as tx:
        orgs = [sources.add_org(tx, f"org-{number}", "UTC").id for number in range(ORGS)]
        for number, line in enumerate(lines(place.count, place.at)):
            add(tx, orgs[number % ORGS], line)


def add(tx: Transaction, org_id: UUID, line: Line) -> None:
    """One due schedule."""
    schedules.add(
        tx,
        NewSchedule(
            id=uuid4(), org_id=org_id, kind="sync", provider="git", source_ids=(), cron_source=line.cron, cron=line.cron,
            tz="UTC", next_run_at=line.slot,
        ),
    )  # fmt: skip


def tick_until_done(postgres: Postgres, name: str) -> int:
    """Tick until nothing is due; how many slots this process minted."""
    total = 0
    while minted := dispatch.tick(postgres, name).minted:
        total += minted
    return total


def work(place: Place, gate: Gate) -> Share:
    """Mint."""
    with opened(place) as postgres:
        start = gate()
        return start.share(tick_until_done(postgres, place.name), postgres.longest_ms)


def found(place: Place) -> Found:
    """Runs, ledger, outbox: one of each for each slot."""
    return counted(place, COUNTS | {"outbox_rows": "SELECT count(DISTINCT dedupe) FROM task_outbox"})


def counted(place: Place, asked: dict[str, str]) -> Found:
    """The answers to these questions."""
    with opened(place) as postgres, postgres.transaction() as tx:
        return {name: int(tx.execute(text(query)).scalar_one()) for name, query in asked.items()}

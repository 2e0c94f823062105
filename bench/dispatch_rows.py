"""What the dispatch benchmark measures: ours with its aims, and the peers with what is compared. Values only."""

from dataclasses import dataclass

from bench.dispatch_report import Aim
from bench.dispatch_stage import MIGRATED, Side

PROCESSES = (1, 2, 4)
TICK_MS = 250.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One side, how much it gets to do, and by how many processes. `begins_with` names the row whose database it goes on with."""

    name: str
    does: str
    side: Side
    size: int
    quick_size: int
    processes: tuple[int, ...] = PROCESSES
    begins_with: str = ""
    is_counted: bool = True  # each count of `found` must be the size
    aims: tuple[Aim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer(Row):
    """Somebody else's way, the row of ours that does the same, and how many times faster ours has to be."""

    package: str  # on PyPI; empty: nothing has to be installed
    ours: str
    least_ratio: float | None = None
    note: str = ""


def _ours(module: str) -> Side:
    return Side(f"bench.dispatch_{module}", is_green=True, template=MIGRATED)


OURS = (
    Row(
        name="mint",
        does="due schedules to runs, ledger and outbox rows",
        side=_ours("mint"),
        size=20_000,
        quick_size=1_000,
        aims=(
            Aim("per_second", "jobs/s", "higher", {1: 6_000.0, 2: 9_000.0, 4: 9_000.0}),
            Aim("least_share_percent", "% by the slowest", "higher", {1: None, 2: 10.0, 4: 10.0}, is_worst=True),
            Aim(
                "longest_transaction_ms",
                "ms, longest transaction",
                "lower",
                dict.fromkeys(PROCESSES, TICK_MS),
                is_worst=True,
            ),
        ),
    ),
    Row(
        name="publish",
        does="outbox rows to Celery messages in Redis, by relays",
        side=_ours("publish"),
        size=20_000,
        quick_size=1_000,
        begins_with="mint",
        aims=(Aim("per_second", "messages/s", "higher", {1: 5_000.0, 2: None, 4: None}),),
    ),
    Row(
        name="through",
        does="due schedules to Celery messages in Redis, tick and relay in each process",
        side=_ours("through"),
        size=10_000,
        quick_size=1_000,
        aims=(
            Aim("seconds", "s", "lower", {1: None, 2: 8.0, 4: None}),
            Aim(
                "longest_transaction_ms",
                "ms, longest transaction",
                "lower",
                {1: None, 2: TICK_MS, 4: None},
                is_worst=True,
            ),
        ),
    ),
    Row(
        name="fair",
        does="one organisation with thousands due beside 49 with 20 each",
        side=_ours("fair"),
        size=5_980,
        quick_size=1_980,
        processes=(1,),
        is_counted=False,
        aims=(
            Aim("fair_claims", "claims of 200 until all small ones are served", "lower", {1: 5.0}),
            Aim("fifo_claims", "claims of 200, first in, first out", "lower", {1: None}),
        ),
    ),
)

PEERS = (
    Peer(
        name="send one by one",
        does="app.send_task for each outbox row of a claim of 25, plain Celery app",
        side=_ours("one_by_one"),
        size=20_000,
        quick_size=1_000,
        begins_with="mint",
        package="",
        ours="publish",
    ),
    Peer(
        name="procrastinate",
        does="PeriodicDeferrer, psycopg pool: every process defers every schedule",
        side=Side("bench.dispatch_procrastinate"),
        size=4_000,
        quick_size=300,
        package="procrastinate",
        ours="mint",
        least_ratio=5.0,
        note="smaller, since it is slower; it does not tell who deferred what",
    ),
    Peer(
        name="pgqueuer",
        does="fetch_schedule, enqueue and free in batches, asyncpg pool",
        side=Side("bench.dispatch_pgqueuer"),
        size=2_000,
        quick_size=300,
        package="pgqueuer",
        ours="mint",
        note="smaller, since its statement compares every schedule with every one; batches are kinder than its own loop",
    ),
    Peer(
        name="APScheduler",
        does="schedulers on a shared data store (asyncpg) and event broker (Redis): schedules to jobs",
        side=Side("bench.dispatch_apscheduler"),
        size=2_000,
        quick_size=300,
        package="apscheduler",
        ours="mint",
        least_ratio=5.0,
        note="smaller, since it is slower; a pre-release",
    ),
    Peer(
        name="celery-redbeat",
        does="one tick of the one beat that holds the lock: entries in Redis to Celery messages",
        side=Side("bench.dispatch_redbeat", keeps_redis=True),
        size=4_000,
        quick_size=300,
        processes=(1,),
        package="celery-redbeat",
        ours="through",
        note="smaller, since it is slower",
    ),
)

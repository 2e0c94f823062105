"""What each side of the dispatch benchmark is to the rest: a module with three functions, run as processes of its own.

`seed` makes the due schedules in an empty database, `work` turns them into jobs or messages together with its brothers,
`found` counts what there is afterwards. A process per call keeps event loops, patches and imports of one side out of the
others. Each one prints a line when it is ready and its answer as its last line; the clock is CLOCK_MONOTONIC, which all
processes of a machine share.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

READY = "ready"
SLOT_MINUTES = 9  # the slots lie in these last minutes, since procrastinate forgets what is older than ten
HALF_HOURLY, HOURLY = 5, 9  # of ten schedules: five run twice an hour, four once, one once a day


@dataclass(frozen=True, slots=True)
class Place:
    """Where a side works, and on what."""

    database_url: str
    redis_url: str
    count: int  # schedules
    at: datetime  # a whole minute, aware UTC; every schedule has one slot before it and the next one long after
    name: str  # of this process


@dataclass(frozen=True, slots=True)
class Share:
    """What one process of a side did. The moments are those of the monotonic clock."""

    began: float
    ended: float
    cpu_seconds: float  # of this process between the two
    done: int | None = None  # schedules or messages; None: the side does not tell who did which
    longest_transaction_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One schedule of the data that all sides get."""

    cron: str  # five fields, UTC
    slot: datetime  # the one that is due

    @property
    def fields(self) -> tuple[str, str]:
        """Its minute and its hour; the other three are stars."""
        minute, hour, *_ = self.cron.split()
        return minute, hour


@dataclass(frozen=True, slots=True)
class Start:
    """The moment at which all processes of a side began."""

    at: float
    cpu_seconds: float

    def share(self, done: int | None = None, longest_transaction_ms: float | None = None) -> Share:
        """What this process did, until now."""
        spent = time.process_time() - self.cpu_seconds
        return Share(self.at, time.monotonic(), spent, done, longest_transaction_ms)


Gate = Callable[[], Start]  # waits until every process of the side is ready
Found = Mapping[str, int]  # every count must be the number of schedules


def lines(count: int, at: datetime) -> Iterator[Line]:
    """So many schedules that are due at `at`, each with one slot; the next ones come after 20 minutes at the earliest."""
    for number in range(count):
        slot = at - timedelta(minutes=1 + number % SLOT_MINUTES)
        minute, other, kind = slot.minute, (slot.minute + 30) % 60, number % 10
        if kind < HALF_HOURLY:
            yield Line(f"{min(minute, other)},{max(minute, other)} * * * *", slot)
        elif kind < HOURLY:
            yield Line(f"{minute} * * * *", slot)
        else:
            yield Line(f"{minute} {slot.hour} * * *", slot)


def noop() -> None:
    """The task of every schedule of APScheduler, which finds it by its module; nobody runs it."""


def place() -> Place:
    """What the environment of this process says."""
    given = os.environ
    return Place(
        given["DATABASE_URL"],
        given["REDIS_URL"],
        int(given["BENCH_COUNT"]),
        datetime.fromisoformat(given["BENCH_AT"]),
        given.get("BENCH_NAME", "bench"),
    )


def _gate() -> Start:
    print(READY, flush=True)
    if not sys.stdin.readline():
        raise SystemExit("the benchmark has ended")
    return Start(time.monotonic(), time.process_time())


def main(seed: Callable[[Place], None], work: Callable[[Place, Gate], Share], found: Callable[[Place], Found]) -> None:
    """Do what the command line names."""
    match sys.argv[1:]:
        case ["seed"]:
            seed(place())
        case ["work"]:
            print(json.dumps(asdict(work(place(), _gate))), flush=True)
        case ["found"]:
            print(json.dumps(dict(found(place()))), flush=True)
        case _:
            raise SystemExit("usage: python -m bench.dispatch_SIDE seed|work|found, started by bench.dispatch")

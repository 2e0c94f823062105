"""Where the dispatch benchmark happens: one durable Postgres and Valkey, a fresh database a measurement, sides as processes."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from sqlalchemy.engine import make_url

from bench.dispatch_side import READY, Share
from bench.service import BenchError
from worker_app import runtime, settings
from worker_app.embedded.folder import Folder
from worker_app.embedded.stores import Stores
from worker_app.migrate.postgres import migrate_postgres

TOP = Path(__file__).resolve().parent.parent
EMPTY = "bench_empty"  # an empty database, for sides with tables of their own
MIGRATED = "bench_migrated"
GREEN = (
    "-m",
    "gevent.monkey",
    "--module",
)  # as production runs ours: psycopg2 yields to the hub, threads are greenlets
SIDE_SECONDS = 180.0  # a call of a side that takes longer has failed


@dataclass(frozen=True, slots=True)
class Side:
    """A module of the contract in `bench.dispatch_side`, and how it is run."""

    module: str
    is_green: bool = False  # under gevent
    template: str = EMPTY  # the database that `seed` begins with
    keeps_redis: bool = False  # what `seed` left there is what `work` works on

    def command(self, verb: str) -> list[str]:
        """The command line of one call."""
        return [sys.executable, *(GREEN if self.is_green else ("-m",)), self.module, verb]


@dataclass(frozen=True, slots=True)
class Measured:
    """What some processes of a side did together."""

    seconds: float  # from the first that began to the last that ended
    stores_cpu_seconds: float  # of Postgres and Valkey meanwhile
    shares: tuple[Share, ...]
    counts: Mapping[str, int]  # what was found afterwards


class Stage:
    """The stores. `close` leaves nothing behind."""

    def __init__(self, folder: Path) -> None:
        self._numbers = count()
        self._running: list[subprocess.Popen[str]] = []
        self._stores = Stores(Folder(folder), durable=True)  # as production: a commit waits for the disk
        try:
            self._addresses = self._stores.start()
            self._postmaster = psutil.Process(
                int(self.administer("SELECT pg_read_file('postmaster.pid')")[0][0].split()[0])
            )
            self._redis = runtime.redis_client(self._addresses.redis_url, connections=1)
            for name in (EMPTY, MIGRATED):
                self.administer(f"CREATE DATABASE {name}")
            migrate_postgres(self.url(MIGRATED), lambda _: None)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End what still runs, stop the stores, remove their data. Idempotent."""
        self._end(list(self._running))
        self._stores.delete_data()

    # Databases

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of a database, with the password."""
        return make_url(self._addresses.database_url).set(database=database).render_as_string(hide_password=False)

    def administer(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement outside a transaction; its rows, if it has any."""
        address = make_url(self._addresses.database_url)
        connection = psycopg2.connect(
            host=address.host, port=address.port, user=address.username, password=address.password, dbname=database
        )
        connection.autocommit = True
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def copied(self, template: str) -> str:
        """A new database with the content of `template`, which nobody is connected to."""
        name = f"bench_{next(self._numbers)}"
        self.administer(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        """Remove a database."""
        self.administer(f"DROP DATABASE {name} WITH (FORCE)")

    # Sides

    def seed(self, side: Side, size: int, at: datetime) -> str:
        """A database with the due schedules of a side, to be copied."""
        self._redis.flushall()
        name = self.copied(side.template)
        self._call(side, "seed", self._environment(name, size, at))
        self.administer("VACUUM (ANALYZE)", name)  # or autovacuum does it in the middle of a measurement
        return name

    def measure(self, side: Side, database: str, size: int, at: datetime, processes: int) -> Measured:
        """Let so many processes of a side work on a database from one moment on, and count. Raises BenchError."""
        if not side.keeps_redis:
            self._redis.flushall()
        self.administer("CHECKPOINT")  # what a measurement writes is its own
        environments = [self._environment(database, size, at, f"p{number}") for number in range(processes)]
        before = self._stores_cpu_seconds()
        answers = self._together([self._start(side, "work", environment) for environment in environments])
        spent = self._stores_cpu_seconds() - before
        shares = tuple(Share(**json.loads(answer)) for answer in answers)
        counts = json.loads(self._call(side, "found", self._environment(database, size, at)))
        seconds = max(share.ended for share in shares) - min(share.began for share in shares)
        return Measured(seconds, spent, shares, counts)

    def _stores_cpu_seconds(self) -> float:
        """What the stores have computed so far; a server process that has ended counts for the one that waited for it."""
        valkey: Any = self._redis.info("cpu")
        own = self._postmaster.cpu_times()
        ended = own.children_user + own.children_system
        living = 0.0
        for process in (self._postmaster, *self._postmaster.children()):
            with contextlib.suppress(psutil.NoSuchProcess):
                living += sum(process.cpu_times()[:2])
        return float(ended + living + valkey["used_cpu_user"] + valkey["used_cpu_sys"])

    def _environment(self, database: str, size: int, at: datetime, name: str = "bench") -> dict[str, str]:
        given = {
            "DATABASE_URL": self.url(database),
            "REDIS_URL": self._addresses.redis_url,
            "DEV_HOPS_FLEET": "worker",
            "CELERY_QUEUES": "",
            "METRICS_PORT": "0",
            "OUTBOX_MAX_DEPTH": "1000000",  # nobody consumes here
            "BENCH_COUNT": str(size),
            "BENCH_AT": at.isoformat(),
            "BENCH_NAME": name,
        }
        return settings.own_environment({}, given)

    def _start(self, side: Side, verb: str, environment: dict[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            side.command(verb),
            cwd=TOP,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def _call(self, side: Side, verb: str, environment: dict[str, str]) -> str:
        process = self._start(side, verb, environment)
        try:
            return _answer(process)
        finally:
            self._end([process])

    def _together(self, processes: Sequence[subprocess.Popen[str]]) -> list[str]:
        """Wait until all are ready, let them go at once, and take their answers."""
        watch = threading.Timer(SIDE_SECONDS, _kill, [processes])  # one may hang before it is ready
        watch.start()
        try:
            for process in processes:
                _wait_ready(process)
            for process in processes:
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):  # the answer says why
                    process.stdin.write("go\n")
                    process.stdin.flush()
            return [_answer(process) for process in processes]
        finally:
            watch.cancel()
            self._end(processes)

    def _end(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        """Kill those that still run; a call that was answered has ended already."""
        for process in processes:
            with process:  # waits for it and closes its pipes
                process.kill()
            self._running.remove(process)


def _answer(process: subprocess.Popen[str]) -> str:
    """The last line that a process prints. Raises BenchError when it fails."""
    try:
        output, complaint = process.communicate(timeout=SIDE_SECONDS)
    except subprocess.TimeoutExpired:
        raise BenchError(f"not done within {SIDE_SECONDS:.0f} s") from None
    if process.returncode == -signal.SIGKILL:
        raise BenchError(f"not done within {SIDE_SECONDS:.0f} s")
    if process.returncode != 0:
        last = complaint.strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
        raise BenchError(last[0])
    return (output.strip().splitlines() or [""])[-1]


def _kill(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()


def _wait_ready(process: subprocess.Popen[str]) -> None:
    """Read on until it says so, or until it has ended, which its answer then tells."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == READY:
            return

"""How fast due schedules become runs and messages, beside other schedulers on the same Postgres, Redis and data.

One embedded Postgres and Valkey, durable as in production, for all sides. Every measurement begins with a copy of the same
seeded database, an empty Redis and a checkpoint; its processes are ready and connected before the clock starts. Sides take
turns within a run, so that all see the same machine. What a side does stands in its module, `bench.dispatch_SIDE`.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import dispatch_report
from bench.dispatch_report import Results, Taken
from bench.dispatch_rows import OURS, PEERS, Peer, Row
from bench.dispatch_stage import Stage
from bench.service import BenchError, note
from worker_app import errors

RESULT = Path(__file__).resolve().parent / "results" / "dispatch.json"
RUNS = 3
LIBRARIES = ("celery", "kombu", "redis", "gevent", "sqlalchemy", "psycopg2-binary", "psycopg", "asyncpg", "croniter")
STORES = (
    "embedded Postgres with fsync and synchronous commits, 128 MB of shared buffers; Valkey with appendfsync everysec"
)


class Rows:
    """The results of all rows, and the databases that one row of a run leaves to another."""

    def __init__(self, stage: Stage, *, is_quick: bool) -> None:
        self.stage = stage
        self.is_quick = is_quick
        self.versions = {peer.name: installed(peer) for peer in PEERS}
        self.results = {
            row.name: {number: Results(number, self.size_of(row)) for number in row.processes}
            for row in (*OURS, *PEERS)
        }
        self._left: dict[str, str] = {}

    def size_of(self, row: Row) -> int:
        """How many schedules a row gets."""
        return row.quick_size if self.is_quick else row.size

    def run(self) -> None:
        """Measure each row once."""
        at = datetime.now(UTC).replace(second=0, microsecond=0)
        for row in (*OURS, *PEERS):
            if not isinstance(row, Peer) or self.versions[row.name] is not None:
                self._take(row, at)
        for database in self._left.values():
            self.stage.drop(database)
        self._left.clear()

    def _take(self, row: Row, at: datetime) -> None:
        try:
            begins_with = self._begins_with(row, at)
        except BenchError as error:
            for results in self.results[row.name].values():
                results.failures.append(str(error))
            note(f"{row.name}: {error}")
            return
        for processes, results in self.results[row.name].items():
            database = self.stage.copied(begins_with)
            try:
                self._measure(row, results, database, at)
            except BenchError as error:
                results.failures.append(str(error))
                note(f"{row.name} by {processes}: {error}")
            if processes == 1 and any(other.begins_with == row.name for other in (*OURS, *PEERS)):
                self._left[row.name] = database
            else:
                self.stage.drop(database)
        if not row.begins_with:
            self.stage.drop(begins_with)

    def _begins_with(self, row: Row, at: datetime) -> str:
        if not row.begins_with:
            return self.stage.seed(row.side, self.size_of(row), at)
        if row.begins_with not in self._left:
            raise BenchError(f"{row.begins_with} has failed")
        return self._left[row.begins_with]

    def _measure(self, row: Row, results: Results, database: str, at: datetime) -> None:
        found = self.stage.measure(row.side, database, results.size, at, results.processes)
        taken = Taken(
            results.size,
            found.seconds,
            tuple(share.done for share in found.shares),
            tuple(share.longest_transaction_ms for share in found.shares),
            sum(share.cpu_seconds for share in found.shares),
            found.stores_cpu_seconds,
            found.counts,
        )
        results.taken.append(taken)
        wrong = f", but {taken.wrong}" if row.is_counted and taken.wrong else ""
        note(f"{row.name} by {results.processes}: {results.size / found.seconds:,.0f} per second{wrong}")

    def measurements(self) -> list[dict[str, Any]]:
        """All that was seen, for the document."""
        return [
            dispatch_report.figures(
                row.name, row.does, results, is_ours=not isinstance(row, Peer), is_counted=row.is_counted
            )
            for row in (*OURS, *PEERS)
            for results in self.results[row.name].values()
        ]

    def judged(self) -> list[dict[str, Any]]:
        """Ours against its aims."""
        return [
            dispatch_report.judged(row.name, aim, self.results[row.name][processes], is_quick=self.is_quick)
            for row in OURS
            for aim in row.aims
            for processes in aim.limits
        ]

    def compared(self) -> list[dict[str, Any]]:
        """The peers beside ours."""
        return [
            dispatch_report.compared(
                peer.name,
                self.versions[peer.name],
                self.results[peer.ours][results.processes],
                results,
                least_ratio=None if self.is_quick else peer.least_ratio,
                note=peer.note if self.versions[peer.name] is not None else f"{peer.package} is missing: make install",
            )
            for peer in PEERS
            for results in self.results[peer.name].values()
        ]


def installed(peer: Peer) -> str | None:
    """The version of a peer's package, empty where it needs none, None where it is not installed."""
    try:
        return version(peer.package) if peer.package else ""
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Where and when this runs. The load is that of others as well: above 0 at the start, the figures are theirs too."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "cores_count": len(os.sched_getaffinity(0)),
        "load_average_1m_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        **{("redis_py" if name == "redis" else name): _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str | None:
    with contextlib.suppress(PackageNotFoundError):
        return version(name)
    return None


def run(runs: int, *, is_quick: bool) -> dict[str, Any]:
    """The whole benchmark as one document."""
    began, facts = time.monotonic(), machine()
    with TemporaryDirectory(prefix="dev-hops-bench-", ignore_cleanup_errors=True) as name:
        stage = Stage(Path(name).resolve() / "up")
        try:
            rows = Rows(stage, is_quick=is_quick)
            for number in range(runs):
                note(f"run {number + 1} of {runs}")
                rows.run()
        finally:
            _leave_me_alone()
            stage.close()
    facts["load_average_1m_at_end"] = round(os.getloadavg()[0], 2)
    return {
        "benchmark": "dispatch",
        "is_quick": is_quick,
        "runs_count": runs,
        "seconds": round(time.monotonic() - began),
        "stores": STORES,
        "machine": facts,
        "rows": rows.judged(),
        "compared": rows.compared(),
        "measurements": rows.measurements(),
    }


def _leave_me_alone() -> None:
    """From here on only the end is left to do, each step with its own deadline."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Turn due schedules into runs and messages, ours and other schedulers on the same stores and data.",
        epilog="Prints two tables and writes one JSON document; progress goes to standard error. Exit 1 when ours fails or "
        "loses or doubles anything; a missed aim is only said. Needs Linux and the optional dependencies `bench`; a peer "
        "that is not installed is left out. Takes some 8 minutes.",
    )
    parser.add_argument("--runs", type=_positive, metavar="N",
                        help="measure each row so often and take the median (default: 3, with --quick 1)")  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: whether it is right, not how fast; 2 minutes"
    )
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE",
                        help="where the document goes (default: bench/results/dispatch.json)")  # fmt: skip
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; returns the exit code."""
    options = _parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        report = run(options.runs or (1 if options.quick else RUNS), is_quick=options.quick)
    except errors.DevHopsError as error:
        note(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        note("interrupted")
        return 130
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(dispatch_report.markdown(report), end="")
    for text in dispatch_report.missed(report):
        note(f"not reached: {text}")
    for text in dispatch_report.broken(report):
        note(f"wrong: {text}")
    return 1 if dispatch_report.broken(report) else 0


if __name__ == "__main__":
    sys.exit(main())

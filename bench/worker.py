"""What the performance profile promises, measured on real workers: stock Celery, ours, and other task queues on the same work.

Each measurement gets a Redis and a folder of its own, and workers that are watched from outside. Stock, ours and the
others take turns within a run, so that all see the same machine; what only waits runs side by side. Needs Linux, for /proc.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import psutil
import redis
from kombu.exceptions import KombuError

from bench import worker_report
from bench.service import note
from bench.worker_report import Series, Value, Values
from bench.worker_rows import ROWS, Row
from bench.worker_stage import Stage
from worker_app import errors
from worker_app.embedded.postgres import EmbeddedPostgres

RESULT = Path(__file__).resolve().parent / "results" / "profile.json"
RUNS = 3
LANES = 2  # stock and ours of a row that only waits
QUICK_LANES = 4
KINDS = {"stock": "plain", "ours": "kept"}
LIBRARIES = ("celery", "kombu", "redis", "gevent", "dramatiq", "rq")
FAULTS = (
    AssertionError,  # what a measurement relies on did not come about
    OSError,
    subprocess.SubprocessError,
    psutil.Error,
    redis.RedisError,
    KombuError,
    errors.DevHopsError,
)
FAULT_TEXT = 300  # characters; an assertion may hold a whole log


class Theatre:
    """Where the stages stand: one folder for all, and one Postgres that is started when the first row asks for it."""

    def __init__(self, folder: Path, *, is_quick: bool) -> None:
        self.folder = folder
        self.is_quick = is_quick
        self._numbers = count()
        self._open: list[Stage] = []
        self._postgres = EmbeddedPostgres(folder / "postgres", password="bench", durable=False)
        self._turn = Lock()

    def database_url(self) -> str:
        """The address of the Postgres."""
        with self._turn:
            self._postgres.start()
        return self._postgres.dsn

    @contextmanager
    def stage(self, row: Row) -> Iterator[Stage]:
        """A new stage for one measurement."""
        folder = self.folder / f"{next(self._numbers)}"
        made = Stage(folder, durable=row.is_durable, database_url=self.database_url)
        self._open.append(made)
        try:
            with made:
                yield made
        finally:
            self._open.remove(made)

    def close_stages(self) -> None:
        """Stop whatever runs on a stage; a measurement in another thread fails then, and ends."""
        for stage in list(self._open):
            stage.close()

    def close(self) -> None:
        """Stop everything."""
        self.close_stages()
        self._postgres.delete_data()


class Measurement:
    """One row in the making: the values of each figure by side and peer, over all runs."""

    def __init__(self, theatre: Theatre, row: Row) -> None:
        self.theatre = theatre
        self.row = row
        self.sizes = row.sizes_of(is_quick=theatre.is_quick)
        self.peers = row.peers_of(is_quick=theatre.is_quick)
        self.series = {figure.key: {side: Series() for side in (*KINDS, *self.peers)} for figure in row.figures}

    def jobs(self) -> Iterator[Callable[[], None]]:
        """What has to be done for one run: stock, ours and the peers."""
        for side, kind in KINDS.items():
            yield partial(self._take, side, partial(self.row.measure, kind=kind, **self.sizes))
        for name, peer in self.peers.items():
            yield partial(self._take, name, partial(peer, **{**self.sizes, **self.row.peer_sizes.get(name, {})}))

    def _take(self, side: str, measure: Callable[[Stage], Values]) -> None:
        """One value of each figure, or the reason why there is none."""
        try:
            with self.theatre.stage(self.row) as stage:
                found = measure(stage)
        except FAULTS as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            note(f"{self.row.name}, {side}: failed: {text[:FAULT_TEXT]}")
            for series in self.series.values():
                series[side].failures.append(text[:FAULT_TEXT])
            return
        note(f"{self.row.name}, {side}: {', '.join(f'{key} {_said(value)}' for key, value in found.items())}")
        for key, series in self.series.items():
            if key in found:
                series[side].values.append(found[key])

    def entries(self) -> list[dict[str, Any]]:
        """The rows of the document."""
        found = []
        for figure in self.row.figures:
            peers = {name: series for name, series in self.series[figure.key].items() if name not in KINDS}
            stock, ours = (self.series[figure.key][side] for side in KINDS)
            setting = self.row.setting.format(**self.sizes)
            is_quick = self.theatre.is_quick
            found.append(worker_report.entry(self.row.name, setting, figure, stock, ours, peers, is_quick=is_quick))
        return found


def _said(value: Value) -> str:
    return "never" if value is None else worker_report.number(value)


def machine() -> dict[str, Any]:
    """Where and when this runs. The load is that of others as well: above 0 at the start, the figures are theirs too."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "cores_count": len(os.sched_getaffinity(0)),
        "load_average_1m_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        **{"redis_py" if name == "redis" else name: version(name) for name in LIBRARIES},
    }


def run(rows: Sequence[Row], runs: int, *, is_quick: bool) -> dict[str, Any]:
    """The whole benchmark as one document."""
    began = time.monotonic()
    facts = machine()
    with TemporaryDirectory(prefix="dev-hops-bench-", ignore_cleanup_errors=True) as name:
        theatre = Theatre(Path(name).resolve(), is_quick=is_quick)
        try:
            measurements = [Measurement(theatre, row) for row in rows]
            _measure(theatre, measurements, runs)
        finally:
            _leave_me_alone()
            theatre.close()
    facts["load_average_1m_at_end"] = round(os.getloadavg()[0], 2)
    return {
        "benchmark": "worker",
        "is_quick": is_quick,
        "runs_count": runs,
        "seconds": round(time.monotonic() - began),
        "machine": facts,
        "rows": [item for measurement in measurements for item in measurement.entries()],
    }


def _measure(theatre: Theatre, measurements: Sequence[Measurement], runs: int) -> None:
    """First those that only wait, side by side; then those that need the processor, one by one."""
    waiting = [item for item in measurements if item.row.is_waiting]
    with ThreadPoolExecutor(QUICK_LANES if theatre.is_quick else LANES) as pool:
        futures = [pool.submit(job) for item in waiting for _ in range(runs) for job in item.jobs()]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            theatre.close_stages()  # or leaving this block would wait for what runs
            raise
    for item in measurements:
        if item not in waiting:
            for _ in range(runs):
                for job in item.jobs():
                    job()


def _leave_me_alone() -> None:
    """From here on only the end is left to do, each step with its own deadline."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure what the performance profile promises: stock Celery and ours, on real workers and a real Redis.",
        epilog="Prints a table and writes one JSON document; progress goes to standard error. Exit 1 when ours misses a "
        f"limit or cannot be measured. Needs Linux and the optional dependencies `bench`. Rows: {', '.join(ROWS)}.",
    )
    parser.add_argument("--rows", type=_rows, default=list(ROWS.values()), metavar="A,B",
                        help="measure these rows alone (default: all)")  # fmt: skip
    parser.add_argument("--runs", type=_positive, metavar="N",
                        help="measure each row so often and judge the median (default: 3, with --quick 1)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it holds, not how fast; 3 minutes")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE",
                        help="where the document goes (default: bench/results/profile.json)")  # fmt: skip
    return parser.parse_args(arguments)


def _rows(text: str) -> list[Row]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in ROWS]:
        raise argparse.ArgumentTypeError(f"no row is named {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return [ROWS[name] for name in names]


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
        report = run(options.rows, options.runs or (1 if options.quick else RUNS), is_quick=options.quick)
    except KeyboardInterrupt:
        note("interrupted")
        return 130
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(worker_report.markdown(report), end="")
    for promise in worker_report.missed(report):
        note(f"not kept: {promise}")
    return 1 if worker_report.missed(report) else 0


if __name__ == "__main__":
    sys.exit(main())

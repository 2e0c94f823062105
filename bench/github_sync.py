"""How fast pull requests with reviews and commits are synced from a GitHub, beside GrimoireLab's perceval on the same server.

Ours is the real service on embedded, durable stores: what it reads it stores. perceval keeps what it reads in memory. The server
is the fake GitHub in a process of its own, with a fixed latency and no limit. Sides take turns within a run, so that all see the
same machine. Linux is needed.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import github_figures
from bench.github_ours import SLOTS, Ours
from bench.github_rows import Rows
from bench.github_server import LATENCY_SECONDS, World, serving
from bench.service import BenchError, note, running
from worker_app import errors, key_ring

RESULT = Path(__file__).resolve().parent / "results" / "github_sync.json"
RUNS = 3
WORLDS = (World("spread", repositories=20, pull_requests=100), World("single", repositories=1, pull_requests=2000))
QUICK = (World("spread", repositories=20, pull_requests=10), World("single", repositories=1, pull_requests=200))
LIBRARIES = ("perceval", "requests", "urllib3", "gevent", "celery", "sqlalchemy", "psycopg2-binary", "graphql-core")


def run(runs: int, worlds: Sequence[World]) -> dict[str, Any]:
    """The whole benchmark as one document. The caller has set a deadline."""
    began, facts, keys = time.monotonic(), machine(), key_ring.generate()
    with TemporaryDirectory(prefix="dev-hops-bench-") as name, ExitStack() as stack:
        servers = [stack.enter_context(serving(world)) for world in worlds]
        changes = {
            "PROVIDER_API_URLS": ",".join(f"{server.world.host}={server.url}" for server in servers),
            "CREDENTIAL_KEYS": keys,
            "SYNC_CONCURRENCY_PER_PROVIDER": str(SLOTS),
        }
        service = stack.enter_context(running(Path(name).resolve() / "up", changes))
        rows = Rows(Ours(service, key_ring.parse(keys)), servers)
        rows.warm_up()
        for number in range(runs):
            note(f"run {number + 1} of {runs}")
            rows.run()
        rows.live()
    facts["load_average_1m_at_end"] = round(os.getloadavg()[0], 2)
    return {
        "benchmark": "github_sync",
        "runs_count": runs,
        "seconds": round(time.monotonic() - began),
        "latency_seconds": LATENCY_SECONDS,
        "machine": facts,
        "rows": [row.report() for row in rows.rows],
        "live": [row.live for row in rows.rows],
    }


def machine() -> dict[str, Any]:
    """Where and when this runs. The load is that of others as well: above 0 at the start, the figures are theirs too."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "cores_count": len(os.sched_getaffinity(0)),
        "load_average_1m_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str | None:
    with contextlib.suppress(PackageNotFoundError):
        return version(name)
    return None


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Sync 2,000 pull requests with 6,000 reviews from a fake GitHub, by the real service and by perceval.",
        epilog="Prints two tables and writes one JSON document; progress goes to standard error. Exit 1 when a record is "
        "missing, double or old, also where things happened during the walk, or when the deadline passes. Needs Linux and the "
        "optional dependencies `bench` and `demo`. Takes some 10 minutes.",
    )
    parser.add_argument("--runs", type=_positive, metavar="N",
                        help="measure each side so often and take the median (default: 3, with --quick 1)")  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="200 pull requests: whether it is right, not how fast; 2 minutes"
    )
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE",
                        help="where the document goes (default: bench/results/github_sync.json)")  # fmt: skip
    parser.add_argument("--deadline", type=_positive, default=3600, metavar="SECONDS",
                        help="give up after so long and stop everything (default: 3600)")  # fmt: skip
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _raises(error: BaseException) -> Callable[..., None]:
    def raise_it(*_: object) -> None:
        raise error

    return raise_it


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; returns the exit code."""
    options = _parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    signal.signal(signal.SIGALRM, _raises(BenchError(f"not done after {options.deadline} s; see --deadline")))
    signal.alarm(options.deadline)
    try:
        report = run(options.runs or (1 if options.quick else RUNS), QUICK if options.quick else WORLDS)
    except (BenchError, errors.DevHopsError) as error:
        note(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        note("interrupted")
        return 130
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(github_figures.markdown(report), end="")
    for text in (broken := github_figures.broken(report)):
        note(f"wrong: {text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""How fast a git repository is synced by the real service, beside `git log` alone on the same repository in the same run.

Stores, one `worker` and one `worker-heavy` run as `dev-hops up` runs them, in a temporary folder that is removed at the end.
The times of a run are those the database wrote; memory is read from /proc by this process, so Linux is needed. The source is
a path of this machine: no network takes part on either side, and the mirror links the objects instead of copying them.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.memory import Memory
from bench.service import BenchError, Service, note, running
from tests import repositories, seed
from worker_app import errors, jobs
from worker_app.providers import git
from worker_app.records import Source
from worker_app.store import sources
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics
from worker_app.store.runs import RunView

CHECKOUT = Path(__file__).resolve().parent.parent
RESULT = CHECKOUT / "bench" / "results" / "git_sync.json"
PEER = ("log", "--numstat", "--branches", "--tags")
PEER_RUNS = 3
LARGEST_RATIO = 3.0  # aim: wall time of the sync, from the wish to the last record, to that of the peer
LARGEST_PEAK_MB = 200.0  # aim: memory of the worker process; 1 MB = 1,000,000 bytes everywhere here


@dataclass(frozen=True, slots=True)
class Alone:
    """The peer: git by itself on the repository."""

    seconds: tuple[float, ...]  # of each run
    cpu_seconds: tuple[float, ...]  # of each run; other programs of the machine hardly change it
    shas: frozenset[str]  # of every commit that branches and tags lead to

    @property
    def median_seconds(self) -> float:
        """The figure that the sync is held against."""
        return median(self.seconds)

    def figures(self) -> dict[str, object]:
        """What the document says about the peer."""
        return {
            "command": " ".join(("git", *PEER)),
            "runs_seconds": [round(item, 3) for item in self.seconds],
            "median_seconds": round(self.median_seconds, 3),
            "cpu_median_seconds": round(median(self.cpu_seconds), 2),
        }


def git_alone(repository: Path) -> Alone:
    """Run the peer several times and list the commits that a sync has to store."""
    shas = _git(repository, "rev-list", "--branches", "--tags", output=subprocess.PIPE).decode("ascii").split()
    seconds, cpu_seconds = [], []
    for _ in range(PEER_RUNS):
        began, cpu_before = time.perf_counter(), os.times()
        _git(repository, *PEER, output=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - began)
        cpu = os.times()
        used = cpu.children_user + cpu.children_system - cpu_before.children_user - cpu_before.children_system
        cpu_seconds.append(used)
    note(f"git alone: {', '.join(f'{item:.2f}' for item in seconds)} s for {len(shas)} commits")
    return Alone(tuple(seconds), tuple(cpu_seconds), frozenset(shas))


def _git(repository: Path, *arguments: str, output: int) -> bytes:
    command = [repositories.GIT, "-c", "safe.directory=*", *arguments]
    done = subprocess.run(command, cwd=repository, env=repositories.ENVIRONMENT, stdout=output, check=True)
    return done.stdout or b""


def generated(path: Path, commits: int) -> Path:
    """A new repository with so many commits."""
    began = time.perf_counter()
    repositories.generate(path, commits=commits)
    note(f"generated {commits} commits in {time.perf_counter() - began:.1f} s")
    return path


def add_source(postgres: Postgres, repository: Path) -> Source:
    """The repository as the only source of a new organisation."""
    host, ext_id = git.identity(str(repository))
    with postgres.transaction() as tx:
        org = sources.add_org(tx, "bench", "UTC")
        return sources.add_source(tx, org.id, "git", host, str(repository), ext_id)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen of the service."""

    first: RunView
    metrics_run: RunView
    second: RunView  # with nothing new to read
    cpu_seconds: float  # of the first run: the worker and its git processes
    idle_bytes: int  # of the worker before the first run
    checks: dict[str, bool]


def measure(service: Service, repository: Path, alone: Alone) -> Measured:
    """Sync the repository, wait for its metrics, sync it again."""
    source = add_source(service.postgres, repository)
    idle_bytes, cpu_before = service.memory["worker"].peak, service.cpu_seconds()
    note("syncing")
    first = service.sync(source)
    cpu_seconds = service.cpu_seconds() - cpu_before
    metrics_run = service.closed(jobs.metrics_run_id(first.id))
    is_right = check_commits(service.postgres, source, alone.shas)
    note("syncing again, with nothing new")
    second = service.sync(source)
    states = {item.state for item in (first, metrics_run, second)}
    checks = {
        "runs_succeeded": states == {jobs.RunState.SUCCEEDED},
        **is_right,
        "second_run_read_nothing": second.records == 0,
        "second_run_left_stored_commits_alone": stored_shas(service.postgres, source) == sorted(alone.shas),
    }
    return Measured(first, metrics_run, second, cpu_seconds, idle_bytes, checks)


def check_commits(postgres: Postgres, source: Source, wanted: frozenset[str]) -> dict[str, bool]:
    """Whether each commit of git is stored once and counted once."""
    stored = stored_shas(postgres, source)
    with postgres.transaction() as tx:
        rows = PostgresMetrics().read(tx, source.org_id, metrics=("commits",), grain="repo")
    counted = sum(row.value or 0.0 for row in rows)
    note(f"git lists {len(wanted)} commits, {len(stored)} are stored, the metric counts {counted:.0f}")
    return {
        "stored_commits_are_rev_list_count": len(stored) == len(wanted),
        "stored_shas_are_those_of_git": set(stored) == wanted,
        "no_commit_is_stored_twice": len(stored) == len(set(stored)),
        "metric_commits_sums_to_rev_list_count": counted == len(wanted),
    }


def stored_shas(postgres: Postgres, source: Source) -> list[str]:
    """The sha of each reachable commit that is stored, sorted, as often as it is stored."""
    statement = "SELECT ext_id FROM commits WHERE org_id = :org_id AND reachable"
    return sorted(map(str, seed.column(postgres, statement, org_id=source.org_id)))


def document(alone: Alone, measured: Measured, memory: Mapping[str, Memory]) -> dict[str, object]:
    """The figures, the checks and the aims. The unit stands at the end of each key."""
    first, second = measured.first, measured.second
    wall = _seconds(first.created_at, first.finished_at)
    ratio, peak = round(wall / alone.median_seconds, 2), _megabytes(memory["worker"].peak)
    return {
        "commits_count": len(alone.shas),
        "git_alone": alone.figures(),
        "sync": {
            "created_at": _text(first.created_at),
            "started_at": _text(first.started_at),
            "finished_at": _text(first.finished_at),
            "created_to_finished_seconds": wall,
            "started_to_finished_seconds": _seconds(first.started_at, first.finished_at),
            "created_to_metrics_finished_seconds": _seconds(first.created_at, measured.metrics_run.finished_at),
            "commits_per_second": round(len(alone.shas) / wall),
            "ratio_to_git_alone": ratio,
            "worker_and_git_cpu_seconds": round(measured.cpu_seconds, 2),
        },
        "second_run": {
            "created_to_finished_seconds": _seconds(second.created_at, second.finished_at),
            "started_to_finished_seconds": _seconds(second.started_at, second.finished_at),
            "records_count": second.records,
        },
        "memory": {
            "worker_idle_mb": _megabytes(measured.idle_bytes),
            "worker_peak_mb": peak,
            "largest_git_child_peak_mb": _megabytes(memory["worker"].git_peak),
            "worker_with_git_children_peak_mb": _megabytes(memory["worker"].together_peak),
            "worker_heavy_peak_mb": _megabytes(memory["worker-heavy"].peak),
        },
        "checks": measured.checks,
        "aims": {
            "ratio_to_git_alone_at_most_3": ratio <= LARGEST_RATIO,
            "worker_peak_below_200_mb": peak < LARGEST_PEAK_MB,
        },
    }


def _seconds(start: datetime | None, end: datetime | None) -> float:
    assert start is not None
    assert end is not None
    return round((end - start).total_seconds(), 3)


def _text(instant: datetime | None) -> str | None:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z") if instant else None


def _megabytes(count: int) -> float:
    return round(count / 1_000_000, 1)


def machine() -> dict[str, object]:
    """Where and when this runs. The load is that of others as well: above 0 at the start, the figures are theirs too."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "cores_count": len(os.sched_getaffinity(0)),
        "load_average_1m_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "git": _git(CHECKOUT, "--version", output=subprocess.PIPE).decode().removeprefix("git version ").strip(),
    }


def run(commits: int, repository: Path | None) -> dict[str, object]:
    """The whole benchmark as one document. The caller has set a deadline."""
    facts = machine()
    with tempfile.TemporaryDirectory(prefix="dev-hops-bench-") as name:
        folder = Path(name).resolve()
        chosen = repository or generated(folder / "repository.git", commits)
        alone = git_alone(chosen)
        with running(folder / "up") as service:
            figures = document(alone, measure(service, chosen, alone), service.memory)
    facts["load_average_1m_at_end"] = round(os.getloadavg()[0], 2)
    kind = str(repository) if repository else "generated"
    return {"benchmark": "git_sync", "repository": kind, **figures, "machine": facts}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Sync a git repository by the real service on embedded stores, and run `git log` alone beside it.",
        epilog="Prints one JSON document and writes it to bench/results/git_sync.json; progress goes to standard error. "
        "Exit 1 when a commit is missing, double or not counted, or when the deadline passes; a missed aim is only said. "
        "Needs Linux. Takes about a minute for 100,000 commits.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--commits", type=_positive, default=100_000, metavar="N",
                       help="commits of the repository that is generated (default: 100000)")  # fmt: skip
    which.add_argument(
        "--repository", type=_repository, metavar="PATH", help="take this repository instead of a new one"
    )
    parser.add_argument("--deadline", type=_positive, default=1800, metavar="SECONDS",
                        help="give up after so long and stop everything (default: 1800)")  # fmt: skip
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _repository(text: str) -> Path:
    path = Path(text).expanduser().resolve()
    try:
        _git(path, "rev-parse", "--git-dir", output=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        raise argparse.ArgumentTypeError(f"{path} is no git repository") from None
    return path


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
        found = run(options.commits, options.repository)
    except (BenchError, errors.DevHopsError, subprocess.CalledProcessError) as error:
        note(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        note("interrupted")
        return 130
    text = json.dumps(found, indent=2)
    print(text)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text + "\n", encoding="utf-8")
    checks = found["checks"]
    assert isinstance(checks, dict)
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

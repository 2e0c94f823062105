"""Several jobs that begin at the same moment: `python -m tests.integration.migrate.at_once URL...` tells them as JSON.

Forked from one process that has imported everything, so that they meet at the lock and not one after the other.
"""

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier

from worker_app.migrate.postgres import migrate_postgres

JOBS = 4
DEADLINE_SECONDS = 60.0
CHECKOUT = __file__.rpartition("/tests/")[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the jobs of one database did."""

    exits: list[int]
    applied: list[int]  # revisions by each job, ascending


def run(urls: Sequence[str]) -> list[Outcome]:
    """One outcome for each database, whose jobs begin at once; the databases one after the other."""
    command = [sys.executable, "-m", "tests.integration.migrate.at_once", *urls]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [Outcome(**item) for item in json.loads(done.stdout)]


def _job(url: str, start: Barrier, answers: "SimpleQueue[int]") -> None:
    start.wait(DEADLINE_SECONDS)
    answers.put(migrate_postgres(url, lambda _: None))


def _jobs(url: str) -> Outcome:
    fork = multiprocessing.get_context("fork")
    start, answers = fork.Barrier(JOBS), fork.SimpleQueue()
    jobs = [fork.Process(target=_job, args=(url, start, answers)) for _ in range(JOBS)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(DEADLINE_SECONDS)
    exits = [-1 if job.exitcode is None else job.exitcode for job in jobs]
    return Outcome(exits, sorted(answers.get() for code in exits if code == 0))


if __name__ == "__main__":
    outcomes = [{"exits": found.exits, "applied": found.applied} for found in map(_jobs, sys.argv[1:])]
    print(json.dumps(outcomes))  # noqa: T201 - the answer of this program

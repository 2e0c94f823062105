"""The peer's side of the GitHub benchmark: perceval in a process of its own, and whether it read what is there."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.github_figures import Taken
from bench.github_server import Server, World
from bench.service import BenchError

CHECKOUT = Path(__file__).resolve().parent.parent
READ_SECONDS = 900.0  # a reading that takes longer has failed
Items = Sequence[Mapping[str, Any]]  # as `bench.github_perceval` prints them
Truth = Mapping[str, Mapping[str, Any]]


def measure(server: Server, *, threads: int, most: int | None = None) -> tuple[Taken, bool]:
    """Read a server, or its first `most` pull requests, and say whether all of it was right. Raises BenchError."""
    truth = server.truth()
    names, of_each = share(server.world, sorted(truth), most)
    asked, cpu_before = len(server.log()), server.cpu_seconds()
    found = _read(server, threads, of_each, names)
    cpu_seconds, items = server.cpu_seconds() - cpu_before, found["items"]
    taken = Taken(
        pull_requests=len(items),
        seconds=round(found["seconds"], 3),
        requests=len(server.log()) - asked,
        slots=threads,
        records=sum(1 + len(item["reviews"]) + len(item["commits"]) + item["comments_count"] for item in items),
        given_back=None,
        cpu_seconds=round(found["cpu_seconds"], 3),
        postgres_cpu_seconds=None,
        server_cpu_seconds=round(cpu_seconds, 3),
    )
    return taken, is_right(items, truth) and len(items) == len(names) * of_each


def share(world: World, names: Sequence[str], most: int | None) -> tuple[Sequence[str], int]:
    """The repositories to read, and how many pull requests of each, so that it is `most` in all; None: everything."""
    of_each = min(world.pull_requests, most or world.pull_requests)
    return names[: max(1, (most or world.total) // of_each)], of_each


def is_right(items: Items, truth: Truth) -> bool:
    """Whether no pull request is there twice, and each has the reviews and commits that it really has."""
    reviews, commits = _parts(truth, "reviews"), _parts(truth, "pull_request_commits")
    seen = [item["pull_request"] for item in items]
    return len(seen) == len(set(seen)) and all(
        sorted(item["reviews"]) == sorted(reviews.get(item["pull_request"], ()))
        and sorted(item["commits"]) == sorted(commits.get(item["pull_request"], ()))
        for item in items
    )


def _parts(truth: Truth, name: str) -> dict[str, list[str]]:
    """By pull request, the ids of its reviews or the shas of its commits."""
    found: dict[str, list[str]] = {}
    for repository in truth.values():
        for key, one in repository[name].items():
            found.setdefault(one["pull_request"], []).append(key.rpartition(":")[2])
    return found


def _read(server: Server, threads: int, most: int, names: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.github_perceval", server.url, server.token, str(threads), str(most), *names]
    try:
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=READ_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"perceval was not done within {READ_SECONDS:.0f} s") from None
    if done.returncode:
        raise BenchError(f"perceval ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found

"""The server that both sides of the GitHub benchmark read: the fake GitHub, as a process of its own.

It answers after a fixed latency, remembers what it has answered, so that its own work does not show, and has no limit that
anybody meets. Orders go to its control port, which counts as no request.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import psutil

from bench.service import BenchError

LATENCY_SECONDS = 0.05
NO_LIMIT = str(10**9)
LIMITS = ("core", "graphql", "concurrency", "points", "graphql-points")
EMPTY = ("issues", "runs", "deployments")  # of which nobody asks anything
ORDER_SECONDS = 60.0  # that an order may take: the truth of a world is some megabytes
LIVE_SECONDS = 0.05  # between two things that happen


@dataclass(frozen=True, slots=True)
class World:
    """What the server is filled with."""

    name: str
    repositories: int
    pull_requests: int  # of each repository, each with three reviews

    @property
    def host(self) -> str:
        """The host as sources name it; the service is told where it really is."""
        return f"{self.name}.localhost"

    @property
    def total(self) -> int:
        """The pull requests of all repositories."""
        return self.repositories * self.pull_requests

    def command(self) -> list[str]:
        """The command line of the server."""
        sizes = {"repositories": self.repositories, "pull-requests": self.pull_requests} | dict.fromkeys(EMPTY, 0)
        limits = [text for name in LIMITS for text in (f"--{name}", NO_LIMIT)]
        amounts = [text for name, size in sizes.items() for text in (f"--{name}", str(size))]
        latency = ["--latency", str(LATENCY_SECONDS), str(LATENCY_SECONDS), "--remembers"]
        return [sys.executable, "-m", "worker_app.demo", *amounts, *limits, *latency]


class Server:
    """A running server."""

    def __init__(self, world: World, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchError(f"the fake GitHub {world.name} did not start")
        said = json.loads(line)
        self.world = world
        self.url: str = said["url"]
        self.token: str = said["token"]
        self._control: str = said["control"]
        self._process = psutil.Process(process.pid)

    def log(self) -> list[dict[str, Any]]:
        """Every request so far."""
        found: list[dict[str, Any]] = self._order("log")
        return found

    def truth(self) -> dict[str, dict[str, Any]]:
        """By full name of a repository, what a complete sync must hold."""
        found: dict[str, dict[str, Any]] = self._order("truth")
        return found

    def refused(self) -> int:
        """Requests that a limit refused: none, if the benchmark is to mean anything."""
        return sum(episode["refused"] for episode in self._order("limits")["episodes"])

    def cpu_seconds(self) -> float:
        """What the process has computed so far."""
        return float(sum(self._process.cpu_times()[:2]))

    @contextmanager
    def living(self) -> Iterator[list[str]]:
        """Things happen, one after the other, until the end of the block; they are told in the list."""
        told: list[str] = []
        is_over = threading.Event()

        def live() -> None:
            while not is_over.wait(LIVE_SECONDS):
                told.extend(self._order("live", {"steps": 1}))

        life = threading.Thread(target=live, name="github-life", daemon=True)
        life.start()
        try:
            yield told
        finally:
            is_over.set()
            life.join(ORDER_SECONDS)

    def _order(self, name: str, asked: object = None) -> Any:
        content = None if asked is None else json.dumps(asked).encode()
        with urlopen(Request(f"{self._control}/{name}", content), timeout=ORDER_SECONDS) as answer:
            return json.load(answer)


@contextmanager
def serving(world: World) -> Iterator[Server]:
    """A server that is ready; it ends with the block. Raises BenchError. The caller has set a deadline."""
    process = subprocess.Popen(world.command(), stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield Server(world, process)
        finally:
            process.kill()

"""The fleet: some client processes of one side against the mock provider, on one Redis; what came of it, as figures.

Every run has a Redis that was emptied and processes of its own. They are ready and connected before the first window begins,
which is on a whole second.
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

import redis

from bench import gate_figures
from bench.dispatch_side import READY
from bench.dispatch_stage import GREEN, TOP
from bench.gate_arrivals import Arrival
from bench.gate_figures import Seen
from bench.gate_scenarios import TRIPS, Scenario
from bench.gate_sides import Place
from bench.service import BenchError

START_SECONDS: Final = 0.5  # from the last that is ready to the start, at least
SLACK_SECONDS: Final = 90.0  # a run that takes so much longer than it should has failed


def measure(url: str, scenario: Scenario, side: str, seconds: float) -> dict[str, Any]:
    """Run one side in one scenario, and say what came of it. Raises BenchError."""
    return gate_figures.figures(scenario, side, seen(url, scenario, side, scenario.seconds or seconds))


def seen(url: str, scenario: Scenario, side: str, seconds: float) -> Seen:
    """Run the provider and the clients once. Raises BenchError when one of them fails or hangs."""
    shape = scenario.shape
    place = Place(url, shape.limit, int(shape.period), scenario.policy, scenario.greenlets)
    with TemporaryDirectory(prefix="dev-hops-bench-") as name, redis.Redis.from_url(url) as client:
        client.flushall()
        folder = Path(name)
        with _running(seconds + SLACK_SECONDS) as running:
            server = running.start("-m", "bench.gate_server", str(folder), json.dumps(asdict(shape)))
            port = int(running.line(server))
            given = {"side": side, "port": port, "seconds": seconds, "place": asdict(place)}
            clients = [running.start(*GREEN, "bench.gate_client", json.dumps(given)) for _ in range(scenario.processes)]
            for process in clients:
                running.line(process, READY)
            client.config_resetstat()
            begins_at = ceil(time.time() + START_SECONDS)
            began_at = time.monotonic() + begins_at - time.time()
            for process in (server, *clients):
                running.tell(process, f"{begins_at}\n")
            tallies = tuple(json.loads(running.answer(process)) for process in clients)
            trips, redis_seconds = _trips(client, TRIPS[side])
            running.answer(server)
        found = json.loads((folder / "arrivals.json").read_text(encoding="utf-8"))
        arrivals = tuple(sorted((Arrival(*row) for row in found["arrivals"]), key=lambda item: item.came_at))
        memory = sum(int(client.memory_usage(key, samples=0) or 0) for key in client.scan_iter())
        possible = shape.possible(seconds)
        return Seen(began_at, arrivals, tuple(found["hidden"]), tallies, trips, redis_seconds, memory, possible)


def _trips(client: redis.Redis, commands: Sequence[str]) -> tuple[int, float]:
    stats: Any = client.info("commandstats")
    rows = [stats[f"cmdstat_{name}"] for name in commands if f"cmdstat_{name}" in stats]
    return sum(row["calls"] for row in rows), sum(row["usec"] for row in rows) / 1e6


class _Running:
    """Processes of one run, each with pipes for input and output."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A Python program of the benchmark."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=TOP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def line(self, process: subprocess.Popen[str], wanted: str = "") -> str:
        """Its next line. Raises BenchError when it is another one, or none."""
        found = _pipe(process.stdout).readline().strip()
        if not found or (wanted and found != wanted):
            self.answer(process)
            raise BenchError(f"{process.args!r} said {found!r}")
        return found

    def tell(self, process: subprocess.Popen[str], text: str) -> None:
        """Write to it; one that has ended is told by its answer."""
        with contextlib.suppress(BrokenPipeError):
            _pipe(process.stdin).write(text)
            _pipe(process.stdin).flush()

    def answer(self, process: subprocess.Popen[str]) -> str:
        """Close its input, wait for its end; its last line. Raises BenchError when it failed."""
        output, complaint = process.communicate()
        if process.returncode != 0:
            last = complaint.strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
            raise BenchError(last[0])
        return (output.strip().splitlines() or [""])[-1]


@contextlib.contextmanager
def _running(seconds: float) -> Iterator[_Running]:
    """Processes that are killed when the block is left, or when it takes longer than so many seconds."""
    running = _Running()

    def kill() -> None:
        for process in running.processes:
            process.kill()

    watch = threading.Timer(seconds, kill)
    watch.start()
    try:
        yield running
    finally:
        watch.cancel()
        kill()
        for process in running.processes:
            with process:  # waits for it and closes its pipes
                pass


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream

"""A fleet before one provider: four workers of twenty greenlets, what befalls them, and what was seen of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.chaos.gate.server import Arrival

TOP = Path(__file__).resolve().parents[3]
PROCESSES, GREENLETS = 4, 20
MAX_CONC, REFUSED_ABOVE = 18, 40  # the provider would bear more: what the gate lets pass is counted, not punished
ENDLESS = 1_000_000
READY_SECONDS = 30.0
DEADLINE_SECONDS = 60.0  # of a request, unless a test needs leases that end soon

Process = subprocess.Popen[str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What provider and workers saw; all moments are seconds of the monotonic clock."""

    arrivals: Sequence[Arrival]
    reports: dict[int, dict[str, Any]]  # by the number of the worker; of those that lived to the end

    def between(self, since: float, until: float) -> list[Arrival]:
        """The requests that came then."""
        return [item for item in self.arrivals if since <= item.came_at < until]

    def rate(self, since: float, until: float) -> float:
        """Accepted requests a second."""
        return sum(not item.is_refused for item in self.between(since, until)) / (until - since)

    def most_under_way(self, since: float, until: float) -> int:
        """The most requests at once."""
        return max((item.under_way for item in self.between(since, until)), default=0)

    def recorded(self) -> list[float]:
        """When each refusal had been told to a gate."""
        return sorted(at for report in self.reports.values() for at in report["recorded"])

    def total(self, name: str) -> int:
        """A count over all workers."""
        return sum(report[name] for report in self.reports.values())

    def faults(self) -> list[str]:
        """What no worker should have met."""
        return [fault for report in self.reports.values() for fault in report["faults"]]

    def asked(self) -> int:
        """How often acquire ran."""
        return sum(report["trips"].get("acquire", 0) for report in self.reports.values())


class Fleet:
    """The workers and their provider."""

    def __init__(self, folder: Path, server: Process, members: list[Process]) -> None:
        self._folder, self._server = folder, server
        self.members = members

    def begin(self) -> float:
        """Let everybody begin."""
        for member in self.members:
            _tell(member, "begin")
        return time.monotonic()

    def block(self, seconds: float) -> float:
        """The provider refuses everything for so long."""
        _tell(self._server, f"block {seconds}")
        return time.monotonic()

    def signal(self, number: int, what: signal.Signals) -> float:
        """Send a worker a signal."""
        self.members[number].send_signal(what)
        return time.monotonic()

    def end(self) -> Seen:
        """Let everybody end, and hear them."""
        living = {number: member for number, member in enumerate(self.members) if member.poll() is None}
        for member in living.values():
            _tell(member, "end")
        reports = {number: json.loads(_hear(member)) for number, member in living.items()}
        _tell(self._server, "end")
        assert self._server.wait(READY_SECONDS) == 0
        arrivals = [Arrival(*item) for item in json.loads((self._folder / "arrivals.json").read_text())]
        return Seen(sorted(arrivals, key=lambda item: item.came_at), reports)


@contextmanager
def running(
    folder: Path,
    url: str,
    *,
    greenlets: int = GREENLETS,
    skews: Sequence[float] = (0.0,) * PROCESSES,
    steps: bool = False,
    deadline: float = DEADLINE_SECONDS,
    latency: tuple[float, float] = (0.03, 0.08),
    block_seconds: float = 2.0,
    limit: int = ENDLESS,
) -> Iterator[Fleet]:
    """A fleet that is ready, as long as the block lasts."""
    shape = {
        "most": REFUSED_ABOVE,
        "block_seconds": block_seconds,
        "latency": latency,
        "limit": limit,
        "period": 3600.0,
    }
    processes: list[Process] = []

    def start(module: str, *arguments: object) -> Process:
        command = [sys.executable, "-m", "gevent.monkey", "--module", f"tests.chaos.gate.{module}"]
        with (folder / f"{module}-{len(processes)}.log").open("w") as log:
            processes.append(
                subprocess.Popen(
                    [*command, *(item if isinstance(item, str) else json.dumps(item) for item in arguments)],
                    cwd=TOP,
                    env={"PATH": os.defpath},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            )
        return processes[-1]

    try:
        server = start("server", str(folder), shape)
        given = {"url": url, "port": int(_hear(server)), "greenlets": greenlets, "max_conc": MAX_CONC}
        given |= {"deadline": deadline, "steps": steps}
        members = [
            start("member", {**given, "number": number, "skew_seconds": skew}) for number, skew in enumerate(skews)
        ]
        for member in members:
            assert _hear(member).strip() == "ready", folder
        yield Fleet(folder, server, members)
    finally:
        for process in processes:
            process.kill()
            with process:
                pass


def say(**figures: object) -> None:
    """Print figures as one line of JSON."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def rest(seconds: float) -> None:
    """Let the fleet work for so long."""
    time.sleep(seconds)


def _tell(process: Process, line: str) -> None:
    pipe = _pipe(process.stdin)
    pipe.write(f"{line}\n")
    pipe.flush()


def _hear(process: Process) -> str:
    return _pipe(process.stdout).readline()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream

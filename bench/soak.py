"""Two workers under a mixed load for some minutes, while Redis restarts, a worker is killed and both renew themselves.

Every task has a name and leaves marks. At the end none may be missing, none may have two effects, and memory and
connections must be where they were. Redis, workers and marks are those of the worker benchmark. Needs Linux, for /proc.
"""

import argparse
import contextlib
import json
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import redis

from bench import worker_ledger
from bench.service import note
from bench.worker import FAULTS, machine
from bench.worker_footprint import starts
from bench.worker_ledger import Kill, Ledger, Sample
from bench.worker_process import WorkerProcess
from bench.worker_stage import Stage, seconds_until, visible_for

RESULT = Path(__file__).resolve().parent / "results" / "soak.json"
NAMES = ("first", "second")
LEAST_SLOTS = 2  # of autoscale
VISIBILITY_SECONDS = 20
MOST_TASKS = 20  # per slot; with 20 slots a worker renews itself every 400 tasks
NAP_SECONDS = (0.02, 0.5)
BURST_TASKS = (100, 400)
BUSY_SECONDS = 8.0  # the longest that a burst is waited for
IDLE_SECONDS = (1.0, 4.0)
UNDER_WAY_SECONDS = 0.5  # of a burst before something is done to it
AWAY_SECONDS = 2.0  # of Redis, and of a worker that was killed
RESTARTS = 3  # of Redis, spread over the time
KILL_AT = 0.3  # of the time
SAMPLE_SECONDS = 1.0
PROGRESS_SECONDS = 10.0
STEP_SECONDS = 0.1
DRAIN_SECONDS = VISIBILITY_SECONDS + 40.0  # for what a killed worker held, and a renewal on top
WARM_UP = 0.15  # of the time
LOG_CHARACTERS = 3000
CONNECTIONS = "connections"


def timetable(seconds: float) -> list[tuple[float, str]]:
    """When something is done to the workers, in order: (seconds after the start, what)."""
    restarts = [(seconds * (2 * number + 1) / (2 * RESTARTS), "restart") for number in range(RESTARTS)]
    return sorted([*restarts, (seconds * KILL_AT, "kill")])


class Soak:
    """One run: the load, what is done to it, and what was seen."""

    def __init__(self, stage: Stage, seconds: float, slots: int) -> None:
        self.stage = stage
        self.seconds = seconds
        self.slots = slots
        self.chance = random.Random(1)  # the same load in every run
        self.ledger = Ledger(stage.marks_path)
        self.sent: list[str] = []
        self.kills: list[Kill] = []
        self.restarts = 0
        self.ended_workers: list[str] = []
        self.memory: dict[str, list[Sample]] = {name: [] for name in NAMES}
        self.clients: list[Sample] = []
        self.began = time.monotonic()
        self.next_sample = self.next_progress = 0.0
        self.started = 0
        self.workers = {name: self._worker(name) for name in NAMES}

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    def run(self) -> None:
        """The load until the time is over, then wait until all is settled."""
        for worker in self.workers.values():
            worker.wait_ready()
        self.began = time.monotonic()
        events = timetable(self.seconds)
        while self.elapsed < self.seconds:
            self._burst(self.chance.randint(*BURST_TASKS))
            if events and self.elapsed >= events[0][0]:
                self._pause(UNDER_WAY_SECONDS)
                self._restart_redis() if events.pop(0)[1] == "restart" else self._kill()
            self._wait_empty(BUSY_SECONDS)
            self._pause(min(self.chance.uniform(*IDLE_SECONDS), max(0.0, self.seconds - self.elapsed)))
        note("waiting for the rest")
        self._wait_empty(DRAIN_SECONDS)
        self._pause(1.0)

    def _worker(self, name: str) -> WorkerProcess:
        self.started += 1
        return self.stage.start_worker(
            "kept",
            name=name,
            autoscale=(self.slots, LEAST_SLOTS),
            max_tasks=MOST_TASKS,
            arguments=visible_for(VISIBILITY_SECONDS, self.slots),
        )

    def _burst(self, count: int) -> None:
        names = [f"nap-{len(self.sent) + number}" for number in range(count)]
        self.stage.fill("nap", ([round(self.chance.uniform(*NAP_SECONDS), 3), name] for name in names))
        self.sent += names

    def _restart_redis(self) -> None:
        note("Redis restarts")
        self.stage.stop_redis()
        self._pause(AWAY_SECONDS)
        self.stage.start_redis()
        self.restarts += 1

    def _kill(self) -> None:
        name = NAMES[0]
        note(f"the {name} worker is killed")
        worker = self.workers[name]
        self.kills.append(Kill(worker.pid, time.time()))
        worker.kill()
        self._pause(AWAY_SECONDS)
        self.workers[name] = self._worker(name)

    def _wait_empty(self, limit_seconds: float) -> None:
        def look() -> bool:
            self._look()
            return self.stage.left() == 0

        seconds_until(look, limit_seconds)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._look()
            time.sleep(STEP_SECONDS)

    def _look(self) -> None:
        """Sample, say how it goes, and bring back a worker that has ended by itself."""
        for name, worker in self.workers.items():
            if worker.process.poll() is not None and worker.pid not in {kill.pid for kill in self.kills}:
                self.ended_workers.append(f"the {name} worker ended with {worker.process.returncode}")
                note(self.ended_workers[-1])
                self.workers[name] = self._worker(name)
        if self.elapsed >= self.next_sample:
            self.next_sample = self.elapsed + SAMPLE_SECONDS
            self._sample()
        if self.elapsed >= self.next_progress:
            self.next_progress = self.elapsed + PROGRESS_SECONDS
            self._say()

    def _sample(self) -> None:
        for name, worker in self.workers.items():
            with contextlib.suppress(psutil.Error):
                self.memory[name].append((self.elapsed, worker.memory_mb()))
        with contextlib.suppress(redis.RedisError):
            self.clients.append((self.elapsed, self.stage.clients_count()))

    def _say(self) -> None:
        memory = ", ".join(f"{samples[-1][1]:.0f}" for samples in self.memory.values() if samples)
        note(
            f"{self.elapsed:.0f} of {self.seconds:.0f} s: {len(self.sent)} sent, {len(self.ledger.read().ended)} ended, "
            f"{self.renewals} renewals, {self.restarts} restarts, {len(self.kills)} kills, {memory} MB, "
            f"{self.clients[-1][1] if self.clients else 0:.0f} connections"
        )

    @property
    def renewals(self) -> int:
        """How often the workers have renewed themselves."""
        return max(0, sum(starts(worker) for worker in self.workers.values()) - self.started)

    def report(self) -> dict[str, Any]:
        """What was seen, and what is wrong with it."""
        ledger, warm_up = self.ledger.read(), WARM_UP * self.seconds
        lost, doubled = ledger.lost(self.sent), ledger.doubled(self.kills)
        repeated, ready, unacked = ledger.repeated(self.kills), self.stage.ready(), self.stage.unacked()
        trends = {f"memory of the {name} worker": worker_ledger.trend(self.memory[name], warm_up) for name in NAMES}
        trends[CONNECTIONS] = worker_ledger.trend(self.clients, warm_up)
        found = worker_ledger.violations(
            lost=lost,
            doubled=doubled,
            repeated=repeated,
            left=ready + unacked,
            happened={
                "restarts of Redis": (self.restarts, RESTARTS),
                "kills": (len(self.kills), 1),
                "renewals": (self.renewals, len(NAMES)),
            },
            ended_workers=self.ended_workers,
            # pools are empty after a restart of Redis or a renewal, and fill up again
            trends={name: (item, float(self.slots) if name == CONNECTIONS else 0.0) for name, item in trends.items()},
        )
        return {
            "seconds": self.seconds,
            "slots_per_worker": self.slots,
            "sent_count": len(self.sent),
            "ended_count": len(ledger.ended),
            "lost_count": len(lost),
            "double_effects_count": len(doubled),
            "repeated_count": len(repeated),
            "ended_at_the_kill_count": len(ledger.at_the_kill(self.kills)),
            "left_ready_count": ready,
            "left_unacked_count": unacked,
            "redis_restarts_count": self.restarts,
            "kills_count": len(self.kills),
            "renewals_count": self.renewals,
            "trends": {name: asdict(item) | {"growth": item.growth} if item else None for name, item in trends.items()},
            "violations": found,
        }


def run(seconds: float, slots: int) -> dict[str, Any]:
    """The whole soak as one document."""
    facts = machine()
    with (
        TemporaryDirectory(prefix="dev-hops-soak-", ignore_cleanup_errors=True) as name,
        Stage(Path(name).resolve() / "stage", durable=True) as stage,
    ):
        soak = Soak(stage, seconds, slots)
        soak.run()
        found = soak.report()
        if found["violations"]:
            for worker in soak.workers.values():
                note(f"the end of the log of the {worker.name} worker:\n{worker.log[-LOG_CHARACTERS:]}")
        return {"benchmark": "soak", **found, "machine": facts}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Two workers under a mixed load, with restarts of Redis, a killed worker and renewals.",
        epilog="Writes one JSON document to bench/results/soak.json; progress goes to standard error. Exit 1 when a task "
        "is lost or has two effects, a worker ends, or memory or connections grow. Needs Linux.",
    )
    parser.add_argument("--minutes", type=float, default=2.0, metavar="M", help="how long (default: 2; at least 1)")
    parser.add_argument("--slots", type=int, default=20, metavar="N", help="most slots of each worker (default: 20)")
    parser.add_argument("--json", action="store_true", help="print the document as well")
    options = parser.parse_args(arguments)
    if options.minutes < 1 or options.slots < LEAST_SLOTS:
        parser.error(f"--minutes is at least 1 and --slots at least {LEAST_SLOTS}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge, write; returns the exit code."""
    options = _parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        found = run(60.0 * options.minutes, options.slots)
    except FAULTS as error:
        note(f"failed: {type(error).__name__}: {error}")
        return 1
    except KeyboardInterrupt:
        note("interrupted")
        return 130
    text = json.dumps(found, indent=2)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text + "\n", encoding="utf-8")
    if options.json:
        print(text)
    for sentence in found["violations"]:
        note(f"violated: {sentence}")
    note(f"{found['ended_count']} of {found['sent_count']} tasks ended once; {len(found['violations'])} violations")
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""One worker of the fleet: a gevent-patched process whose greenlets send as fast as the gate lets them.

Its document holds `number`, `url`, `port`, `greenlets`, `max_conc`, `deadline`, `skew_seconds` and `steps`. It works until it
reads a line, and prints what it saw. With `steps` the scripts take their time from Redis and what stands under CLOCK_STEP.
"""

import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import gevent
from gevent.queue import LifoQueue

from tests.chaos.gate.clock import STEPPED
from worker_app import errors
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Reason
from worker_app.gate.listener import Listener
from worker_app.gate.policies import GITHUB
from worker_app.gate.policy import BucketPolicy, ProviderPolicy
from worker_app.gate.redis_book import RedisBook
from worker_app.gate.signals import REFUSED, Kind, Quota, RateSignal

KEY = GateKey("github", "chaos", "github.com")
ANSWER_SECONDS = 30.0
STAND_BACK_SECONDS = 1.0  # at most; a deferred batch comes back when its time is over


@dataclass
class Report(Listener):
    """What a worker saw; all moments are monotonic."""

    trips: Counter[str] = field(default_factory=Counter)
    deferrals: Counter[str] = field(default_factory=Counter)
    outages: list[tuple[float, bool]] = field(default_factory=list)
    recorded: list[float] = field(default_factory=list)  # when a refusal had been told to the gate
    faults: list[str] = field(default_factory=list)
    granted: int = 0
    leaks: int = 0
    lost: int = 0
    steps: int = 0

    def trip(self, script: str, seconds: float) -> None:
        """Count it."""
        self.trips[script] += 1

    def deferred(self, key: GateKey, reason: Reason) -> None:
        """Count it."""
        self.deferrals[reason.value] += 1

    def outage(self, is_over: bool, seconds: float, error: str = "") -> None:
        """Keep the moment."""
        self.outages.append((time.monotonic(), is_over))

    def leaked(self, key: GateKey, bucket: str) -> None:
        """Count it."""
        self.leaks += 1

    def lease_lost(self, key: GateKey) -> None:
        """Count it."""
        self.lost += 1

    def clock_stepped(self, seconds: float) -> None:
        """Count it."""
        self.steps += 1


def policy(max_conc: int, deadline: float) -> ProviderPolicy:
    """As GitHub, without a pace."""
    buckets = {**GITHUB.buckets, "ep.repos.get": BucketPolicy()}
    return replace(GITHUB, buckets=buckets, max_conc=max_conc, request_deadline=deadline)


def signal_of(reply: dict[str, Any]) -> RateSignal:
    """What a classifier would have said."""
    kind = Kind(reply["kind"])
    quotas = (Quota("core", reply["limit"], reply["remaining"], reply["reset_in"]),) if "limit" in reply else ()
    bucket = "core" if kind is Kind.PRIMARY else "*"
    return RateSignal(kind, bucket=bucket, after=max(1.0, reply["after"]) if "after" in reply else None, quotas=quotas)


class Slot:
    """One slot of the worker: sends, is told to wait, sends again."""

    def __init__(self, number: int, gate: Gate, port: int, report: Report, ending: threading.Event) -> None:
        self._number, self._gate, self._report, self._ending = number, gate, report, ending
        self._line = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS).makefile("rwb", buffering=0)

    def work(self) -> None:
        """Until the worker ends."""
        while not self._ending.is_set():
            try:
                self._once()
            except errors.Deferral as wait:
                self._ending.wait(min(STAND_BACK_SECONDS, wait.retry_in) * random.uniform(0.5, 1.0))
            except Exception as fault:  # noqa: BLE001 - every one of them is told
                self._report.faults.append(repr(fault))
                self._ending.wait(1.0)

    def _once(self) -> None:
        with self._gate.slot(KEY, "repos.get", max_wait=5.0) as permit:
            self._report.granted += 1
            self._line.write(f"{self._number} {time.monotonic()!r}\n".encode())
            signal = signal_of(json.loads(self._line.readline()))
            permit.observe(signal)
            if signal.kind in REFUSED:
                self._report.recorded.append(time.monotonic())


def main(given: dict[str, Any]) -> None:
    """Work until a line comes, and tell."""
    true = time.time
    time.time = lambda: true() + given["skew_seconds"]
    report, ending = Report(), threading.Event()
    of = policy(given["max_conc"], given["deadline"])
    gate = Gate.from_url(given["url"], slots=None, queue_class=LifoQueue, policies={of.name: of}, listener=report)
    if given["steps"]:
        gate._book = gate._knowledge.outage._book = RedisBook(gate._client, on_trip=report.trip, clock=STEPPED)
    slots = [Slot(given["number"], gate, given["port"], report, ending) for _ in range(given["greenlets"])]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    working = [gevent.spawn(slot.work) for slot in slots]
    gevent.get_hub().threadpool.apply(sys.stdin.readline)
    ending.set()
    gate.stop()
    gevent.joinall(working, timeout=10)
    sys.stdout.write(json.dumps(vars(report)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

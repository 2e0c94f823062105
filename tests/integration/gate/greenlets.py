"""Greenlets on one gate, in a patched interpreter: started by a test, prints one JSON document of what it saw.

python -m gevent.monkey --module tests.integration.gate.greenlets URL crowd|kills
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import gevent
from gevent.queue import LifoQueue

from tests.integration.gate.conftest import UNPACED
from tests.integration.gate.timed import KEY
from worker_app import errors
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Priority
from worker_app.gate.listener import Listener
from worker_app.gate.redis_book import leases_key
from worker_app.gate.signals import Kind, Quota, RateSignal

OK = RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5_000_000, 4_900_000, 3000.0),))
OTHER = GateKey("github", "beta", "github.com")
GREENLETS, REQUESTS, KILLS = 40, 15, 400
SETTLE_SECONDS = 5.0


class Counting(Listener):
    """Counts outages."""

    outages = 0

    def outage(self, is_over: bool, seconds: float, error: str = "") -> None:
        """Redis went away or came back."""
        self.outages += not is_over


def in_use(gate: Gate) -> int:
    """Connections of the gate's pool that somebody holds."""
    pool: Any = gate._client.connection_pool
    return len(pool._connections) - sum(item is not None for item in pool.pool.queue)


def live(gate: Gate) -> int:
    """Leases that Redis counts."""
    return int(gate._client.zcard(leases_key(KEY)))


def crowd(gate: Gate) -> Mapping[str, object]:
    """More greenlets than there is room for, on a pool of five connections."""
    done = Counter[str]()

    def work() -> None:
        for _ in range(REQUESTS):
            with gate.slot(KEY, "repos.get", max_wait=5.0) as permit:
                gevent.sleep(0.003)
                permit.observe(OK)
                done["requests"] += 1

    workers = [gevent.spawn(work) for _ in range(GREENLETS)]
    gevent.joinall(workers, timeout=20)
    held = [gate.permit(KEY, "repos.get") for _ in range(20)]
    waiters = [gevent.spawn(gate.permit, KEY, "repos.get", max_wait=2.0) for _ in range(GREENLETS)]
    most = 0
    for _ in range(20):
        gevent.sleep(0.01)
        most = max(most, in_use(gate))
        assert gate.check(OTHER).allowed
    gevent.killall(waiters)
    for permit in held:
        permit.end()
    return {"done": done["requests"], "wanted": GREENLETS * REQUESTS, "held_by_waiters": most}


def kills(gate: Gate) -> Mapping[str, object]:
    """Greenlets that are killed at any moment between the first step and the last."""
    chance = random.Random(1)
    ends = Counter[str]()

    def work() -> None:
        try:
            with gate.slot(KEY, "repos.get", priority=chance.choice(list(Priority)), max_wait=0.2) as permit:
                gevent.sleep(chance.uniform(0, 0.004))
                permit.observe(OK)
        except errors.RateLimited:
            ends["limited"] += 1
        except gevent.GreenletExit:
            ends["killed"] += 1
            raise
        else:
            ends["done"] += 1

    workers: list[gevent.Greenlet[[], None]] = []
    for _ in range(KILLS):
        workers = [worker for worker in workers if not worker.dead] + [gevent.spawn(work) for _ in range(3)]
        gevent.sleep(chance.uniform(0, 0.003))
        gevent.spawn(chance.choice(workers).kill)
    gevent.joinall(workers, timeout=20)
    gate.permit(KEY, "user.get").end()
    return dict(ends)


def main(url: str, what: str) -> None:
    """Do it and tell."""
    listener = Counting()
    deeds: Mapping[str, Callable[[Gate], Mapping[str, object]]] = {"crowd": crowd, "kills": kills}
    gate = Gate.from_url(url, slots=None, queue_class=LifoQueue, listener=listener, policies=UNPACED)
    gate.permit(KEY, "repos.get").observe(OK)
    told = dict(deeds[what](gate))
    until = time.monotonic() + SETTLE_SECONDS
    while live(gate) and time.monotonic() < until:
        gevent.sleep(0.01)
    asking = gate._asking
    told |= {
        "live": live(gate),
        "in_use": in_use(gate),
        "in_line": len(gate._lines._lines) + len(gate._lines._hungry),
        "asleep": asking._sleepers,
        "known_leases": len(asking._leases._live) + len(asking._leases._owed),
        "outages": listener.outages,
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""One process of a fleet, started by a test with a JSON document: `url`, `skew_seconds` and what it does.

It prints one JSON document, and ends when its input does.
"""

import json
import os
import sys
import time
from dataclasses import replace
from typing import Any

from tests.integration.gate.timed import KEY
from worker_app.gate.gate import Gate
from worker_app.gate.policies import GITHUB
from worker_app.gate.signals import Kind, Quota, RateSignal

OK = RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 4900, 3000.0),))
FEW = {"github": replace(GITHUB, max_conc=3, request_deadline=0.5)}


def do(gate: Gate, given: dict[str, Any]) -> object:
    """What the test asked for."""
    if given["does"] == "back off":
        return gate.backoff(KEY, given["seconds"], reason="secondary")
    if given["does"] == "check":
        return gate.check(KEY).retry_in
    gate.permit(KEY, "repos.get").observe(OK)
    if given["does"] == "fork":
        return fork(gate)
    return [gate.permit(KEY, "repos.get").lease for _ in range(3)]


def fork(gate: Gate) -> dict[str, object]:
    """A request is under way when the process forks: the child sends one of its own and holds nothing of its parent's."""
    mine = gate.permit(KEY, "repos.get")
    ours, theirs = os.pipe()
    if os.fork() == 0:
        with gate.slot(KEY, "repos.get") as permit:
            permit.observe(OK)
            held = list(gate._asking._leases.live(KEY))
        os.write(theirs, json.dumps({"child": permit.lease, "held_by_child": held}).encode())
        os._exit(0)
    told: dict[str, object] = json.loads(os.read(ours, 4096))
    os.wait()
    return {**told, "parent": mine.lease, "is_held": list(gate._asking._leases.live(KEY)) == [mine.lease]}


def main(given: dict[str, Any]) -> None:
    """Do it with a clock that goes wrong by so much, tell, and wait for the end."""
    true = time.time
    time.time = lambda: true() + given.get("skew_seconds", 0.0)
    gate = Gate.from_url(given["url"], policies=FEW)
    sys.stdout.write(json.dumps(do(gate, given)) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

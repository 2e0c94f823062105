"""One client process of the fleet: so many greenlets that send as fast as their side lets them.

Started by `bench.gate_fleet`, patched by gevent, with one JSON document. It says when it is ready, is told the moment to
begin, and prints what it did.
"""

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.dispatch_side import READY
from bench.gate_ours import Ours
from bench.gate_sides import Answer, Client, Limits, Place, Pyrate, RetryAfter, SharedTimestamp

SIDES: Mapping[str, Callable[[Place], Client]] = {
    "retry-after": RetryAfter,
    "shared-timestamp": SharedTimestamp,
    "limits": Limits,
    "pyrate-limiter": Pyrate,
    "ours": Ours,
}
ANSWER_SECONDS = 10.0  # of the mock; it answers within 80 ms
GRACE_SECONDS = 15.0  # after the end of a run, for what is under way


class Line:
    """One connection that is kept open, for one greenlet."""

    def __init__(self, port: int, until: float) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
        self._connection.connect()
        self._until = until

    def send(self) -> Answer | None:
        """One request; None when the time of the run is over."""
        if time.monotonic() >= self._until:
            return None
        self._connection.request("GET", "/", headers={"X-Sent": repr(time.monotonic())})
        reply = self._connection.getresponse()
        body = reply.read()
        return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, body)


def work(client: Client, port: int, begins_at: float, seconds: float, greenlets: int) -> None:
    """Send from `begins_at`, an epoch moment, for so many seconds; raises the first fault of a greenlet."""
    faults: list[BaseException] = []
    until = time.monotonic() + begins_at - time.time() + seconds

    def run() -> None:
        try:
            line = Line(port, until)
            time.sleep(max(0.0, begins_at - time.time()))
            while time.monotonic() < until:
                client.once(line.send, until)
        except BaseException as fault:
            faults.append(fault)
            raise

    threads = [threading.Thread(target=run, daemon=True) for _ in range(greenlets)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + GRACE_SECONDS - time.monotonic()))
    if faults:
        raise faults[0]


def main(arguments: Sequence[str]) -> None:
    """Make the client, be told the moment, work, tell."""
    given: dict[str, Any] = json.loads(arguments[0])
    place = Place(**given["place"])
    client = SIDES[given["side"]](place)
    print(READY, flush=True)
    begins_at = float(sys.stdin.readline())
    work(client, given["port"], begins_at, given["seconds"], place.greenlets)
    print(json.dumps(asdict(client.tally)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

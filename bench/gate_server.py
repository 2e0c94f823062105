"""The mock provider as a process: answers on a socket, 30 to 80 ms later, and writes down every arrival.

Started by `bench.gate_fleet` with a folder and a shape. It says on which port it listens, is told when the first window
begins, and writes `arrivals.json` into the folder when its input ends.
"""

import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import Any

import gevent
from gevent.server import StreamServer

from bench.gate_arrivals import Arrival
from bench.gate_provider import Provider, Shape, reply

LATENCY_SECONDS = (0.03, 0.08)
READ_BYTES = 4096
BACKLOG = 256
END = b"\r\n\r\n"  # of a request; none has a body
SENT = b"X-Sent: "  # the client's clock at the start of a request


class Mock:
    """A provider behind a socket."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.arrivals: list[Arrival] = []
        self.hidden: list[float] = []  # when the hidden consumer got a request, monotonic
        self._chance = random.Random(1)  # the same latencies in every run

    def serve(self, connection: socket, _: object) -> None:
        """Answer one connection until the client closes it."""
        buffered = b""
        while True:
            while END not in buffered:
                chunk = connection.recv(READ_BYTES)
                if not chunk:
                    return
                buffered += chunk
            head, _, buffered = buffered.partition(END)
            connection.sendall(self.answer(head))

    def answer(self, head: bytes) -> bytes:
        """Judge a request on arrival, and answer after the latency."""
        sent_at = float(head.partition(SENT)[2].partition(b"\r\n")[0])
        came_at = time.monotonic()
        verdict = self.provider.arrive(time.time())
        gevent.sleep(self._chance.uniform(*LATENCY_SECONDS))
        self.provider.leave()
        self.arrivals.append(Arrival(sent_at, came_at, time.monotonic(), verdict.in_flight, verdict.outcome))
        return reply(verdict, self.provider.shape.model, time.time())

    def hide(self) -> None:
        """Be the hidden consumer: at random moments of the first seconds of each window, for ever."""
        shape, begins_at = self.provider.shape, self.provider.began_at
        while True:
            offsets = [self._chance.uniform(0, shape.hidden_seconds) for _ in range(shape.hidden_per_period)]
            for offset in sorted(offsets):
                gevent.sleep(max(0.0, begins_at + offset - time.time()))
                if self.provider.quota.take(time.time()):
                    self.hidden.append(time.monotonic())
            begins_at += shape.period
            gevent.sleep(max(0.0, begins_at - time.time()))


def main(arguments: Sequence[str]) -> None:
    """Listen, be told the start, serve until the input ends, write."""
    folder, given = Path(arguments[0]), json.loads(arguments[1])
    shape = Shape(**{**given, "blocks_at": tuple(given["blocks_at"])})
    mocks: list[Mock] = []
    server = StreamServer(("127.0.0.1", 0), lambda *of_client: mocks[0].serve(*of_client), backlog=BACKLOG)
    server.init_socket()
    print(server.server_port, flush=True)
    mocks.append(Mock(Provider(shape, float(sys.stdin.readline()))))  # connections wait in the backlog until then
    server.start()
    hidden = gevent.spawn(mocks[0].hide) if shape.hidden_per_period else None
    gevent.get_hub().threadpool.apply(sys.stdin.read)
    if hidden is not None:
        hidden.kill()
    server.stop()
    seen: dict[str, Any] = {"arrivals": mocks[0].arrivals, "hidden": mocks[0].hidden}
    (folder / "arrivals.json").write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

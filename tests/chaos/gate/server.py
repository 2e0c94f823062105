"""A small provider on loopback, in a process of its own, that writes down every arrival.

A request is one line, `<member> <moment at which it was sent>`; the reply is one line of JSON: what a classifier would have
made of it. On standard input it hears `block SECONDS` and `end`; then it writes `arrivals.json` into its folder. All moments
are seconds of the monotonic clock, which every process of a machine shares.
"""

import json
import random
import sys
import time
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple

import gevent
from gevent.server import StreamServer

READ_BYTES = 4096
BACKLOG = 512


class Arrival(NamedTuple):
    """One request as the provider saw it."""

    member: int
    sent_at: float
    came_at: float
    left_at: float
    under_way: int  # with this one
    is_refused: bool


class Server:
    """Refuses everything during a block; more than `most` requests under way begin one."""

    def __init__(
        self, *, most: int, block_seconds: float, latency: tuple[float, float], limit: int, period: float
    ) -> None:
        self._most, self._block_seconds, self._latency = most, block_seconds, latency
        self._limit, self._period = limit, period
        self._began_at = time.monotonic()
        self._used, self._window, self._under_way, self._blocked_until = 0, 0.0, 0, 0.0
        self._chance = random.Random(1)
        self.arrivals: list[Arrival] = []

    def block(self, seconds: float) -> None:
        """Refuse everything from now on for so long."""
        self._blocked_until = time.monotonic() + seconds

    def serve(self, connection: socket, _: object) -> None:
        """Answer one connection until the client closes it."""
        rest = b""
        while chunk := connection.recv(READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                connection.sendall(json.dumps(self.answer(line)).encode() + b"\n")

    def answer(self, line: bytes) -> dict[str, Any]:
        """Judge a request on arrival, and answer later."""
        member, sent_at = line.split()
        came_at = time.monotonic()
        self._under_way += 1
        under_way = self._under_way
        reply = self._judge(came_at)
        gevent.sleep(self._chance.uniform(*self._latency))
        self._under_way -= 1
        is_refused = reply["kind"] != "ok"
        self.arrivals.append(Arrival(int(member), float(sent_at), came_at, time.monotonic(), under_way, is_refused))
        return reply

    def _judge(self, now: float) -> dict[str, Any]:
        if self._under_way > self._most:
            self._blocked_until = max(self._blocked_until, now + self._block_seconds)
        if now < self._blocked_until:
            return {"kind": "secondary", "after": self._blocked_until - now}
        window, into = divmod(now - self._began_at, self._period)
        if window != self._window:
            self._window, self._used = window, 0
        self._used += 1
        left = {"limit": self._limit, "remaining": max(0, self._limit - self._used), "reset_in": self._period - into}
        return left | (
            {"kind": "ok"} if self._used <= self._limit else {"kind": "primary", "after": self._period - into}
        )


def main(folder: Path, given: dict[str, Any]) -> None:
    """Say where it listens, serve, hear what to do, write."""
    server = Server(**{**given, "latency": tuple(given["latency"])})
    listening = StreamServer(("127.0.0.1", 0), server.serve, backlog=BACKLOG)
    listening.start()
    sys.stdout.write(f"{listening.server_port}\n")
    sys.stdout.flush()
    while (order := gevent.get_hub().threadpool.apply(sys.stdin.readline).split()) and order[0] == "block":
        server.block(float(order[1]))
    listening.stop()
    (folder / "arrivals.json").write_text(json.dumps(server.arrivals))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))

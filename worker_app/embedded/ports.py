"""Ports of this machine for servers that bind them later.

Between the choice of a port and the bind of its server lie seconds. Another `up` that looks meanwhile must not choose the
same: one of the two servers could not start, and the other would answer for both.
"""

import contextlib
import socket
import sys

from worker_app.embedded.folder import EmbeddedStoreError

_TRIES = 20  # each finds a port that nobody listens on; only other `up`s that start now can have reserved it


def free_port(preferred: int | None = None) -> int:
    """A port on 127.0.0.1 that nobody listens on: the preferred one, or any other when it is taken or not allowed."""
    for port in (preferred, 0):
        if port is None:
            continue
        with socket.socket() as probe:
            # As servers do it: connections of a server that has just ended do not hold its port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError, OverflowError):
                probe.bind(("127.0.0.1", port))
                probe.listen(1)
                return int(probe.getsockname()[1])
    raise EmbeddedStoreError("127.0.0.1 has no free port; close programs that listen or hold connections")


class Ports:
    """The ports that this `up` has chosen: no other chooses them until they are closed or this process ends."""

    def __init__(self) -> None:
        self._reservations: list[socket.socket] = []

    def take(self, preferred: int | None = None) -> int:
        """A free port as `free_port` finds it that no other `up` has taken. Raises EmbeddedStoreError."""
        for wanted in (preferred, *(None,) * _TRIES):
            port = free_port(wanted)
            if self._reserve(port):
                return port
        raise EmbeddedStoreError("127.0.0.1 has no port that no other `up` has taken; stop those that are not needed")

    def close(self) -> None:
        """Leave every port to others. Idempotent."""
        while self._reservations:
            self._reservations.pop().close()

    def _reserve(self, port: int) -> bool:
        if sys.platform != "linux":
            return True  # no names without files: two that start in the same second may meet
        # A name in the same network namespace as the port, without a file; the kernel forgets it with its socket.
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0dev-hops/port/{port}")
        except OSError:
            name.close()
            return False
        self._reservations.append(name)
        return True

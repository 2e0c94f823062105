"""A TCP proxy before a Redis, in the test's process, which breaks the way there as a test says.

It needs nothing but threads and sockets, so it serves plain and gevent-patched interpreters alike.
"""

import select
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

LOOK_SECONDS = 0.05  # between two looks of a pump at whether it shall end
CHUNK_BYTES = 65_536
BACKLOG = 128
CALLS = (b"EVALSHA", b"EVAL\r\n")  # what a one-time fault waits for: the handshake of a connection is left alone
RST = struct.pack("ii", 1, 0)  # of SO_LINGER: a close sends RST and drops what was not sent

Mode = Literal["pass", "silent", "reset"]
Fault = Literal["close", "reset", "half"]


class RedisProxy:
    """Passes everything on until it is told otherwise. `url` is that of the Redis behind, with the proxy's port."""

    def __init__(self, url: str) -> None:
        self._way = self._address(url)
        self._lock = threading.Lock()
        self._mode: Mode = "pass"
        self._delay_seconds = 0.0
        self._faults: deque[Fault] = deque()
        self._clients: set[socket.socket] = set()
        self._is_closed = False
        self.connections = 0  # accepted so far
        self.calls = 0  # of scripts, as far as they were forwarded
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]
        parts = urlsplit(url)
        access = parts.netloc.rpartition("@")
        self.url = urlunsplit(parts._replace(netloc=f"{access[0]}{access[1]}127.0.0.1:{self.port}"))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def heal(self) -> None:
        """Pass everything on again."""
        self._mode, self._delay_seconds = "pass", 0.0
        self._faults.clear()
        if self._listener.fileno() < 0:
            self._listener = self._listen(self.port)
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Nobody listens any more, and every connection is closed."""
        self._shut(self._listener)
        self.cut()

    def silence(self) -> None:
        """Take connections and bytes, and never answer nor forward."""
        self._mode = "silent"

    def reset(self) -> None:
        """Answer every connection, old and new, with RST."""
        self._mode = "reset"
        self.cut(is_reset=True)

    def delay(self, seconds: float) -> None:
        """Hold every answer back for so long."""
        self._delay_seconds = seconds

    def break_next(self, *faults: Fault) -> None:
        """Let the next calls reach Redis and be done there; then close or reset the connection, or send half the answer."""
        self._faults.extend(faults)

    def cut(self, *, is_reset: bool = False) -> None:
        """End every connection that stands."""
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            self._shut(client, is_reset=is_reset)

    def lead_to(self, url: str) -> None:
        """Another Redis from now on: a failover, which ends every connection."""
        self._way = self._address(url)
        self.cut()

    def close(self) -> None:
        """End."""
        self._is_closed = True
        self.refuse()

    @staticmethod
    def _address(url: str) -> tuple[str, int]:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    @staticmethod
    def _listen(port: int) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(BACKLOG)
        return listener

    @staticmethod
    def _shut(end: socket.socket, *, is_reset: bool = False) -> None:
        with suppress(OSError):
            if is_reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
            else:
                end.shutdown(socket.SHUT_RDWR)
        end.close()

    def _accept(self, listener: socket.socket) -> None:
        while not self._is_closed:
            try:
                if not select.select([listener], [], [], LOOK_SECONDS)[0]:
                    continue
                client, _ = listener.accept()
            except (OSError, ValueError):
                return
            self.connections += 1
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._mode == "reset":
                self._shut(client, is_reset=True)
                continue
            with self._lock:
                self._clients.add(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with socket.create_connection(self._way) as server:
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pump(client, server)
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._clients.discard(client)
            self._shut(client)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        fault: Fault | None = None
        while not self._is_closed:
            for ready in select.select([client, server], [], [], LOOK_SECONDS)[0]:
                chunk = ready.recv(CHUNK_BYTES)
                if not chunk:
                    return
                if self._mode == "silent":
                    continue
                if ready is client:
                    if any(name in chunk for name in CALLS):
                        self.calls += 1
                        fault = self._faults.popleft() if self._faults else None
                    server.sendall(chunk)
                elif fault is None:
                    self._answer(client, chunk)
                else:
                    self._break(client, chunk, fault)
                    return

    def _answer(self, client: socket.socket, chunk: bytes) -> None:
        if self._delay_seconds:
            time.sleep(self._delay_seconds)
        client.sendall(chunk)

    def _break(self, client: socket.socket, chunk: bytes, fault: Fault) -> None:
        if fault == "half":
            client.sendall(chunk[: len(chunk) // 2])
            while not self._is_closed and client.recv(CHUNK_BYTES):
                pass
        self._shut(client, is_reset=fault == "reset")

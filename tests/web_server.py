"""A web server on loopback whose replies a test writes, byte by byte where it has to; it records what it was asked."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    target: str  # path and query
    headers: "Message[str, str]"
    body: bytes
    peer: int  # port of the client: one connection


@dataclass(frozen=True)
class Written:
    """A reply. `length` is what Content-Length says (None: the truth), `parts` are sent one by one in place of `body`."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    parts: Iterable[bytes] | None = None
    head: Iterable[bytes] | None = None  # in place of a status line and headers
    is_last: bool = False  # the connection is closed after it


class WebServer:
    """Answers each request with what `respond` makes of it, a thread a connection."""

    def __init__(self, respond: Callable[[Seen], Written], certificate: Path | None = None) -> None:
        self.respond = respond
        self.seen: list[Seen] = []
        self.connections = 0
        self.is_over = threading.Event()  # what drips waits on this, so that no reply outlives its test
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self.url = f"https://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        """How many connections are not closed yet."""
        return len(self._server.open)

    @contextmanager
    def running(self) -> Iterator["WebServer"]:
        """Serve for the time of the block."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.is_over.set()
            self._server.shutdown()
            self._server.close_connections()
            self._server.server_close()
            thread.join(10)

    def drip(self, piece: bytes, seconds: float) -> Iterator[bytes]:
        """The piece again and again, until the test is over."""
        while not self.is_over.wait(seconds):
            yield piece


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.open: set[socket.socket] = set()

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what these tests are about."""

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.open.discard(request)

    def close_connections(self) -> None:
        """End the connections that are kept alive, so that their threads end."""
        for connection in tuple(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def _handler(server: WebServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30.0
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.connections += 1

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            seen = Seen(self.command, self.path, self.headers, self.rfile.read(length), self.client_address[1])
            server.seen.append(seen)
            self._write(server.respond(seen))

        def do_POST(self) -> None:
            self.do_GET()

        def _write(self, written: Written) -> None:
            for part in self._head(written) if written.head is None else written.head:
                self.wfile.write(part)
            for part in [written.body] if written.parts is None else written.parts:
                self.wfile.write(part)
            self.close_connection = self.close_connection or written.is_last

        def _head(self, written: Written) -> Iterator[bytes]:
            length = len(written.body) if written.length is None else written.length
            fields = {
                "Date": formatdate(usegmt=True),
                "Content-Type": "application/json",
                "Content-Length": str(length),
            }
            fields |= written.headers
            lines = [f"HTTP/1.1 {written.status} Said", *(f"{name}: {value}" for name, value in fields.items())]
            yield "\r\n".join([*lines, "", ""]).encode("latin-1")

        def log_message(self, *_: object) -> None:
            pass

    return Handler

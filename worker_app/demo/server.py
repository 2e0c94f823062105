"""The server: a socket on loopback, one thread a connection, kept alive, and answers that leave as badly as they are told to.

Standard library alone: it runs in a thread of a test, patched by gevent or not, and in a process of its own.
"""

import contextlib
import json
import random
import socket
import socketserver
import sys
import threading
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from worker_app.demo.messages import Request, Response
from worker_app.demo.service import Exchange, Service

PREFIX = "/api/v3"  # of an Enterprise host; its GraphQL is at /api/graphql
IDLE_SECONDS = 60.0  # that a connection may be silent
STOP_SECONDS = 5.0  # that `stop` waits for requests that are under way
DRIPS = 20  # pieces of a body that drips
FIXED = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "ETag, Link, Location, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, "
    "X-RateLimit-Used, X-RateLimit-Resource, X-RateLimit-Reset, X-OAuth-Scopes, X-GitHub-SSO, X-GitHub-Request-Id",
    "content-security-policy": "default-src 'none'",
    "content-type": "application/json; charset=utf-8",
    "referrer-policy": "origin-when-cross-origin, strict-origin-when-cross-origin",
    "server": "github.com",
    "strict-transport-security": "max-age=31536000; includeSubdomains; preload",
    "vary": "Accept, Authorization, Cookie, X-GitHub-OTP",
    "x-content-type-options": "nosniff",
    "x-frame-options": "deny",
    "x-github-api-version-selected": "2022-11-28",
    "x-github-media-type": "github.v3; format=json",
    "x-xss-protection": "0",
}


class Latency:
    """How long an answer takes, drawn evenly between two numbers of seconds."""

    def __init__(self, least: float = 0.0, most: float | None = None) -> None:
        self.least = least
        self.most = least if most is None else most

    def draw(self) -> float:
        """Seconds of the next answer."""
        return random.uniform(self.least, self.most)  # noqa: S311 - no secret


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves one `Service` until `stop`."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, service: Service, *, port: int = 0, latency: Latency | None = None) -> None:
        super().__init__(("127.0.0.1", port), Connection)
        self.service = service
        self.latency = latency or Latency()
        self.is_over = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="github-fake", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        """Accept connections in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing more and close every connection."""
        self.is_over.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in self._open:
                _close(connection)
        self._thread.join(STOP_SECONDS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A connection was accepted."""
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is none of our business; anything else is a defect of the fake."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.service.breaches.append(AssertionError(f"the fake itself failed: {error!r}"))
            super().handle_error(request, client_address)


class Connection(BaseHTTPRequestHandler):
    """One connection and its requests, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_SECONDS
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nothing: the service keeps the log."""

    def do_GET(self) -> None:
        """One request, whatever its method."""
        began = time.monotonic()
        length = int(self.headers.get("content-length") or 0)
        exchange = self.server.service.answer(self._request(self.rfile.read(length)))
        response = exchange.response
        wait = self.server.latency.draw() + response.delivery.wait_seconds - (time.monotonic() - began)
        if wait > 0 and self.server.is_over.wait(wait):
            self.close_connection = True
            return
        self._send(exchange)

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815 - the library's names

    def _request(self, body: bytes) -> Request:
        parts = urlsplit(self.path)
        path, prefix = unquote(parts.path), ""
        if path == "/api/graphql":
            path = "/graphql"
        elif path.startswith(PREFIX + "/"):
            path, prefix = path.removeprefix(PREFIX), PREFIX
        return Request(
            method=self.command,
            path=path,
            query=tuple(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            document=_parsed(body),
            base_url=f"http://{self.headers.get('host') or self.server.url.removeprefix('http://')}{prefix}",
            now=datetime.now(UTC),
        )

    def _send(self, exchange: Exchange) -> None:
        response, delivery = exchange.response, exchange.response.delivery
        body = (response.body or b"") * delivery.repeat
        head = _head(response, len(body))
        if delivery.cut_after is not None:
            body = body[: int(len(body) * delivery.cut_after)]
            self.close_connection = True
        if not delivery.drip_seconds:
            self.server.service.end(
                exchange
            )  # before the client can know, or its next request would count beside this one
            self.wfile.write(head + body)
            return
        try:
            self._drip(head, body, delivery.drip_seconds / DRIPS)
        finally:
            self.server.service.end(exchange)

    def _drip(self, head: bytes, body: bytes, pause: float) -> None:
        self.wfile.write(head)
        size = max(1, -(-len(body) // DRIPS))
        for start in range(0, len(body), size):
            self.server.is_over.wait(pause)
            self.wfile.write(body[start : start + size])


def _head(response: Response, length: int) -> bytes:
    headers: dict[str, str | None] = {
        **FIXED,
        "date": format_datetime(datetime.now(UTC), usegmt=True),
        "x-github-request-id": f"{random.getrandbits(64):016X}",
        **response.headers,
        "content-length": str(length),
        **response.overrides,
    }
    if response.status == HTTPStatus.NOT_MODIFIED:
        headers["content-length"] = headers["content-type"] = None
    lines = [f"HTTP/1.1 {response.status} {_reason(response.status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _reason(status: int) -> str:
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else "Unknown"


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        connection.close()

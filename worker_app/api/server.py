"""The API's process: gevent's server around the application, and an end that loses no request.

A signal stops accepting, closes the connections that wait for a next request, and gives the others five seconds.
"""

import contextlib
import signal
import socket
import sys
from typing import Any

import gevent
import structlog
from flask import Flask
from gevent.event import Event
from gevent.pool import Pool
from gevent.pywsgi import WSGIHandler, WSGIServer

from worker_app import core_dumps, errors, logs, runtime, settings
from worker_app.api.app import create_app
from worker_app.credentials import canary
from worker_app.migrate import gate
from worker_app.settings import Settings
from worker_app.store.postgres import Postgres

EXIT_LATER, EXIT_CONFIGURATION = 75, 78
REQUEST_CONNECTIONS = 10  # to each store, shared by all requests at once
PROBE_CONNECTIONS = 2  # one for /readyz, one for /metrics
STOP_SECONDS = 5.0
IDLE_SECONDS = 75.0  # a kept connection without a request; above the 60 s that proxies keep theirs
HEAD_SECONDS = 10.0  # from a request line to the end of its headers

log = structlog.get_logger(__name__)


class Handler(WSGIHandler):
    """One connection. It waits for no client for ever, and what a client sent wrong is not repeated in the log."""

    server: "Server"

    def handle(self) -> None:
        """Serve the connection's requests."""
        # Head and body leave in two writes: without this a kept connection waits 40 ms for the client's delayed ACK.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().handle()

    def read_requestline(self) -> str:
        """The next request line, or nothing: the client is idle for too long, or the server stops."""
        if self.server.is_stopping:
            return ""
        self.server.idle.add(self)
        try:
            with contextlib.suppress(TimeoutError), gevent.Timeout(IDLE_SECONDS, TimeoutError()):
                return super().read_requestline()
        finally:
            self.server.idle.discard(self)
        return ""

    def read_request(self, raw_requestline: str) -> Any:
        """The headers; ValueError, which is a 400, when they do not come in time or the client goes away."""
        try:
            with gevent.Timeout(HEAD_SECONDS, TimeoutError()):
                return super().read_request(raw_requestline)
        except OSError as error:
            raise ValueError(type(error).__name__) from error

    def log_error(self, msg: str, *args: object) -> None:  # noqa: ARG002 - they quote the client, whose header may be a token
        """One line for a request that was no HTTP."""
        log.info("http.malformed", remote=self.client_address[0])


class Server(WSGIServer):
    """gevent's server, which tells connections that are in a request from those that only wait for the next one."""

    handler_class = Handler

    def __init__(self, address: tuple[str, int], application: Flask) -> None:
        super().__init__(address, application, spawn=Pool(), log=None, error_log=None)
        self.idle: set[Handler] = set()
        self.is_stopping = False

    def stop(self, timeout: float | None = STOP_SECONDS) -> None:
        """Accept nothing more and return when every request has ended; those that have not after `timeout` are cut."""
        self.is_stopping = True
        self.close()
        for handler in tuple(self.idle):
            with contextlib.suppress(OSError):  # the client was quicker
                handler.socket.shutdown(socket.SHUT_RD)  # a request that has arrived is still read
        super().stop(timeout)


def main() -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    core_dumps.forbid()
    try:
        chosen = settings.load()
        logs.configure(chosen.log_level, chosen.log_format)
        logs.redact_hub(gevent.get_hub())
        built = runtime.build(chosen, role="api", pool_size=REQUEST_CONNECTIONS)
        probing = Postgres(
            chosen.require_database(), pool_size=PROBE_CONNECTIONS, application_name="dev-hops-api-probe"
        )
        gate.await_schema(chosen, lambda text: log.warning("schema.not_current", reason=text))
        canary.require_of_given(probing, chosen)
        server = _listen(chosen, create_app(built, probing))
    except (errors.SettingsError, errors.SchemaAhead, errors.StoreRefused, errors.TransientError) as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201 - for the person who started it
        return EXIT_LATER if isinstance(error, errors.TransientError) else EXIT_CONFIGURATION
    over = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, over.set)
    log.info("api.listening", host=chosen.api_host, port=chosen.api_port)
    over.wait()
    log.info("api.stopping")
    server.stop()
    built.close()
    probing.close()
    return 0


def _listen(chosen: Settings, app: Flask) -> Server:
    """A server that accepts. Raises SettingsError where the address is not to be had."""
    server = Server((chosen.api_host, chosen.api_port), app)
    try:
        server.start()
    except OSError as error:
        reason = str(error.strerror).partition(":")[0]  # gevent appends the address, which stands before it
        raise errors.SettingsError(
            f"API_HOST is {chosen.api_host} and API_PORT is {chosen.api_port}: nobody can listen there ({reason}); "
            "end the program that does, or set another"
        ) from error
    return server

"""Connections whose every wait ends: for a place in the pool, for the next bytes, and for the whole of a reply.

The timeouts of requests hold for one read each, so a server that drips bytes would keep a request for ever. Here each read gets
what is left of the total. Knows nothing of gates, credentials and providers.
Page: https://urllib3.readthedocs.io/en/stable/advanced-usage.html
"""

import http.client
import io
import socket
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any

import requests.adapters
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import Retry

POOLS = 100  # hosts whose connections are kept; the one that was idle longest goes first

# Requests are repeated by the batch that asked, after the gate; urllib3 would repeat them past it.
NO_RETRY = Retry(total=0, redirect=False, respect_retry_after_header=False)


class Adapter(requests.adapters.HTTPAdapter):
    """Sends on pooled connections, `slots` to one host, each wait bounded; it follows and repeats nothing.

    `idle_seconds` may pass without a byte, `pool_seconds` until a pooled connection is free.
    """

    def __init__(self, *, slots: int, idle_seconds: float, pool_seconds: float) -> None:
        self._pools: Mapping[str, Callable[..., HTTPConnectionPool]] = {
            scheme: partial(_pool, kind, idle_seconds=idle_seconds, pool_seconds=pool_seconds)
            for scheme, kind in {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}.items()
        }
        super().__init__(pool_connections=POOLS, pool_maxsize=slots, pool_block=True, max_retries=NO_RETRY)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Let the direct connections be ours."""
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *arguments: Any, **options: Any) -> Any:
        """Let the connections through a proxy be ours."""
        manager = super().proxy_manager_for(*arguments, **options)
        manager.pool_classes_by_scheme = self._pools
        return manager


class _TimedStream(io.RawIOBase):
    """The bytes of a socket until `ends_at`, a monotonic time; the next ones within `idle_seconds`, or TimeoutError."""

    def __init__(self, stream: io.RawIOBase, sock: socket.socket, *, ends_at: float, idle_seconds: float) -> None:
        self._stream = stream
        self._socket = sock
        self._ends_at = ends_at
        self._idle_seconds = idle_seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left = self._ends_at - monotonic()
        if left <= 0:
            raise TimeoutError("the total has run out")
        self._socket.settimeout(min(left, self._idle_seconds))
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()  # the socket counts its streams and closes with the last
        super().close()


class _TimedReply(http.client.HTTPResponse):
    """A reply, head and body, within the time that its socket has left when the reply begins: urllib3 puts the total there."""

    def __init__(self, sock: socket.socket, *arguments: Any, idle_seconds: float, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        left = sock.gettimeout()
        ends_at = monotonic() + (idle_seconds if left is None else left)
        stream = self.fp.detach()
        self.fp = io.BufferedReader(_TimedStream(stream, sock, ends_at=ends_at, idle_seconds=idle_seconds))


def _pool(
    kind: type[HTTPConnectionPool], *arguments: Any, idle_seconds: float, pool_seconds: float, **options: Any
) -> HTTPConnectionPool:
    """A pool whose connections give timed replies; requests names no time to wait for a free one, which means for ever."""
    pool = kind(*arguments, **options)
    pool.ConnectionCls = partial(_connection, pool.ConnectionCls, idle_seconds)  # type: ignore[arg-type, assignment]
    pool.urlopen = partial(pool.urlopen, pool_timeout=pool_seconds)  # type: ignore[arg-type, method-assign]
    return pool


def _connection(kind: type[HTTPConnection], idle_seconds: float, **options: Any) -> HTTPConnection:
    connection = kind(**options)
    connection.response_class = partial(_TimedReply, idle_seconds=idle_seconds)  # type: ignore[assignment]
    return connection

"""Watch: rings the bell of the deliveries when a list that was empty gets a message, without taking it and without polling.

A blocking pop would take the message and hand it over unnoted. Redis tells instead: a client that tracks keys is told once
when one that it has read changes. A Redis that cannot do that is looked at ten times a second.
Page: https://redis.io/docs/latest/develop/reference/client-side-caching/
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import gevent
import gevent.event
import redis
import structlog

LOOK_AGAIN_SECONDS = 1.0  # at the latest, so that a lost notice costs one second
TURN_SECONDS = 4.0  # between two looks whether other lists are wanted; less than the time that a read may take
POLL_SECONDS = 0.1
AWAY_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Watch:
    """One connection that waits for messages in some lists. Starts with the first `wait_for`."""

    def __init__(self, bell: threading.Event) -> None:
        self._bell = bell
        self._asked = gevent.event.Event()
        self._lists: Sequence[str] = ()
        self._is_waiting = False
        self._parameters: dict[str, Any] = {}
        self._greenlet: gevent.Greenlet[..., None] | None = None
        self._connection: Any = None
        self.look_again_seconds = LOOK_AGAIN_SECONDS  # when the caller should look by itself

    def open(self, connection_parameters: Mapping[str, Any]) -> None:
        """Connect with these parameters of redis-py's connection, when first asked."""
        if not self._parameters:
            unknown = ("connection_class", "max_connections")
            self._parameters = {key: value for key, value in connection_parameters.items() if key not in unknown}
            self._parameters |= {"protocol": 3, "socket_timeout": 5.0}
            self._class = connection_parameters.get("connection_class", redis.Connection)

    def wait_for(self, lists: Sequence[str]) -> None:
        """Ring once when one of these lists has a message. Returns at once."""
        if self._is_waiting and lists == self._lists:
            return
        self._lists = lists
        self._asked.set()
        if self._greenlet is None:
            self._greenlet = gevent.spawn(self._run)

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            self._is_waiting = True
            try:
                self._watch_once()
            except redis.ResponseError as error:
                log.info("watch.polls", reason=str(error), every_seconds=POLL_SECONDS)
                self.look_again_seconds = POLL_SECONDS
                self._disconnect()
                return
            except (redis.RedisError, OSError):
                self._disconnect()
                gevent.sleep(AWAY_SECONDS)
            finally:
                self._is_waiting = False

    def _watch_once(self) -> None:
        """Until one of the lists has a message, or another question was asked."""
        if self._connection is None:
            self._connection = self._class(**self._parameters)
            self._connection.connect()
            self._ask("CLIENT", "TRACKING", "ON")
        if self._ask("EXISTS", *self._lists):
            self._bell.set()
            return
        while not self._connection.can_read(timeout=TURN_SECONDS):
            if self._asked.is_set():
                return
        self._connection.read_response(push_request=True)
        self._bell.set()

    def _ask(self, *command: str) -> Any:
        self._connection.send_command(*command)
        return self._connection.read_response()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

"""Asks a server of the test who a credential is, by the client of the program and a gate that keeps a record."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from tests.gates import RecordingGate
from tests.web_server import Seen, WebServer, Written
from worker_app import settings
from worker_app.credentials.kinds import Credential
from worker_app.gate.gate import Gate
from worker_app.gate.key import Priority
from worker_app.providers import identities
from worker_app.providers.connections import Caller, Connections
from worker_app.providers.http_session import Session
from worker_app.providers.identity import Identity

CANARY = "canary8f3a0123456789"
ORG, ID = UUID(int=1), UUID(int=2)


@dataclass(frozen=True)
class Asking:
    """Who is asked, and what was seen of it."""

    ask: Callable[[], Identity]
    server: WebServer
    gate: RecordingGate

    @property
    def seen(self) -> Seen:
        """The one request."""
        (only,) = self.server.seen
        return only

    @property
    def endpoint(self) -> str:
        """The endpoint of the one slot, which a person waited for."""
        (permit,) = self.gate.permits
        assert permit.priority is Priority.INTERACTIVE
        return permit.endpoint


@contextmanager
def asking(credential: Credential, respond: Callable[[Seen], Written]) -> Iterator[Asking]:
    """A server that stands for the host of the credential."""
    with WebServer(respond).running() as server:
        gate, session = RecordingGate(), Session()
        connections = Connections(
            settings.load({"PROVIDER_API_URLS": f"{credential.host}={server.url}"}),
            cast("Gate", gate),
            lambda *_: credential,
            session,
        )
        caller = Caller(ORG, credential.host, ID, priority=Priority.INTERACTIVE)
        try:
            yield Asking(lambda: identities.identity(connections, caller), server, gate)
        finally:
            session.close()


def says(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Callable[[Seen], Written]:
    """The same document to everything."""
    return lambda _: Written(status, json.dumps(document).encode(), dict(headers or {}))


def echoes(seen: Seen) -> Written:
    """A server that refuses and repeats the headers that it was asked with, in body and header."""
    held = dict(seen.headers.items())
    return Written(
        401, json.dumps({"message": f"not {held}", **held}).encode(), {"X-Said": held.get("Authorization", "")}
    )

"""A client of the code under test with everything it needs, beside the server that it asks."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.gates import RecordingGate
from tests.web_server import Seen, WebServer, Written
from worker_app.gate.key import GateKey
from worker_app.gate.policies import POLICIES
from worker_app.providers.client import Client, Request
from worker_app.providers.http_cache import Cache
from worker_app.providers.http_session import Session

CANARY = "ghp_CANARYcanaryCANARYcanaryCANARYcanary"
KEY = GateKey("github", "org-1", "github.com")
REPOSITORY = Request("repos.get", "/repos/acme/api")


class Token:
    """Signs with the tokens it is given, one after the other at each renewal."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)
        self.renewals = 0

    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._tokens[0]}"}

    def renew(self) -> bool:
        self.renewals += 1
        if len(self._tokens) == 1:
            return False
        del self._tokens[0]
        return True

    @property
    def generation(self) -> str:
        return f"generation {len(self._tokens)}"


@dataclass(frozen=True)
class Caller:
    """A client, and what stands around it."""

    client: Client
    server: WebServer
    gate: RecordingGate
    signer: Token
    session: Session
    cache: Cache


def client_of(url: str, gate: Any, session: Session, **options: Any) -> Client:
    """A client with what the caller does not name; `seconds` is the total of a request."""
    policy = replace(POLICIES["github"], request_deadline=options.pop("seconds", 20.0))
    named = {"key": KEY, "policy": policy, "signer": Token(CANARY), "cache": Cache(), "max_wait": 2.0, **options}
    return Client(url, gate=gate, session=session, **named)


@contextmanager
def calling(
    respond: Callable[[Seen], Written], *, session: Mapping[str, Any] | None = None, **options: Any
) -> Iterator[Caller]:
    """A server that answers with what `respond` says, and a client of it."""
    signer, cache, gate = options.pop("signer", Token(CANARY)), Cache(), options.pop("gate", RecordingGate())
    with ExitStack() as stack:
        server = stack.enter_context(WebServer(respond).running())
        opened = Session(**(session or {}))
        stack.callback(opened.close)
        client = client_of(server.url, gate, opened, signer=signer, cache=cache, **options)
        yield Caller(client, server, gate, signer, opened, cache)


def always(written: Written) -> Callable[[Seen], Written]:
    """The same reply to everything."""
    return lambda _: written


def in_turn(*replies: Written) -> Callable[[Seen], Written]:
    """One reply after the other."""
    waiting = iter(replies)
    return lambda _: next(waiting)

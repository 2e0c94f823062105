"""Hops: one request and its reply, past the gate. The client walks redirects and pages over them.

The order is fixed: sign, take a permit, take a connection, send, tell the gate what the reply said, give both back. A hop that
another server answers carries no credential, and tells the gate nothing.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from requests.structures import CaseInsensitiveDict

from worker_app import errors, telemetry
from worker_app.gate import refusal
from worker_app.gate.key import Decision, GateKey, Priority
from worker_app.gate.policy import ProviderPolicy
from worker_app.gate.signals import BODY_BYTES, REFUSED, RateSignal, Reply
from worker_app.providers import http_address, http_cache, http_reply, http_session

OK = 200
UNCHANGED = 304


class Signer(Protocol):
    """Signs requests with one credential."""

    def headers(self) -> Mapping[str, str]:
        """The headers that the next request is signed with; may fetch a token, so it is called outside any slot."""

    def renew(self) -> bool:
        """After a 401: whether another token was fetched, so that one more try makes sense."""

    @property
    def generation(self) -> str:
        """Which of its tokens the credential is at; no secret. ETags are kept per generation."""


class Permit(Protocol):
    """Leave to send one request."""

    def observe(self, signal: RateSignal, /) -> Decision:
        """Tell the gate what the reply said; for a refusal, until when it closes what."""


class Slots(Protocol):
    """The part of the gate that sends requests."""

    def slot(
        self, key: GateKey, endpoint: str, *, cost: float, priority: Priority, max_wait: float
    ) -> AbstractContextManager[Permit]:
        """Hold a permit; raises RateLimited and GateUnavailable."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request before it is signed."""

    endpoint: str  # name of the policy's closed set
    url: str
    cost: float
    body: bytes | None = field(repr=False)  # JSON; makes it a POST
    is_conditional: bool

    @property
    def method(self) -> str:
        """GET, or POST where there is a body."""
        return "GET" if self.body is None else "POST"


@dataclass(frozen=True, slots=True)
class Hop:
    """One reply, read; a 304 is the stored reply that it stands for."""

    url: str
    status: int
    headers: CaseInsensitiveDict[str] = field(repr=False)
    body: bytes = field(repr=False)
    document: Any = field(repr=False)  # parsed JSON; None where there is none
    fault: errors.ProviderFault | None  # what keeps it from being an answer: a body that is cut, too big or no JSON
    is_own: bool  # it comes from the server that the credential belongs to
    is_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends the calls of one batch, with its credential, to one server and to wherever that redirects."""

    base: http_address.Base
    key: GateKey
    policy: ProviderPolicy
    slots: Slots
    signer: Signer = field(repr=False)
    session: http_session.Session
    cache: http_cache.Cache
    headers: Mapping[str, str] = field(repr=False)  # for this server, beside those of the signer
    priority: Priority
    max_wait: Callable[[], float]  # seconds

    def send(self, call: Call) -> Hop:
        """The reply, whatever its status. Raises ProviderFault, GateUnavailable and RateLimited: a reply may be a refusal."""
        is_own = self.base.is_own(call.url)
        signed = self._signed() if is_own else {}
        address = self._address(call) if is_own and call.is_conditional and call.body is None else None
        stored = self.cache.get(address) if address else None
        outgoing = _outgoing(call, signed, stored)
        with self._slot(call) as permit:
            received = self._exchange(outgoing)
            hop = self._read(outgoing, received, stored)
            limited = self._observe(permit, call, received, hop) if is_own else None
        if limited:
            raise limited
        if address and hop.status == OK and not (hop.fault or hop.is_unchanged):
            self.cache.put(address, http_cache.Stored(hop.headers, hop.body))
        return hop

    def _exchange(self, outgoing: http_session.Outgoing) -> http_session.Received:
        with telemetry.PROVIDER_REQUEST_SECONDS.labels(self.key.provider).time():
            received = self.session.exchange(
                outgoing, named=self.named(outgoing.url), seconds=self.policy.request_deadline
            )
        telemetry.PROVIDER_REQUESTS.labels(self.key.provider, f"{received.status // 100}xx").inc()
        return received

    def named(self, url: str) -> str:
        """What messages call the server of a URL."""
        return f"{self.key.provider} at {http_address.origin(url)}"

    def _signed(self) -> dict[str, str]:
        """The headers for the own server. A token with a line break or the like would end up in the libraries' messages."""
        headers = {**self.headers, **self.signer.headers()}
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable() and value == value.strip()):
                raise errors.CredentialRefused(
                    f"the {name} header for {self.key.provider} on {self.key.host} holds what no header may: store the "
                    f"credential of organisation {self.key.org_id} again, without spaces and line breaks around it"
                )
        return headers

    def _address(self, call: Call) -> http_cache.Address:
        return http_cache.Address(self.key, self.signer.generation, call.method, call.url)

    def _slot(self, call: Call) -> AbstractContextManager[Permit]:
        return self.slots.slot(
            self.key, call.endpoint, cost=call.cost, priority=self.priority, max_wait=self.max_wait()
        )

    def _read(
        self, outgoing: http_session.Outgoing, received: http_session.Received, stored: http_cache.Stored | None
    ) -> Hop:
        headers, body, status = received.headers, received.body, received.status
        if is_unchanged := status == UNCHANGED and stored is not None:
            headers, body, status = stored.refreshed(headers), stored.body, OK
        document, fault = None, received.fault
        try:
            document = http_reply.document(body) if not fault else None
        except ValueError:
            if OK <= status < 300 and (body or status == OK):
                fault = self._no_json(outgoing, received)
        return Hop(
            url=outgoing.url,
            status=status,
            headers=headers,
            body=body,
            document=document,
            fault=fault,
            is_own=self.base.is_own(outgoing.url),
            is_unchanged=is_unchanged,
        )

    def _no_json(self, outgoing: http_session.Outgoing, received: http_session.Received) -> errors.ProviderFault:
        quote = http_reply.quoted(received.body, received.headers, outgoing.headers.values())
        return errors.ProviderFault(
            f"{self.named(outgoing.url)} answered {received.status} with what is no JSON {quote}",
            status=received.status,
        )

    def _observe(
        self, permit: Permit, call: Call, received: http_session.Received, hop: Hop
    ) -> errors.RateLimited | None:
        """Tell the gate what the reply said; RateLimited when it was a refusal."""
        document = None if hop.is_unchanged else hop.document
        body = received.body[:BODY_BYTES]
        signal = self.policy.classify(Reply(received.status, received.headers, body, document, call.endpoint))
        decision = permit.observe(signal)
        return refusal.rate_limited(self.key, decision) if signal.kind in REFUSED else None


def _outgoing(call: Call, signed: Mapping[str, str], stored: http_cache.Stored | None) -> http_session.Outgoing:
    content = {} if call.body is None else {"Content-Type": "application/json"}
    condition = stored.condition if stored else {}
    return http_session.Outgoing(call.method, call.url, {**content, **condition, **signed}, call.body)

"""The client: the one door to a provider's HTTP API. Every request passes the gate before it takes a connection.

Readers build requests and judge answers; the client signs, sends, follows renames and pages, and tells the gate what each reply
said. What a limit forbids is a Deferral, what the provider could not do is a ProviderFault; everything else is an Answer. No
message, log line or text form of anything here holds a credential.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from worker_app import errors
from worker_app.gate.key import GateKey, Priority
from worker_app.gate.policy import ProviderPolicy
from worker_app.providers import hops, http_address, http_cache, http_reply, http_session, redirects
from worker_app.providers.hops import Signer as Signer

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
UNAUTHORIZED = 401
ANONYMOUS = "anonymous"  # generation of a signer that has no credential
LIMITED = 429  # of another server: a limit of its own, which the gate does not keep


@dataclass(frozen=True, slots=True)
class Request:
    """What a reader asks for."""

    endpoint: str  # name of the policy's closed set
    url: str  # absolute, or a path below the client's base URL
    params: Mapping[str, str] = field(default_factory=dict)
    document: object = None  # JSON body; makes it a POST
    cost: float = 1.0  # in the provider's own unit
    is_conditional: bool = False  # asks with ETag and Last-Modified of the cache; a POST never does


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider said; its text form shows neither headers nor body, which may hold a token."""

    status: int  # 200 also for one that the cache answered after a 304
    headers: Mapping[str, str] = field(repr=False)  # names in any case
    body: bytes = field(repr=False)
    document: Any = field(repr=False)  # parsed JSON; None where there is none
    url: str  # that answered
    now: datetime | None  # its Date header, aware UTC
    next_url: str | None  # Link rel="next", verbatim; on the same server
    moved_from: tuple[str, ...] = ()  # URLs that redirected here
    is_unchanged: bool = False  # the provider said 304


class Client:
    """Sends the requests of one batch, with its credential, to one server.

    `session` and `cache` belong to the process. `headers` go with each request to that server, beside those of the signer.
    `max_wait` is how many seconds the gate may let a request wait inside, or tells it. ValueError for a base URL that is
    neither https nor http on loopback.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: GateKey,
        policy: ProviderPolicy,
        gate: hops.Slots,
        signer: Signer,
        session: http_session.Session,
        cache: http_cache.Cache,
        headers: Mapping[str, str] = NO_HEADERS,
        priority: Priority = Priority.SYNC,
        max_wait: Callable[[], float] | float = 5.0,
    ) -> None:
        self._sender = hops.Sender(
            base=http_address.Base(base_url),
            key=key,
            policy=policy,
            slots=gate,
            signer=signer,
            session=session,
            cache=cache,
            headers=headers,
            priority=priority,
            max_wait=max_wait if callable(max_wait) else lambda: max_wait,
        )

    def send(self, request: Request) -> Answer:
        """The answer to one request, after redirects; a repository that was renamed shows in `moved_from`.

        Raises RateLimited and GateUnavailable when it may not be sent now, or was refused for a limit; ProviderFault for a
        5xx, a timeout, a body that is cut, too big or no JSON where JSON is due, and redirects that are not followed;
        CredentialRefused for a 401 that a renewed token does not cure. Every other status is an Answer.
        """
        walked = self._walk(request)
        if self._is_credential_refused(walked[-1]) and self._sender.signer.renew():
            walked = self._walk(request)
        if self._is_credential_refused(walked[-1]):
            raise self._refused()
        return self._answer(walked)

    def _refused(self) -> errors.CredentialRefused:
        key = self._sender.key
        if self._sender.signer.generation == ANONYMOUS:
            return errors.CredentialRefused(
                f"{key.provider} at {key.host} asks for a credential (401): add one with `dev-hops credentials add` and give it "
                "to the source with --credential"
            )
        return errors.CredentialRefused(
            f"{key.provider} at {key.host} does not take the credential of this source (401): it has ended or was withdrawn; "
            f"give it a new secret with `dev-hops credentials add NAME --provider {key.provider} --host {key.host} --replace`"
        )

    def pages(self, request: Request, *, most: int = 10_000) -> Iterator[Answer]:
        """The answers to a request and to the next pages that it leads to, as many as are taken.

        Raises what `send` does, and ProviderFault when a page leads to one that was read already, or after `most` pages:
        a list that does not end is a fault of the provider, and never looks complete.
        """
        asked = {self._sender.base.absolute(request.url, request.params)}
        while True:
            answer = self.send(request)
            yield answer
            if answer.next_url is None:
                return
            if answer.next_url in asked:
                raise self._fault(answer.url, "leads back to a page that was read already", answer.status)
            if len(asked) >= most:
                raise self._fault(answer.url, f"has more than {most} pages, the most that are read", answer.status)
            asked.add(answer.next_url)
            request = replace(request, url=answer.next_url, params={})

    def _walk(self, request: Request) -> list[hops.Hop]:
        """The redirects that a request meets, and at the end what is none."""
        call = self._call(request)
        walked = [self._sender.send(call)]
        while walked[-1].status in redirects.STATUSES:
            call = self._redirected(call, walked)
            walked.append(self._sender.send(call))
        return walked

    def _call(self, request: Request) -> hops.Call:
        document = request.document
        return hops.Call(
            endpoint=request.endpoint,
            url=self._sender.base.absolute(request.url, request.params),
            cost=request.cost,
            body=None if document is None else json.dumps(document, allow_nan=False).encode(),
            is_conditional=request.is_conditional,
        )

    def _redirected(self, call: hops.Call, walked: list[hops.Hop]) -> hops.Call:
        hop = walked[-1]
        body = None if hop.status == redirects.SEE_OTHER else call.body
        asked = [each.url for each in walked]
        try:
            url = redirects.target(self._sender.base, asked, hop.headers.get("Location"), has_body=body is not None)
        except ValueError as refusal:
            words = str(refusal)
        else:
            return replace(call, url=url, body=body)
        raise self._fault(hop.url, f"answered with {words}", hop.status)

    def _is_credential_refused(self, hop: hops.Hop) -> bool:
        return hop.status == UNAUTHORIZED and hop.is_own

    def _answer(self, walked: list[hops.Hop]) -> Answer:
        *moved, hop = walked
        if hop.fault:
            raise hop.fault
        if hop.status >= 500 or hop.status in (hops.UNCHANGED, LIMITED):
            raise self._fault(hop.url, f"answered {hop.status}", hop.status)
        return Answer(
            status=hop.status,
            headers=hop.headers,
            body=hop.body,
            document=hop.document,
            url=hop.url,
            now=http_reply.date(hop.headers),
            next_url=self._next_url(hop),
            moved_from=tuple(each.url for each in moved),
            is_unchanged=hop.is_unchanged,
        )

    def _next_url(self, hop: hops.Hop) -> str | None:
        try:
            url = http_reply.next_url(hop.url, hop.headers)
            is_own = url is None or self._sender.base.is_own(url)
        except ValueError:
            url, is_own = None, False
        if not is_own:
            raise self._fault(hop.url, "names a next page that is not on the same server", hop.status)
        return url

    def _fault(self, url: str, words: str, status: int) -> errors.ProviderFault:
        """A fault that names the server and the path; a query may be signed."""
        return errors.ProviderFault(
            f"{self._sender.named(url)} {words} (asked for {http_address.path(url)})", status=status
        )

"""The session: sends one request and takes its reply whole, bounded in time and size. One a process, shared by its slots.

It builds on requests, but not on its Session: that one reads the netrc file and proxies of the environment, keeps cookies from
one organisation for the next, and reads the body of a redirect to its end. Here nothing comes from the environment and nothing
is kept but connections. Knows nothing of gates and credentials.
"""

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from time import monotonic

import requests
from requests.structures import CaseInsensitiveDict
from urllib3 import exceptions
from urllib3.util import Timeout

from worker_app import errors
from worker_app.providers import http_connections, http_faults

CHUNK_BYTES = 65_536
MOST_BODY_BYTES = 32 * 2**20  # far above the largest page of a provider; 20 of them fit into a worker's memory
FAULTS = (requests.RequestException, exceptions.HTTPError, OSError)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request as it goes out; its text shows neither headers nor body."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Received:
    """A reply whose head came in; `fault` says what became of its body when that did not come in whole."""

    status: int
    headers: CaseInsensitiveDict[str] = field(repr=False)
    body: bytes = field(repr=False)  # decompressed; up to where it came in
    fault: errors.ProviderFault | None = None


class Session:
    """Exchanges a request for a reply on up to `slots` connections to one host. Safe for threads and greenlets.

    A connection is made in `connect_seconds`, bytes follow each other within `read_seconds`, a free connection is waited for
    `pool_seconds`: with the total of an exchange it stays below the gate's lease, which is that total + 5 s. `ca_bundle` takes
    the place of the public certificate authorities. `proxies` maps `https` or a host (`https://ghe.acme.com`) to a proxy.
    Raises ValueError for a bundle that does not exist and for a proxy that is neither http nor https.
    """

    def __init__(
        self,
        *,
        slots: int = 20,
        connect_seconds: float = 10.0,
        read_seconds: float = 30.0,
        pool_seconds: float = 3.0,
        most_body_bytes: int = MOST_BODY_BYTES,
        ca_bundle: Path | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        if ca_bundle is not None and not ca_bundle.exists():
            raise ValueError(f"the CA bundle {ca_bundle} does not exist")
        if not all(proxy.startswith(("http://", "https://")) for proxy in (proxies or {}).values()):
            raise ValueError("a proxy is neither http:// nor https://")
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._most_body_bytes = most_body_bytes
        self._verify: bool | str = True if ca_bundle is None else str(ca_bundle)
        self._proxies = dict(proxies or {})
        self._adapter = http_connections.Adapter(slots=slots, idle_seconds=read_seconds, pool_seconds=pool_seconds)
        self._standing = {"User-Agent": f"dev-hops/{metadata.version('dev-hops')}", "Accept-Encoding": "gzip"}
        # Below this level its lines hold whole URLs, and the address that a redirect leads to may be signed.
        logging.getLogger("urllib3").setLevel(logging.ERROR)

    def exchange(self, outgoing: Outgoing, *, named: str, seconds: float) -> Received:
        """The reply, within `seconds` from the connection to the last byte of the body.

        Follows no redirect and repeats nothing. Raises ProviderFault when no head of a reply came; its message, like that of
        `Received.fault`, begins with `named`.
        """
        clock = _Clock(named, seconds, self._read_seconds)
        opened = self._opened(outgoing, clock)
        if isinstance(opened, errors.ProviderFault):
            raise opened
        with closing(opened):
            body, fault = self._body(opened, clock)
        return Received(opened.status_code, opened.headers, body, fault)

    def close(self) -> None:
        """Close the idle connections; those in use follow when their exchange ends."""
        self._adapter.close()

    def _opened(self, outgoing: Outgoing, clock: "_Clock") -> requests.Response | errors.ProviderFault:
        """The reply up to its body. The fault is returned, not raised: raised here it would carry the library's as context."""
        try:
            prepared = requests.Request(
                outgoing.method, outgoing.url, headers={**self._standing, **outgoing.headers}, data=outgoing.body
            ).prepare()
            return self._adapter.send(
                prepared,
                stream=True,
                timeout=Timeout(connect=self._connect_seconds, total=clock.seconds),  # type: ignore[arg-type] # not in the stubs
                verify=self._verify,
                proxies=self._proxies,
            )
        except FAULTS as error:
            return clock.fault(error)

    def _body(self, opened: requests.Response, clock: "_Clock") -> tuple[bytes, errors.ProviderFault | None]:
        body = bytearray()
        try:
            for chunk in opened.iter_content(CHUNK_BYTES):
                body += chunk
                if len(body) > self._most_body_bytes:
                    bound = (
                        f"{clock.named} sent a body of more than {self._most_body_bytes} bytes, the most that is taken"
                    )
                    return b"", errors.ProviderFault(bound, status=opened.status_code)
        except FAULTS as error:
            return bytes(body), clock.fault(error, opened.status_code)
        return bytes(body), None


class _Clock:
    """How long an exchange has taken, and what that makes of an error."""

    def __init__(self, named: str, seconds: float, read_seconds: float) -> None:
        self.named = named
        self.seconds = seconds
        self._read_seconds = read_seconds
        self._started = monotonic()

    def fault(self, error: BaseException, status: int | None = None) -> errors.ProviderFault:
        """The error in words of ours; with a status, the head of the reply was there."""
        where = "before it answered" if status is None else "in the middle of its answer"
        words = http_faults.words(error, otherwise=f"closed the connection {where}")
        if http_faults.is_timeout(error):
            words = self._late(monotonic() - self._started)
        return errors.ProviderFault(f"{self.named} {words}", status=status)

    def _late(self, seconds: float) -> str:
        if seconds >= self.seconds:
            return f"took longer than {self.seconds:g} s"
        if seconds >= self._read_seconds:
            return f"sent nothing for {self._read_seconds:g} s"
        return "did not take the connection in time"  # the only wait that is shorter than a read

"""Addresses: which URLs a client may ask, and which of them may see its credential. Pure; raises ValueError.

Everything is https. Plain http is for a fake on this machine: the base and whatever it leads to are on loopback then.
"""

import ipaddress
import string
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit, urlunsplit

PORTS = {"https": 443, "http": 80}
HOST_CHARACTERS = frozenset(
    string.ascii_lowercase + string.digits + ".-_:"
)  # of a name on the wire, or of an IP address

MOST_PATH = 200  # characters of a path that a message may hold


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port: who answers, and to whom a credential belongs."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether this machine answers."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def origin(url: str) -> Origin:
    """Who answers at an absolute URL. ValueError for a scheme other than https and http, no host, or a user in it."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname or not set(parts.hostname) <= HOST_CHARACTERS:
        raise ValueError("it is no address of a web server")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it names a user")
    return Origin(parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme])


class Base:
    """The base URL of one provider's API; ValueError unless it is https, or http on loopback, without query and user."""

    def __init__(self, url: str) -> None:
        try:
            self.origin = origin(url)
        except ValueError as fault:
            raise ValueError(f"the base URL of an API cannot be used: {fault}") from None
        if self.origin.scheme == "http" and not self.origin.is_loopback:
            raise ValueError(f"the base URL on {self.origin} is http, which only a server on loopback may use")
        if urlsplit(url).query or urlsplit(url).fragment:
            raise ValueError(f"the base URL on {self.origin} holds a query")
        self.url = url.rstrip("/")

    def absolute(self, url: str, params: Mapping[str, str]) -> str:
        """The URL to ask, for one below the base or an absolute one on its origin. ValueError for another origin."""
        whole = url if is_absolute(url) else f"{self.url}/{url.lstrip('/')}"
        if origin(whole) != self.origin:
            raise ValueError(f"{origin(whole)} is not {self.origin}, and the client of one asks no other")
        return with_params(whole, params)

    def is_own(self, url: str) -> bool:
        """Whether a URL is on the origin of the base, so that it may get the credential."""
        return origin(url) == self.origin

    def may_lead_to(self, url: str) -> bool:
        """Whether a reply of the provider may send us to this URL: https, or from loopback to loopback."""
        there = origin(url)
        return there.scheme == "https" or (self.origin.scheme == "http" and there.is_loopback)


def is_absolute(url: str) -> bool:
    """Whether a URL names its server."""
    return bool(urlsplit(url).scheme)


def joined(url: str, reference: str) -> str:
    """What a reference in a reply to `url` points at; an absolute one stays as it is, letter for letter."""
    return reference if is_absolute(reference) else urljoin(url, reference)


def with_params(url: str, params: Mapping[str, str]) -> str:
    """The URL with more parameters and without a fragment."""
    parts = urlsplit(url)
    query = "&".join(part for part in (parts.query, urlencode(params)) if part)
    return urlunsplit(SplitResult(parts.scheme, parts.netloc, parts.path, query, ""))


def path(url: str) -> str:
    """What a message may hold of a URL beside its server, printable: not the query, which may be signed."""
    return quote(urlsplit(url).path, safe="/%:@!$&'()*+,;=~")[:MOST_PATH] or "/"

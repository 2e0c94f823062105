"""Messages: a request as it arrived and the response that leaves, before and after the socket."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its Enterprise prefix taken off the path."""

    method: str
    path: str  # without prefix and query: /repos/acme/api
    query: tuple[tuple[str, str], ...]  # in the order they were sent
    headers: Mapping[str, str]  # names in lower case
    document: Any  # parsed JSON body; None: there was none
    base_url: str  # what stands before `path` in links: http://127.0.0.1:8080/api/v3
    now: datetime  # the server's clock, aware UTC

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def parameter(self, name: str) -> str | None:
        """The last value of a query parameter."""
        return dict(self.query).get(name)


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a response leaves the socket."""

    wait_seconds: float = 0.0  # before the first byte, beside the usual latency
    cut_after: float | None = None  # share of the body after which the connection is closed
    drip_seconds: float = 0.0  # over which the body is spread
    repeat: int = 1  # times that the body is sent, for one that is far too long


@dataclass(slots=True)
class Response:
    """One response. `document` becomes the JSON body unless `body` is given."""

    status: int
    document: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    overrides: dict[str, str | None] = field(default_factory=dict)  # headers that win over ours; None: left out
    last_modified: datetime | None = None
    template: str = ""  # path as the official description has it: /repos/{owner}/{repo}
    is_misbehaviour: bool = False  # nothing that the official description knows, as from a fault
    delivery: Delivery = field(default_factory=Delivery)

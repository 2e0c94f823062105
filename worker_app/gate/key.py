"""The words of the gate: what a window closes, how urgent a request is, and what was decided about it. Values without I/O."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

WHOLE_KEY = "*"  # the bucket of a window that closes every other one
MOST_HOST = 259  # 253 characters of a name, a colon and a port
FORBIDDEN = frozenset("{}|")  # they separate the parts of a Redis key


@dataclass(frozen=True, slots=True)
class GateKey:
    """Whose requests to whom are counted together: a provider, one of our organisations, a host as a person sees it.

    Raises ValueError for a part that is empty or holds one of `{ } |`, and for a host with a scheme, a path, the default port
    or a final dot, or in upper case.
    """

    provider: str  # github, gitlab, jira, linear
    org_id: str
    host: str  # github.com, gitlab.com, acme.atlassian.net, linear.app
    _hash: int = field(init=False, repr=False, compare=False)  # a key is looked up at every request

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["GateKey"], tuple[str, str, str]]:
        return GateKey, (self.provider, self.org_id, self.host)  # another process hashes otherwise

    def __post_init__(self) -> None:
        for name in ("provider", "org_id", "host"):
            value = getattr(self, name)
            if not value or FORBIDDEN & set(value) or not value.isprintable() or " " in value:
                raise ValueError(f"{name} is {value!r}: it must not be empty nor hold a space or one of {{ }} |")
        if len(self.host) > MOST_HOST:
            raise ValueError(f"host has {len(self.host)} characters: a host has at most {MOST_HOST}")
        if self.host != self.host.lower() or "/" in self.host or self.host.endswith((".", ":443")):
            raise ValueError(
                f"host is {self.host!r}: write it in lower case, without scheme, path, default port and final dot"
            )

        object.__setattr__(self, "_hash", hash((self.provider, self.org_id, self.host)))

    @property
    def text(self) -> str:
        """The part of a Redis key that holds the key, one hash tag: both keys of it live in one slot of a cluster."""
        return f"{{{self.provider}|{self.org_id}|{self.host}}}"


class Priority(IntEnum):
    """How urgent a request is; the smaller goes first."""

    INTERACTIVE = 0  # a webhook, or a person waits
    SYNC = 1  # a schedule
    BULK = 2  # a backfill


class Reason(StrEnum):
    """Why a request may start, or may not."""

    ALLOWED = "allowed"
    WINDOW = "window"  # the provider refused, and said or implied until when
    QUOTA = "quota"  # what is left of it is held for more urgent work, or nothing is left
    PROBE = "probe"  # nobody knows what is left: one request is under way to ask
    CONCURRENCY = "concurrency"  # as many requests as the key may have are under way
    PACE = "pace"  # the next one is due later
    OUTAGE = "outage"  # the gate's Redis is away


class Decision(NamedTuple):
    """Whether a request may start now; if not, in how many seconds to ask again, and why."""

    allowed: bool
    retry_in: float = 0.0  # seconds
    reason: Reason = Reason.ALLOWED
    bucket: str = ""
    detail: str = ""  # the provider's own word
    fails: int = 0  # generations in a row in which the bucket was refused


@dataclass(frozen=True, slots=True)
class GateState:
    """What the gate knows of one bucket of a key, for people."""

    key: GateKey
    bucket: str
    reason: str
    detail: str
    retry_in: float  # seconds until the window is over; 0: open
    limit: int | None
    remaining: int | None
    reset_in: float | None  # seconds until the quota is whole again
    conc: int  # concurrency limit, as learned
    live: int  # requests under way

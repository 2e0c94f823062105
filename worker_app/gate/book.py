"""What the gate asks its book, and what the book answers. There are two: one in Redis, one in memory for when Redis is away.

Durations and moments are whole milliseconds of the book's own clock. Values without I/O.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from worker_app.gate.key import GateKey, Priority, Reason
from worker_app.gate.policy import BucketPolicy
from worker_app.gate.signals import RateSignal

NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BucketAsk:
    """One bucket that a request counts against."""

    name: str
    policy: BucketPolicy
    cost: int
    is_silent: bool  # replies of the endpoint say nothing about the quota


@dataclass(frozen=True, slots=True)
class Known:
    """A window that a process knows."""

    bucket: str
    left_ms: int
    text: str  # reason and detail
    is_told: bool = False  # the book itself told of it: this is no news, unless the book has lost it


@dataclass(frozen=True, slots=True)
class Held:
    """The place in the order of release that a waiting caller was given."""

    bucket: str
    generation: int
    ticket: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that wants to start."""

    lease: str  # names what it costs each quota: `token.7|core:1`
    lease_ms: int
    priority: Priority
    max_delay_ms: int
    max_conc: int
    ramp_ms: int
    guard_ms: int
    buckets: tuple[BucketAsk, ...]
    epoch: int = 0
    known: tuple[Known, ...] = ()
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """The request may start after `delay_ms`."""

    delay_ms: int
    now_ms: int
    remaining: int | None
    cleared: int
    stepped_ms: int
    limit: int  # of requests under way, as learned; right after a window fewer may be granted
    live: int
    ended: tuple[str, ...] = ()  # buckets whose window this grant found to be over, each told once
    room: int = 1  # how many more may be under way now
    born: int = 0  # since when the book counts leases of the key: another moment, and it has lost what it knew


@dataclass(frozen=True, slots=True)
class Waits:
    """The request may not start; ask again after `wait_ms`."""

    wait_ms: int
    now_ms: int
    reason: Reason
    cleared: int
    stepped_ms: int
    bucket: str
    left_ms: int = -1  # of the window alone, without the place in the order of release
    held: Held | None = None
    text: str = ""
    fails: int = 0
    born: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """What a reply said, for the book."""

    lease: str
    sent_ms: int
    signal: RateSignal
    text: str  # reason and detail of a refusal
    guard_ms: int
    default_after_ms: int
    max_conc: int
    policies: Mapping[str, BucketPolicy]
    buckets: tuple[str, ...]  # of the endpoint, and `*`


@dataclass(frozen=True, slots=True)
class Learned:
    """What the book made of a reply."""

    was_live: bool
    left_ms: int  # of the window that the refusal closed; 0: it was none
    now_ms: int
    cleared: int
    stepped_ms: int
    bucket: str
    fails: int
    opened: int  # 1: a new window, 2: one that grew, 0: neither
    has_leaked: bool  # the refused request had started while its bucket was known to be closed
    born: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that is known of a key: the fields are those of `_state.lua`."""

    now_ms: int
    cleared: int
    stepped_ms: int
    live: int
    fields: Mapping[str, str]

    def windows(self) -> Iterable[tuple[str, int, str, int]]:
        """Every window that is open, as (bucket, milliseconds left, reason and detail, refused generations)."""
        for field, value in self.fields.items():
            if field.startswith("u:") and int(value) > self.now_ms:
                bucket = field[2:]
                text, fails = self.fields.get(f"y:{bucket}", ""), int(self.fields.get(f"fails:{bucket}", 0))
                yield bucket, int(value) - self.now_ms, text, fails

    def number(self, kind: str, bucket: str) -> int | None:
        """A number of a bucket, None where there is none."""
        value = self.fields.get(f"{kind}:{bucket}")
        return None if value is None else int(value)


class Book(Protocol):
    """Where windows, quotas and leases of keys stand."""

    def acquire(self, key: GateKey, ask: Ask) -> Granted | Waits:
        """Grant the request or say how long to wait."""
        ...

    def observe(self, key: GateKey, told: Told) -> Learned:
        """End the lease and learn from the reply."""
        ...

    def sync(
        self, key: GateKey, epoch: int = 0, known: tuple[Known, ...] = (), leases: Mapping[str, int] = NONE
    ) -> Seen:
        """Add the windows that the caller knows and the leases that it holds, with the milliseconds that each may last.

        Tells all that is known; without windows and leases it writes nothing.
        """
        ...

    def clear(self, key: GateKey, bucket: str) -> int:
        """Forget the windows and quotas of a bucket, `*` of all; returns how many windows were open."""
        ...

    def every_key(self) -> list[GateKey]:
        """Every key of which something is known."""
        ...

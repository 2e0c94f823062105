"""Policy: what is known of a provider's limits before its first reply. Data without I/O; `policies` holds those of the four."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from worker_app.gate.signals import Kind, RateSignal, Reply

MOST_ENDPOINTS = 64  # of a policy: each may hold fields in the state of a key, whose size is bounded


@dataclass(frozen=True, slots=True)
class BucketPolicy:
    """How one bucket is counted and paced; it lets pass at most `burst + period / gap` requests in any period."""

    model: Literal["none", "fixed", "leaky"] = (
        "none"  # how the provider's own quota comes back; none: it tells of no quota
    )
    period: float = 60.0  # seconds in which the quota comes back
    gap: float = 0.0  # seconds between two requests, whole milliseconds; 0: not paced
    burst: int = 1  # requests that may go without a gap
    is_weighed: bool = False  # True: a request takes its cost from the quota; False: each takes 1. Paced, each counts 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A kind of request and the buckets that it is counted in, the widest first."""

    name: str
    buckets: tuple[str, ...]
    silent: bool = False  # its replies carry no quota headers, though the provider counts it
    is_limited: bool = False  # the provider counts it by itself as well, and refuses it alone

    @property
    def own_bucket(self) -> str:
        """The narrowest bucket: what a refusal closes that speaks of this endpoint alone."""
        return self.buckets[-1]


@dataclass(frozen=True, slots=True)
class ProviderPolicy:
    """The limits of a provider and how its replies are read."""

    name: str
    buckets: Mapping[str, BucketPolicy]
    endpoints: Mapping[str, Endpoint]
    max_conc: int  # requests under way at once for one key: a start value of ours
    judge: Callable[[Reply, Endpoint], RateSignal]
    default_after: float = 60.0  # seconds that a refusal closes which states no wait
    guard: float = 1.0  # seconds added to every wait: at the very reset the old window still refuses
    request_deadline: float = 60.0  # seconds that one request may take, all of it
    ramp: float = 5.0  # seconds after a window in which concurrency rises from 1

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of that name; ValueError for one that the policy does not know: none is guessed."""
        try:
            return self.endpoints[name]
        except KeyError:
            known = ", ".join(sorted(self.endpoints))
            raise ValueError(f"{self.name} has no endpoint {name!r}; it has {known}") from None

    def classify(self, reply: Reply) -> RateSignal:
        """What the reply says about limits; total: whatever the status, headers and body are, it answers."""
        try:
            return self.judge(reply, self.endpoint(reply.endpoint))
        except Exception as fault:  # noqa: BLE001 - a reply that cannot be read must not lose the request that brought it
            return RateSignal(Kind.UNKNOWN, bucket="*", detail=f"classifier failed: {type(fault).__name__}")

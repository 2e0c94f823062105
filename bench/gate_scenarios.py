"""What the fleet is let loose on: the clients, and the providers that they meet. Data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.gate_provider import Shape

ENDLESS: Final = 1_000_000  # a quota that nobody uses up
OURS: Final = "ours"

SIDES: Final[Mapping[str, str]] = {
    "retry-after": "honours Retry-After alone, each greenlet for itself",
    "shared-timestamp": "one timestamp in Redis, set by a refusal, deleted by a success",
    "limits": "limits, moving window told the exact quota; honours Retry-After",
    "pyrate-limiter": "PyrateLimiter, sliding log told the exact quota; honours Retry-After",
    OURS: "the gate, at most 18 requests under way, no pace",
}
# What each asks Redis for. Scripts use other commands inside, which are no trips.
TRIPS: Final[Mapping[str, tuple[str, ...]]] = {
    "retry-after": (),
    "shared-timestamp": ("get", "set", "del"),
    "limits": ("evalsha",),
    "pyrate-limiter": ("evalsha", "zremrangebyscore"),
    OURS: ("evalsha", "eval"),
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the provider does, and who asks it."""

    name: str
    does: str
    shape: Shape
    seconds: float = 0.0  # 0: as long as the command line says
    processes: int = 4
    greenlets: int = 20  # of each process
    policy: str = "github"  # of ours
    sides: tuple[str, ...] = (OURS,)


SCENARIOS: Final[Mapping[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        Scenario("quota", "300 requests per 6 s; above 20 in flight a block of 2 s", Shape(), sides=tuple(SIDES)),
        Scenario("hidden", "somebody else takes 20 % of the same quota", Shape(hidden_per_period=60)),
        Scenario(
            "leaky",
            "300 at first, 50 more each second, as Linear",
            Shape("leaky", most_in_flight=None),
            policy="linear",
        ),
        Scenario(
            "refused",
            "no quota to speak of; now and then a block of 2 s for no reason that a client could see",
            Shape(limit=ENDLESS, blocks_at=(3.0, 14.0, 25.0)),
            seconds=28.0,
        ),
        Scenario(
            "herd",
            "200 wait for the end of a block",
            Shape(limit=ENDLESS, closed_until=4.0),
            seconds=42.0,
            greenlets=50,
        ),
        Scenario("busy", "no quota to speak of: concurrency is the limit", Shape(limit=ENDLESS), seconds=10.0),
        Scenario(
            "paced",
            "no quota to speak of: a pace of 50 a second is the limit",
            Shape(limit=ENDLESS),
            seconds=10.0,
            policy="paced",
        ),
    )
}

"""What a run of the fleet came to, as the figures of the document. Pure; it knows neither processes nor Redis."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench import gate_arrivals
from bench.gate_arrivals import ACCEPTED, BURST_SECONDS, PRIMARY, SECONDARY, Arrival
from bench.gate_scenarios import Scenario

CALM_SECONDS: Final = 30.0  # after a window, in which nothing may be refused
AFTER_FIRST: Final = (
    "first_accepted_after",
    "sent_in_first_100ms",
    "most_in_flight_in_first_100ms",
    "refused_within_30s",
    "full_rate_after",
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run left behind."""

    began_at: float  # monotonic
    arrivals: tuple[Arrival, ...]  # in the order in which they came
    hidden: tuple[float, ...]  # when the hidden consumer got a request
    tallies: tuple[Mapping[str, Any], ...]  # of each client process
    trips: int  # to Redis
    redis_seconds: float  # inside Redis
    memory_bytes: int  # of all keys, at the end
    possible: int


def figures(scenario: Scenario, side: str, found: Seen) -> dict[str, Any]:
    """One run for the document."""
    counts = gate_arrivals.counted(found.arrivals)
    episodes = gate_arrivals.episodes(found.arrivals)
    asked, granted = (sum(tally[name] for tally in found.tallies) for name in ("asked", "granted"))
    sent = len(found.arrivals)
    free = found.possible - len(found.hidden)
    return {
        "scenario": scenario.name,
        "side": side,
        "possible": found.possible,
        "hidden": len(found.hidden),
        "sent": sent,
        "accepted": counts[ACCEPTED],
        "share_percent": round(100 * counts[ACCEPTED] / free, 2),
        "accepted_by_window": gate_arrivals.by_window(
            [item.came_at for item in found.arrivals if item.outcome == ACCEPTED], found.began_at, scenario.shape.period
        ),
        "refused_primary": counts[PRIMARY],
        "refused_primary_own": gate_arrivals.own_making(found.arrivals, found.hidden),
        "refused_secondary": counts[SECONDARY],
        "episodes": len(episodes),
        "refused_late": sum(episode.late_count for episode in episodes),
        "most_in_100ms": gate_arrivals.most_within([item.sent_at for item in found.arrivals]),
        "most_in_flight": max((item.in_flight for item in found.arrivals), default=0),
        "acquires_per_grant": round(asked / granted, 3) if granted else None,
        "trips_per_request": round(found.trips / sent, 3) if sent else None,
        "redis_us_per_trip": round(1e6 * found.redis_seconds / found.trips, 1) if found.trips else None,
        "memory_bytes": found.memory_bytes,
        "notes": _summed(tally["notes"] for tally in found.tallies),
        **after_refusal(found),
        **after_first(found),
    }


def after_refusal(found: Seen) -> dict[str, Any]:
    """What started in a closed scope after somebody had recorded the refusal."""
    recorded = [at for tally in found.tallies for at in tally["recorded"]]
    known = list(gate_arrivals.known(found.arrivals, recorded))
    delays = sorted(delay for item in known for delay in item.delays)
    return {
        "recorded_episodes": len(known),
        "recorded_refusals": sum(item.refused_count for item in known),
        "starts_after_known_ms": [round(1000 * delay, 2) for delay in delays],
        "most_refused_of_an_episode": max((item.refused_count for item in known), default=0),
    }


def after_first(found: Seen) -> dict[str, Any]:
    """How a fleet set out: from its first accepted request, before which a block may have stood."""
    first = next((item.came_at for item in found.arrivals if item.outcome == ACCEPTED), None)
    if first is None:
        return dict.fromkeys(AFTER_FIRST)
    begins = [item for item in found.arrivals if first <= item.came_at < first + BURST_SECONDS]
    refused = [
        item for item in found.arrivals if first <= item.came_at < first + CALM_SECONDS and item.outcome != ACCEPTED
    ]
    full = gate_arrivals.full_rate_after(found.arrivals, first)
    values = (
        round(first - found.began_at, 3),
        len(begins),
        max(item.in_flight for item in begins),
        len(refused),
        None if full is None else round(full, 2),
    )
    return dict(zip(AFTER_FIRST, values, strict=True))


def _summed(counts: Iterator[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for item in counts:
        for name, count in item.items():
            total[name] = total.get(name, 0) + count
    return total

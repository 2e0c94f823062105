"""What a provider saw, as figures: episodes of refusals, bursts, starts after a refusal was known. Pure; it knows no socket.

All moments are seconds of CLOCK_MONOTONIC, which every process of a machine shares.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import NamedTuple

ACCEPTED, PRIMARY, SECONDARY = "accepted", "primary", "secondary"
LATE_SECONDS = 0.1  # after the first refusal of an episode: by then a shared gate has told everybody
BURST_SECONDS = 0.1
BIN_SECONDS = 0.5  # over which a rate is taken
STEP_SECONDS = 0.1  # between two looks at it
FULL_SHARE = 0.9  # of the steady rate: full
STEADY_SECONDS = 10.0  # at the end of a run


class Arrival(NamedTuple):
    """One request as the provider saw it; tens of thousands of them are read at once."""

    sent_at: float  # by the client's word
    came_at: float
    ended_at: float
    in_flight: int  # with this one
    outcome: str


@dataclass(frozen=True, slots=True)
class Episode:
    """Refusals in a row, which no acceptance interrupts: one block, however often it was renewed."""

    refused: tuple[Arrival, ...]

    @property
    def began_at(self) -> float:
        """When the first came."""
        return self.refused[0].came_at

    @property
    def late_count(self) -> int:
        """Refusals that a fleet could have spared itself."""
        return sum(item.came_at > self.began_at + LATE_SECONDS for item in self.refused)


@dataclass(frozen=True, slots=True)
class Known:
    """An episode from the moment at which the first of its refusals was recorded for all."""

    refused_count: int
    delays: tuple[float, ...]  # seconds from that moment to the start of each request that was refused after it


def episodes(arrivals: Sequence[Arrival]) -> list[Episode]:
    """The episodes of a run; as everywhere here, arrivals are given in the order in which they came."""
    runs = groupby(arrivals, key=lambda item: item.outcome != ACCEPTED)
    return [Episode(tuple(run)) for is_refused, run in runs if is_refused]


def counted(arrivals: Sequence[Arrival]) -> Counter[str]:
    """How many had each outcome."""
    return Counter(item.outcome for item in arrivals)


def by_window(moments: Sequence[float], began_at: float, period: float) -> list[int]:
    """How many lie in each window from `began_at` on; what came a little early belongs to the first."""
    windows = Counter(max(0, int((at - began_at) // period)) for at in moments)
    return [windows[number] for number in range(max(windows, default=-1) + 1)]


def most_within(moments: Sequence[float], seconds: float = BURST_SECONDS) -> int:
    """The most of them that lie within any stretch of so many seconds."""
    ordered = sorted(moments)
    return max((bisect_right(ordered, at + seconds) - number for number, at in enumerate(ordered)), default=0)


def known(arrivals: Sequence[Arrival], recorded: Sequence[float]) -> Iterator[Known]:
    """Each episode that somebody recorded; `recorded` are the moments at which a client had recorded a refusal."""
    moments = sorted(recorded)
    for episode in episodes(arrivals):
        place = bisect_left(moments, episode.began_at)
        if place == len(moments):
            continue
        at = moments[place]
        delays = tuple(item.sent_at - at for item in episode.refused if item.sent_at > at)
        yield Known(len(episode.refused), delays)


def full_rate_after(arrivals: Sequence[Arrival], since: float) -> float | None:
    """Seconds from `since` until accepted requests came at the rate of the last ten seconds; None: never."""
    moments = sorted(item.came_at for item in arrivals if item.outcome == ACCEPTED)
    if not moments:
        return None
    last = moments[-1]
    steady = _count(moments, last - STEADY_SECONDS, last) / STEADY_SECONDS
    end = since + BIN_SECONDS
    while end <= last:
        if _count(moments, end - BIN_SECONDS, end) / BIN_SECONDS >= FULL_SHARE * steady:
            return end - since
        end += STEP_SECONDS
    return None


def _count(moments: Sequence[float], since: float, until: float) -> int:
    return bisect_left(moments, until) - bisect_left(moments, since)


def own_making(arrivals: Sequence[Arrival], hidden: Sequence[float]) -> int:
    """Primary refusals that no hidden consumer explains.

    What it took after the newest request whose reply had come back was in no header that a client could have read. It accounts
    for as many refusals.
    """
    unseen = sorted(hidden)
    own = 0
    for item in arrivals:
        if item.outcome != PRIMARY:
            continue
        told_at = max((other.came_at for other in arrivals if other.ended_at <= item.sent_at), default=-inf)
        place = bisect_left(unseen, told_at)
        if place < len(unseen) and unseen[place] <= item.came_at:
            del unseen[place]
        else:
            own += 1
    return own

"""What a fleet of the simulator has to do: when each task arrives and how long it takes. The same seed gives the same load."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, pi, sin
from random import Random
from typing import Final

HOUR: Final = 3600.0
DISPATCH_SECONDS: Final = 300.0  # beat's period, DISPATCH_INTERVAL_SECONDS
BATCHES: Final = (150, 600)  # of one dispatch, evenly spread
HOURLY_BATCHES: Final = 1500  # and so many more at each full hour


@dataclass(frozen=True, slots=True)
class Arrival:
    """One task as it is sent."""

    at: float  # second of the simulation
    seconds: float  # that it takes
    is_gated: bool = False  # its provider is the one whose gate closes


@dataclass(frozen=True, slots=True)
class Durations:
    """How long tasks take: lognormal, since a few take far longer than most."""

    median_seconds: float
    sigma: float  # of the logarithm

    def draw(self, random: Random) -> float:
        """The seconds of one task."""
        return random.lognormvariate(log(self.median_seconds), self.sigma)


BATCH: Final = Durations(12.0, 0.8)  # mean 16.5 s
COMPUTATION: Final = Durations(420.0, 0.6)  # of metrics, or of a backfill; mean 503 s


def fan_outs(seed: int, *, hours: float = 4.0, gated_share: float = 0.0) -> list[Arrival]:
    """What beat sends: 150 to 600 batches every 300 s and 1500 more each hour, nothing between. The standard load."""
    random = Random(seed)
    found = []
    for number in range(int(hours * HOUR / DISPATCH_SECONDS)):
        at = number * DISPATCH_SECONDS
        count = random.randint(*BATCHES) + (HOURLY_BATCHES if at % HOUR == 0 else 0)
        found += [Arrival(at, BATCH.draw(random), random.random() < gated_share) for _ in range(count)]
    return found


def sine(
    seed: int, *, hours: float = 4.0, least: float = 2.0, most: float = 8.0, period: float = 2 * HOUR
) -> list[Arrival]:
    """Tasks that come one by one, between `least` and `most` a second, up and down in `period` seconds."""
    random = Random(seed)
    middle, swing = (least + most) / 2, (most - least) / 2
    moments = _moments(random, most, hours * HOUR)
    # Of moments at the highest rate, as many are kept as the rate of that moment asks for.
    kept = (at for at in moments if random.random() * most < middle + swing * sin(2 * pi * at / period))
    return [Arrival(at, BATCH.draw(random)) for at in kept]


def heavy(seed: int, *, hours: float = 8.0) -> list[Arrival]:
    """Computations: 4 to 10 every half hour and one now and then, about 20 in an hour."""
    random = Random(seed)
    found = [Arrival(at, COMPUTATION.draw(random)) for at in _moments(random, 6 / HOUR, hours * HOUR)]
    for number in range(int(2 * hours)):
        count = random.randint(4, 10)
        found += [Arrival(number * HOUR / 2, COMPUTATION.draw(random)) for _ in range(count)]
    return sorted(found, key=lambda arrival: arrival.at)


def office_day(seed: int, *, hours: float = 4.0) -> list[Arrival]:
    """The standard load in the first half of the time and nothing after it, as in an evening."""
    return [arrival for arrival in fan_outs(seed, hours=hours) if arrival.at < hours * HOUR / 2]


def _moments(random: Random, rate: float, until: float) -> Iterator[float]:
    at = random.expovariate(rate)
    while at < until:
        yield at
        at += random.expovariate(rate)


def total_seconds(arrivals: Sequence[Arrival]) -> float:
    """The work of all of them: slots x seconds."""
    return sum(arrival.seconds for arrival in arrivals)

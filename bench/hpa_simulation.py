"""The clock of the simulator: a fleet, a load and a controller, from event to event, and the figures that come of it.

Left out: provisioning of nodes, provider budgets other than a closed gate, and the age of the figures that the controller reads
(at most a heartbeat and the exporter's cache). https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, groupby
from math import ceil
from types import MappingProxyType
from typing import Final

from bench.hpa_behavior import Behavior
from bench.hpa_controller import SYNC_SECONDS, Controller, Target, direction_flips
from bench.hpa_load import HOUR, Arrival
from bench.hpa_pods import Fleet, Pod, Task

POD_START_SECONDS: Final = 25.0  # from the order to the first message
Signal = Callable[[Fleet, float], float]

SIGNALS: Final[Mapping[str, Signal]] = MappingProxyType({
    "work": lambda fleet, _: len(fleet.waiting) + fleet.running,
    "work with held": lambda fleet, _: len(fleet.waiting) + len(fleet.held) + fleet.running,
    "LLEN": lambda fleet, _: len(fleet.waiting) + len(fleet.held),
    "age": lambda fleet, now: fleet.oldest_age(now),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setup:
    """One fleet under one autoscaler."""

    signal: str  # of SIGNALS
    target: Target
    behavior: Behavior
    slots: int = 20
    least: int = 2
    most: int = 12
    drain_seconds: float = 240.0
    hours: float = 4.0
    closure: tuple[float, float] | None = None  # seconds between which the gate of the gated tasks is closed


@dataclass(frozen=True, slots=True)
class Look:
    """What the controller saw and made of it."""

    at: float
    waiting: int
    running: int
    before: int  # pods
    after: int


@dataclass(slots=True)
class Seen:
    """What happened."""

    looks: list[Look] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)  # seconds from sent to begun, of each task that began
    hit: int = 0  # tasks that ran on a pod when it was told to go
    given_back: int = 0  # of them: those that still ran at the end of its drain
    pod_seconds: float = 0.0
    ended: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """A row of the table."""

    changes: int
    flips: int
    hit: int
    given_back: int
    wait_p95_seconds: float
    wait_max_seconds: float
    pod_hours: float
    busy_share: float  # of the slots that were paid for
    left_count: int  # tasks that had not ended when the time was over


class Simulation:
    """One run. `run` may be called once."""

    def __init__(self, setup: Setup, arrivals: Sequence[Arrival]) -> None:
        self.setup = setup
        self.seen = Seen()
        self._work = sum(arrival.seconds for arrival in arrivals)
        self._sent = len(arrivals)
        self._end = setup.hours * HOUR
        self._fleet = Fleet(setup.slots)
        self._controller = Controller(setup.least, setup.most, setup.target, setup.behavior)
        self._numbers = count()  # of two events at one moment the earlier made comes first
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._plan(arrivals)

    def run(self) -> "Simulation":
        """Turn the clock to the end; returns itself."""
        while self._events and self._events[0][0] <= self._end:
            now, _, happen = heapq.heappop(self._events)
            happen(now)
            for pod, task in self._fleet.take(now):
                self._begin(now, pod, task)
        for pod in (*self._fleet.pods, *self._fleet.draining):
            self._paid(pod, self._end)
        return self

    def figures(self) -> Figures:
        """The figures, once it has run."""
        looks, seen = self.seen.looks, self.seen
        sizes = [looks[0].before, *(look.after for look in looks)]
        waits = sorted(seen.waits)
        return Figures(
            changes=sum(look.before != look.after for look in looks),
            flips=direction_flips(sizes),
            hit=seen.hit,
            given_back=seen.given_back,
            wait_p95_seconds=waits[ceil(0.95 * len(waits)) - 1] if waits else 0.0,
            wait_max_seconds=waits[-1] if waits else 0.0,
            pod_hours=seen.pod_seconds / HOUR,
            busy_share=self._work / (seen.pod_seconds * self.setup.slots),
            left_count=self._sent - seen.ended,
        )

    def _plan(self, arrivals: Sequence[Arrival]) -> None:
        for _ in range(self.setup.least):
            self._fleet.pods.append(Pod(0.0, self.setup.slots, is_ready=True))
        for moment, together in groupby(arrivals, key=lambda arrival: arrival.at):
            self._at(moment, partial(self._arrive, list(together)))
        if self.setup.closure is not None:
            closes_at, opens_at = self.setup.closure
            self._at(closes_at, lambda _: self._fleet.close_gate())
            self._at(opens_at, self._fleet.open_gate)
        self._at(0.0, self._sync)

    def _arrive(self, arrivals: Sequence[Arrival], _: float) -> None:
        for arrival in arrivals:
            self._fleet.arrive(arrival)

    def _at(self, moment: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._numbers), happen))

    def _begin(self, now: float, pod: Pod, task: Task) -> None:
        if task.began_at == now:
            self.seen.waits.append(now - task.waits_since)
        began_at = now
        self._at(now + task.seconds, lambda moment: self._finish(moment, pod, task, began_at))

    def _finish(self, now: float, pod: Pod, task: Task, began_at: float) -> None:
        if pod.running.get(task) != began_at:  # it was given back meanwhile
            return
        del pod.running[task]
        self.seen.ended += 1
        if pod.is_draining and not pod.running:
            self._gone(now, pod)

    def _sync(self, now: float) -> None:
        fleet, before = self._fleet, len(self._fleet.pods)
        after = self._controller.sync(now, SIGNALS[self.setup.signal](fleet, now), before)
        self.seen.looks.append(Look(now, len(fleet.waiting), fleet.running, before, after))
        for _ in range(after - before):
            self._start_pod(now)
        for pod in fleet.choose_leavers(max(0, before - after)):
            self._tell_to_go(now, pod)
        self._at(now + SYNC_SECONDS, self._sync)

    def _start_pod(self, now: float) -> None:
        pod = Pod(now, self.setup.slots)
        self._fleet.pods.append(pod)
        self._at(now + POD_START_SECONDS, lambda _: setattr(pod, "is_ready", True))

    def _tell_to_go(self, now: float, pod: Pod) -> None:
        self.seen.hit += len(pod.running)
        if not pod.running:
            self._paid(pod, now)
            return
        self._at(now + self.setup.drain_seconds, lambda moment: self._drain_over(moment, pod))

    def _drain_over(self, now: float, pod: Pod) -> None:
        if pod in self._fleet.draining:
            self.seen.given_back += len(self._fleet.give_back(pod, now))
            self._gone(now, pod)

    def _gone(self, now: float, pod: Pod) -> None:
        self._fleet.draining.remove(pod)
        self._paid(pod, now)

    def _paid(self, pod: Pod, until: float) -> None:
        self.seen.pod_seconds += until - pod.born_at


def simulate(setup: Setup, arrivals: Sequence[Arrival]) -> Figures:
    """The figures of one fleet under one load."""
    return Simulation(setup, arrivals).run().figures()

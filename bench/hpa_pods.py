"""The pods of a simulated fleet, the one queue before them, and what is asked of a pod that has to go."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from bench.hpa_load import Arrival

FREE: Final = attrgetter("free")


@dataclass(slots=True, eq=False)
class Task:
    """One task on its way. Two of equal seconds are two."""

    seconds: float  # that it still takes
    waits_since: float
    is_gated: bool
    began_at: float | None = None  # for the first time


@dataclass(slots=True, eq=False)
class Pod:
    """A worker pod: paid for from `born_at` on, useful from `is_ready` on."""

    born_at: float
    slots: int
    is_ready: bool = False
    is_draining: bool = False
    running: dict[Task, float] = field(default_factory=dict)  # task -> the second at which it began here

    @property
    def free(self) -> int:
        """Slots that take a task now."""
        return self.slots - len(self.running) if self.is_ready and not self.is_draining else 0


@dataclass(slots=True)
class Fleet:
    """Queue and pods. Whoever turns the clock calls it; it keeps no time."""

    slots: int  # of each pod
    pods: list[Pod] = field(default_factory=list)  # oldest first, without those that drain
    draining: list[Pod] = field(default_factory=list)
    waiting: deque[Task] = field(default_factory=deque)
    held: deque[Task] = field(default_factory=deque)  # behind a closed gate
    is_gate_closed: bool = False

    @property
    def running(self) -> int:
        """Tasks that run, those of pods that drain among them: such a worker still tells its presence."""
        return sum(len(pod.running) for pod in (*self.pods, *self.draining))

    def oldest_age(self, now: float) -> float:
        """Seconds that the first task of the queue has waited; 0 for an empty queue."""
        return now - self.waiting[0].waits_since if self.waiting else 0.0

    def arrive(self, arrival: Arrival) -> None:
        """Put a task at the end of the queue, or behind its gate."""
        task = Task(arrival.seconds, arrival.at, arrival.is_gated)
        (self.held if task.is_gated and self.is_gate_closed else self.waiting).append(task)

    def close_gate(self) -> None:
        """Hold back what waits and is gated. What runs goes on."""
        self.is_gate_closed = True
        self.held.extend(task for task in self.waiting if task.is_gated)
        self.waiting = deque(task for task in self.waiting if not task.is_gated)

    def open_gate(self, now: float) -> None:
        """Let all of it go at once; the wait for the provider is not the fleet's."""
        self.is_gate_closed = False
        for task in self.held:
            task.waits_since = now
        self.waiting.extendleft(reversed(self.held))
        self.held.clear()

    def take(self, now: float) -> Iterator[tuple[Pod, Task]]:
        """Begin what waits, first come first served, each on the pod with the most free slots."""
        while self.waiting and self.pods:
            pod = max(self.pods, key=FREE)
            if not pod.free:
                return
            task = self.waiting.popleft()
            if task.began_at is None:
                task.began_at = now
            pod.running[task] = now
            yield pod, task

    def choose_leavers(self, count: int) -> list[Pod]:
        """Take out the pods that Kubernetes removes first: those that are not ready, then the youngest."""
        leavers = sorted(self.pods, key=lambda pod: (pod.is_ready, -pod.born_at))[:count]
        self.pods = [pod for pod in self.pods if pod not in leavers]
        for pod in leavers:
            pod.is_draining = True
            if pod.running:
                self.draining.append(pod)
        return leavers

    def give_back(self, pod: Pod, now: float) -> list[Task]:
        """End a pod: what it still runs goes to the front of the queue with the rest of its time, since a batch resumes."""
        left = list(pod.running)
        for task, began_at in pod.running.items():
            task.seconds -= now - began_at
            task.waits_since = now
        pod.running.clear()
        self.waiting.extendleft(reversed(left))
        return left

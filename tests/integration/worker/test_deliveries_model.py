"""A random walk of several processes over one Redis, held against a model: each message is in one place, and ends once."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import redis

from tests.integration.worker.broker import (
    GIVE_BACK,
    LIFE_SECONDS,
    TAKE,
    Broker,
    broker_of_the_test,  # noqa: F401 - pytest finds it
    lists_of,
)
from tests.integration.worker.line import Line
from worker_app.worker.deliveries import Deliveries

pytestmark = pytest.mark.integration

LISTS = ("a", "b", "c")
TAKING = (TAKE, (b"GET", b"unacked_answer"), (b"HMGET",), (b"ZRANGEBYSCORE",))  # marks of what may be lost
EVERYTHING = (*TAKING, GIVE_BACK)
ASIDE = tuple(f"{key}:unreadable" for key in LISTS)
STEPS = 700
PROCESSES = 3


class Process:
    """One process: its deliveries over a line of its own, and the messages that its consumer was given."""

    def __init__(self, broker: Broker) -> None:
        self.line: Line = broker.line()
        self.deliveries: Deliveries = broker.deliveries(self.line)
        self.running: list[str] = []


class Walk:
    """The walk. `published` and `settled` are the model; everything else is asked of Redis."""

    def __init__(self, broker: Broker, seed: int, losable: Sequence[tuple[bytes, ...]]) -> None:
        self.broker = broker
        self.losable = losable
        self.random = random.Random(seed)
        self.processes = [Process(broker) for _ in range(PROCESSES)]
        self.published: set[str] = set()
        self.settled: Counter[str] = Counter()
        self.taken_by: dict[str, Process] = {}  # as Redis shows it, also when no answer came
        self.story: list[str] = []

    def step(self) -> None:
        """One thing that one process does, and a look at everything."""
        chosen = self.random.choice(self.processes)
        does: Callable[[Process], None] = self.random.choices(
            list(STEPS_AND_WEIGHTS), list(STEPS_AND_WEIGHTS.values())
        )[0]
        self.story.append(f"{self.processes.index(chosen)} {does.__name__}")
        before = self.broker.unacked()
        try:
            does(self, chosen)  # type: ignore[call-arg, arg-type]
        except redis.RedisError as error:
            self.story[-1] += f" {type(error).__name__}"
        after = self.broker.unacked()
        self.taken_by |= dict.fromkeys(after - before, chosen)
        self.look(after)

    def look(self, unacked: set[str]) -> None:
        """Each message is in one list, or unacked, or settled; settled ones may be owed and stand in unacked still."""
        listed = [tag for key in (*LISTS, *ASIDE) for tag in self.broker.ready(key)]
        places = Counter([*listed, *unacked])
        assert max(places.values(), default=1) == 1, self.told(places)
        assert self.settled.keys() | places.keys() == self.published, self.told(places)
        assert not self.settled.keys() & set(listed), self.told(places)
        running = Counter(tag for process in self.processes for tag in process.running)
        assert max(running.values(), default=1) == 1, self.told(running)
        assert running.keys() <= unacked | self.settled.keys(), self.told(running)

    def told(self, places: Counter[str]) -> str:
        """What led here."""
        return f"{places - Counter(dict.fromkeys(places, 1))} after {len(self.story)} steps: {self.story[-30:]}"

    def publish(self, _: Process) -> None:
        tag = str(len(self.published))
        self.published.add(tag)
        self.broker.publish(tag, list_key=self.random.choice(LISTS))

    def take(self, process: Process) -> None:
        lists = self.random.sample(LISTS, self.random.randint(1, 3))
        found = process.deliveries.exchange(lists, self.random.randint(1, 6), life_seconds=LIFE_SECONDS)
        process.running += [tag for tag, _ in found]

    def finish(self, process: Process) -> str | None:
        if not process.running:
            return None
        return process.running.pop(self.random.randrange(len(process.running)))

    def settle(self, process: Process) -> None:
        if tag := self.finish(process):
            self.settled[tag] += 1
            process.deliveries.settle(tag)

    def give_back(self, process: Process) -> None:
        if tag := self.finish(process):
            process.deliveries.give_back_later(tag, is_next=self.random.random() < 0.5)
            process.deliveries.pay()

    def set_aside(self, process: Process) -> None:
        if tag := self.finish(process):
            process.deliveries.set_aside(tag)

    def pay(self, process: Process) -> None:
        process.deliveries.pay()

    def renew(self, process: Process) -> None:
        process.deliveries.renew()

    def tend(self, process: Process) -> None:
        process.deliveries.tend(LIFE_SECONDS, lists_of)

    def lose_an_answer(self, process: Process) -> None:
        process.line.lose_answer(*self.random.choice(self.losable))

    def lose_a_request(self, process: Process) -> None:
        process.line.lose_request(*self.random.choice(self.losable))

    def die(self, process: Process) -> None:
        """Killed: what it held grows old; what it had settled and not paid will run again."""
        unpaid = {tag for tag, taker in self.taken_by.items() if taker is process} & self.broker.unacked()
        for tag in unpaid:
            self.settled.pop(tag, None)
        if unpaid:
            self.broker.age(*unpaid)
        process.line.close()
        self.processes[self.processes.index(process)] = Process(self.broker)

    def end(self) -> None:
        """All lines are whole again, the consumers finish what they have, and the rest is taken and settled."""
        for process in self.processes:
            process.line.mend()
        left = -1
        while left != 0:
            for process in self.processes:
                self.try_to(process.deliveries.pay)
                self.try_to(partial(self.take, process))
                while process.running:
                    self.settle(process)
            self.try_to(lambda: self.tend(self.processes[0]))
            was, left = left, len(self.broker.unacked()) + sum(len(self.broker.ready(key)) for key in LISTS)
            assert left != was, f"nothing moves any more: {left} are left, {self.told(Counter())}"

    def try_to(self, call: Callable[[], object]) -> None:
        """Call once more when a line was broken already."""
        try:
            call()
        except redis.RedisError:
            call()


STEPS_AND_WEIGHTS: dict[Callable[..., None], int] = {
    Walk.publish: 25,
    Walk.take: 25,
    Walk.settle: 25,
    Walk.give_back: 6,
    Walk.set_aside: 1,
    Walk.pay: 4,
    Walk.renew: 1,
    Walk.tend: 3,
    Walk.lose_an_answer: 5,
    Walk.lose_a_request: 3,
    Walk.die: 1,
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("losable", [TAKING, EVERYTHING], ids=["losing takes", "losing anything"])
def test_each_message_is_in_one_place_at_each_step_and_settled_once_at_the_end(
    broker: Broker, losable: Sequence[tuple[bytes, ...]], seed: int
) -> None:
    walk = Walk(broker, seed, losable)
    for _ in range(STEPS):
        walk.step()
    walk.end()
    aside = {tag for key in ASIDE for tag in broker.ready(key)}
    assert set(walk.settled.values()) == {1}
    assert walk.settled.keys() | aside == walk.published
    assert not walk.settled.keys() & aside
    assert broker.redis.exists("unacked", "unacked_index", "unacked_owner") == 0

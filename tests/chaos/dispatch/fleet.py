"""Fleet: several actors that are killed by plan and replaced at once, and a beat that goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any

import redis

from celery_utils import PerformanceProfile, create_worker_app
from tests.chaos.dispatch import points
from tests.chaos.dispatch.actor import Orders
from tests.chaos.dispatch.points import Point
from worker_app import queues

TOP = Path(__file__).resolve().parents[3]
STEP_SECONDS = 0.02
MOST_TICKS = 4  # messages in the scheduler queue above which the beat adds none


@dataclass(frozen=True, slots=True)
class Kill:
    """One process that is proven to have died where it was told to."""

    point: Point
    actor: str
    at: float  # seconds since the epoch
    subjects: tuple[str, ...]


@dataclass(slots=True)
class Actor:
    """One that lives."""

    orders: Orders
    pid: int = 0
    born_at: float = field(default_factory=time.monotonic)


class Fleet:
    """`size` actors over the same stores. `plan` says at which point, and at which passage of it, each next one ends."""

    def __init__(
        self, folder: Path, database_url: str, redis_url: str, *, size: int = 4, visibility_seconds: int = 3600
    ) -> None:
        self.folder = folder
        self.kills: list[Kill] = []
        self.plan: deque[tuple[str, int]] = deque()
        self.redis = redis.Redis.from_url(redis_url)
        self.size = size
        self._stores = {
            "folder": str(folder),
            "database_url": database_url,
            "redis_url": redis_url,
            "visibility_seconds": visibility_seconds,
        }
        self._app = create_worker_app("beat", PerformanceProfile(), broker_url=redis_url, queues=queues.ALL_QUEUES)
        self._actors: dict[int, Actor] = {}
        self._unborn: dict[str, Actor] = {}
        self._names = (f"actor-{number:03}" for number in count())
        self._next_tick = self._next_rescue = 0.0
        self._nursery: subprocess.Popen[bytes] | None = None
        self._rest = b""

    @contextmanager
    def running(self) -> Iterator["Fleet"]:
        """The fleet, as long as the block lasts."""
        command = [sys.executable, "-m", "tests.chaos.dispatch.nursery"]
        with (self.folder / "nursery.log").open("wb") as log:
            self._nursery = subprocess.Popen(
                command, cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        os.set_blocking(self._pipe(self._nursery.stdout).fileno(), False)
        try:
            yield self
        finally:
            with self._nursery as nursery:
                os.killpg(nursery.pid, signal.SIGKILL)
            self._app.close()
            self.redis.close()

    @property
    def is_done(self) -> bool:
        """Whether every kill of the plan has happened, and nobody is on the way to one."""
        return not self.plan and not self.armed

    @property
    def armed(self) -> list[str]:
        """The points at which those who live now will end."""
        return [actor.orders.point for actor in self._everybody() if actor.orders.point]

    @property
    def killed(self) -> Counter[int]:
        """How often each point of the crash table was met."""
        return Counter(kill.point.number for kill in self.kills)

    def step(self) -> None:
        """See who died, replace them, be the beat."""
        for line in self._heard():
            if "born" in line:
                actor = self._unborn.pop(line["born"])
                actor.pid = line["pid"]
                self._actors[actor.pid] = actor
            else:
                self._bury(self._actors.pop(line["ended"]), line["status"])
        for _ in range(self.size - len(self._actors) - len(self._unborn)):
            self.bear(*self.plan.popleft() if self.plan else (None, 1))
        self._beat()

    def until(self, look: Callable[[], bool], what: str, deadline_seconds: float) -> None:
        """Go on, step by step, until `look` is true; raises AssertionError with `what` when the time is over.

        The pace never slows down: births, kills and ticks come with the steps.
        """
        deadline = time.monotonic() + deadline_seconds
        while time.monotonic() < deadline:
            self.step()
            if look():
                return
            time.sleep(STEP_SECONDS)
        raise AssertionError(f"{what}: not within {deadline_seconds:.0f} s")

    def bear(self, point: str | None, passage: int, *, is_stopped: bool = False) -> str:
        """Ask for one more actor; returns its name."""
        assert self._nursery is not None
        name = next(self._names)
        orders = Orders(name, point=point, passage=passage, is_stopped=is_stopped, **self._stores)  # type: ignore[arg-type]
        self._unborn[name] = Actor(orders)
        given = self._pipe(self._nursery.stdin)
        given.write((json.dumps(asdict(orders)) + "\n").encode())
        given.flush()
        return name

    def orders_of(self, name: str) -> Orders:
        """What an actor that lives was told."""
        return next(actor.orders for actor in self._everybody() if actor.orders.name == name)

    def wake(self, name: str) -> None:
        """Let an actor go on that stands still."""
        os.kill(next(pid for pid, actor in self._actors.items() if actor.orders.name == name), signal.SIGCONT)

    def log_of(self, name: str) -> str:
        """What an actor has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def lines(self, suffix: str) -> list[str]:
        """All lines of one kind that the actors left."""
        return [line for path in sorted(self.folder.glob(f"*.{suffix}")) for line in path.read_text().splitlines()]

    def held(self) -> int:
        """Messages that actors have taken and not done."""
        return sum(int(self.redis.llen(actor.orders.held)) for actor in self._actors.values())

    def _everybody(self) -> list[Actor]:
        return [*self._actors.values(), *self._unborn.values()]

    def _bury(self, actor: Actor, status: int) -> None:
        orders = actor.orders
        assert status == -signal.SIGKILL, f"{orders.name} ended with {status}:\n{self.log_of(orders.name)}"
        assert orders.mark.exists(), f"{orders.name} was killed by somebody else:\n{self.log_of(orders.name)}"
        mark = json.loads(orders.mark.read_text())
        assert (mark["point"], mark["pid"]) == (orders.point, actor.pid), mark
        self.kills.append(Kill(points.POINTS[mark["point"]], orders.name, mark["at"], tuple(mark["subjects"])))
        while (raw := self.redis.lpop(orders.held)) is not None:  # what it held is delivered again, as by a broker
            assert isinstance(raw, bytes)
            self.redis.rpush(json.loads(raw)["properties"]["delivery_info"]["routing_key"], raw)

    def _beat(self) -> None:
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + points.TICK_SECONDS
            self._send("dispatch_scheduled_syncs")
        if now >= self._next_rescue:
            self._next_rescue = now + points.RESCUE_SECONDS
            self._send("rescue")

    def _send(self, task: str) -> None:
        if int(self.redis.llen("scheduler")) < MOST_TICKS:
            self._app.send_task(f"worker_app.tasks.{task}", kwargs={"epoch": 0}, queue="scheduler")

    def _heard(self) -> list[dict[str, Any]]:
        assert self._nursery is not None
        read: bytes | None = self._pipe(self._nursery.stdout).read(65536)  # None: it has nothing to say just now
        if read is None:
            return []
        assert read, f"the nursery ended:\n{(self.folder / 'nursery.log').read_text()}"
        *lines, self._rest = (self._rest + read).split(b"\n")
        return [json.loads(line) for line in lines]

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> Any:
        assert pipe is not None
        return pipe

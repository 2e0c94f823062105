import random
from collections.abc import Callable
from functools import partial

import gevent
import pytest
from celery.exceptions import WorkerShutdown
from gevent import GreenletExit, Timeout
from gevent.event import Event
from structlog.testing import capture_logs

from tests.unit.worker.pool_requests import (
    Request,
    pid,
    raising,
    settle,
)
from worker_app.worker.pool import GreenPool, Job


class Walk:
    """Random requests, limits and kills on one pool."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pool = GreenPool(3)
        self.pool.pause_seconds = 0.0
        self.pool.on_start()
        self.requests: list[tuple[Request, Event, Job]] = []
        self.order: list[int] = []

    def ends(self, number: int, event: Event) -> Callable[[], object]:
        faults = [None, None, ValueError(), SystemExit(), MemoryError(), Timeout(9), GreenletExit(), WorkerShutdown(0)]
        fault, waits = self.random.choice(faults), self.random.choice([True, True, False])

        def does() -> str:
            self.order.append(number)
            if waits:
                event.wait()
            if fault is not None:
                raise fault
            return "answer"

        return does

    def apply(self) -> None:
        event = Event()
        request = Request(self.ends(len(self.requests), event), self.random.choice([None, 30.0]))
        if self.random.random() < 0.2:
            request.in_done = self.random.choice([lambda: gevent.sleep(0), raising(ValueError())])
        self.requests.append((request, event, request.go_to(self.pool)))

    def release(self) -> None:
        if self.requests:
            self.random.choice(self.requests)[1].set()

    def kill(self) -> None:
        if running := [job for _, _, job in self.requests if job.greenlet is not None]:
            self.pool.terminate_job(pid(self.random.choice(running)))

    def change(self) -> None:
        wanted, running, waiting = self.random.randint(1, 8), self.pool.running, self.pool.waiting
        if wanted > self.pool.limit:
            self.pool.grow(wanted - self.pool.limit)
            assert self.pool.running == max(running, min(wanted, running + waiting))
        else:
            self.pool.shrink(self.pool.limit - wanted)
            assert self.pool.running == running

    def refuse(self) -> None:
        waiting = self.pool.waiting
        assert self.pool.refuse_waiting() == waiting

    def kill_all(self) -> None:
        running = self.pool.running
        assert self.pool.kill_running() == running

    def step(self) -> None:
        does: list[Callable[[], object]] = [
            self.apply,
            self.release,
            self.kill,
            self.change,
            self.refuse,
            self.kill_all,
        ]
        does.append(partial(gevent.sleep, 0))
        running = self.pool.running
        self.random.choices(does, [40, 20, 5, 5, 1, 1, 30])[0]()
        assert self.pool.running <= max(running, self.pool.limit)
        assert self.pool.running == sum(job.greenlet is not None for _, _, job in self.requests)
        assert self.pool.waiting == 0 or self.pool.running >= self.pool.limit

    def end(self) -> None:
        for _, event, _ in self.requests:
            event.set()
        settle(self.pool)


@pytest.mark.parametrize("seed", range(5))
def test_random_life_leaves_one_verdict_each_and_an_empty_pool(seed: int) -> None:
    walk = Walk(seed)
    with capture_logs():
        for _ in range(400):
            walk.step()
        walk.end()
    assert [len(request.verdicts) for request, _, _ in walk.requests] == [1] * len(walk.requests)
    assert walk.order == sorted(walk.order)
    assert walk.pool.wait_idle(0)

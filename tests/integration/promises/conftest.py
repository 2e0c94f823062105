"""A stage for the promises: a Valkey of its own that may be stopped and started, real workers, a producer, the marks."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
import redis
from celery import Celery

from bench.worker_process import WorkerProcess, effects, marks, wait_for
from worker_app.embedded.valkey import EmbeddedValkey

PASSES = 120.0  # seconds that a slow machine may take for what a quick one does in ten


class Stage:
    """What one test works with. Every worker that it started ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.valkey = EmbeddedValkey(folder, password=None)
        self.valkey.start()
        self.url = self.valkey.url
        self.redis = redis.Redis.from_url(self.url)
        self.producer = Celery("producer", broker=self.url, set_as_current=False)
        self.workers: list[WorkerProcess] = []

    def worker(self, name: str = "w", *, is_waited_for: bool = True, **how: Any) -> WorkerProcess:
        """A worker of the workload that consumes."""
        started = WorkerProcess(self.folder, self.url, name=name, **how)
        self.workers.append(started)
        return started.wait_ready() if is_waited_for else started

    def send(self, task: str, *arguments: object, count: int = 1, queue: str = "work", **options: Any) -> None:
        """Messages of one task; `#` in an argument becomes the number of the message."""
        with (
            self.producer.connection_for_write() as connection,
            self.producer.amqp.Producer(connection) as producer,
        ):
            for number in range(count):
                given = [item.replace("#", str(number)) if isinstance(item, str) else item for item in arguments]
                options = {"ignore_result": True, **options}
                self.producer.send_task(task, args=given, queue=queue, producer=producer, **options)

    def suspend(self, number: signal.Signals) -> None:
        """SIGSTOP or SIGCONT to Redis: it keeps its connections and answers nothing."""
        os.kill(self.valkey.pid, number)

    def depth(self, queue: str = "work") -> int:
        """Messages that are ready."""
        return int(self.redis.llen(queue))

    def unacked(self) -> int:
        """Messages that are taken and not settled."""
        return int(self.redis.hlen("unacked"))

    def wait_done(self, count: int, seconds: float = PASSES) -> None:
        """Wait until `count` named tasks have come to their end and nothing is left anywhere."""
        wait_for(lambda: len(self.effects()) >= count, f"{count} tasks end, of {len(self.effects())}", seconds)
        wait_for(lambda: self.depth() + self.unacked() == 0, "nothing is left in the queue or unacked", seconds)

    def effects(self) -> dict[str, int]:
        """How often each named task came to its end."""
        return effects(self.folder / "marks")

    def begun(self) -> list[str]:
        """The names of the tasks that began, in order."""
        return [name for word, name, _, _ in marks(self.folder / "marks") if word == "begin"]

    def wait_begun(self, count: int, seconds: float = PASSES) -> None:
        """Wait until `count` named tasks have begun."""
        wait_for(lambda: len(self.begun()) >= count, f"{count} tasks begin", seconds)

    def control(self, worker: str = "w") -> Any:
        """Remote control of a worker that listens: a worker is ready a moment before it does, and an order is said once."""
        self.ask("ping", worker)
        return self.producer.control

    def ask(self, method: str, worker: str = "w") -> Any:
        """The answer of a worker to `celery inspect METHOD`; asked again when a question is lost, as pub/sub may."""
        node = f"{worker}@{gethostname()}"

        def answered() -> Any:
            with Celery("asker", broker=self.url, set_as_current=False) as asker, contextlib.suppress(redis.RedisError):
                found = getattr(asker.control.inspect(timeout=3.0, destination=[node], limit=1), method)()
                return [found[node]] if found else None

        (answer,) = wait_for(answered, f"{node} answers", 15)
        return answer


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage that is cleared away."""
    made = Stage(tmp_path)
    try:
        yield made
    finally:
        for worker in made.workers:
            worker.kill()
        made.producer.close()
        made.redis.close()
        made.valkey.stop()

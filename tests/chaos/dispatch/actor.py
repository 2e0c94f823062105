"""Actor: a worker in miniature. The product's tasks, relay and stores in one process, without Celery's consumer.

Four threads take messages, a fifth is the relay. A message is held in a list of the actor's own until its task is done, so
that whoever watches may give it back. The reader is made up; all else is the product.
"""

import base64
import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import redis
from sqlalchemy import text

from celery_utils import PerformanceProfile, create_worker_app
from tests.chaos.dispatch import points, seams
from tests.chaos.dispatch.seams import Seams
from worker_app import errors, jobs, queues, retry, runtime, settings, tasks
from worker_app.jobs import Message
from worker_app.records import Commit, Cursor, Page, Reader, Source, Walk
from worker_app.runtime import Runtime
from worker_app.settings import Settings
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics
from worker_app.sync.outbox import Relay
from worker_app.worker import publish

SLOTS = 4
FIRST_QUEUE = "scheduler"
QUEUES = ("sync", "sync.git", "metrics")
IDLE_SECONDS = 0.03
MAX_ATTEMPTS = (
    100  # chance may kill the last batches of a run more than five times; that one is given up then is not shown here
)
BROKEN = "/broken/"  # a source of this name cannot be read
PAGES = 2
PER_PAGE = 3
FIRST_COMMIT = datetime.fromisoformat("2026-06-01T12:00:00+00:00")
TAKE = """
for _, queue in ipairs(ARGV) do
  local message = redis.call('RPOP', queue)
  if message then
    redis.call('LPUSH', KEYS[1], message)
    return message
  end
end
"""


@dataclass(frozen=True, slots=True)
class Orders:
    """What an actor is told at its birth; `point` None: it lives until it is ended."""

    name: str
    folder: str
    database_url: str
    redis_url: str
    point: str | None = None
    passage: int = 1
    is_stopped: bool = False
    visibility_seconds: int = 3600
    tick_batch: int = 20

    @property
    def mark(self) -> Path:
        """Where it says that it ends at its point."""
        return Path(self.folder) / f"{self.name}.mark"

    @property
    def sent(self) -> Path:
        """The message ids that it was about to publish, and when, in seconds since the epoch: one a line."""
        return Path(self.folder) / f"{self.name}.sent"

    @property
    def faults(self) -> Path:
        """What a task raised and what no store knew, one a line."""
        return Path(self.folder) / f"{self.name}.faults"

    @property
    def held(self) -> str:
        """The list in Redis of what it has taken and not done."""
        return f"held:{self.name}"


class MadeUpReader:
    """PAGES pages of PER_PAGE commits for every source."""

    def begin(self, source: Source, cursor: Cursor, now: datetime) -> Walk:
        """The frame of a walk."""
        if source.external_name.startswith(BROKEN):
            raise errors.SourceUnavailable(f"{source.external_name} cannot be read")
        return Walk(started_at=now, until={"refs/heads/main": "f" * 40}, total=PAGES * PER_PAGE)

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        """The pages after `position`."""
        for number in range(int(position or 0), PAGES):
            found = tuple(_commit(source, number * PER_PAGE + index) for index in range(PER_PAGE))
            yield Page(found, None if number + 1 == PAGES else str(number + 1))


def _commit(source: Source, number: int) -> Commit:
    return Commit(
        ext_id=f"{source.id.hex}{number:08x}",
        repo_ext_id=source.ext_id,
        author_ext_id=None,
        author_email_hash=b"a" * 32,
        authored_at=FIRST_COMMIT,
        committed_at=FIRST_COMMIT,
        is_merge=False,
        files=1,
        additions=1,
        deletions=1,
    )


class MiniatureRuntime(Runtime):
    """A runtime whose sources are made up."""

    def reader(self, source: Source, dataset: str, patience: Callable[[], float]) -> Reader:
        """The made-up reader."""
        return MadeUpReader()


class Actor:
    """One process."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        chosen = _settings(orders)
        retry.MAX_ATTEMPTS = MAX_ATTEMPTS
        self.postgres = Postgres(orders.database_url, pool_size=2 * SLOTS + 2, application_name=orders.name)
        self.redis = runtime.redis_client(orders.redis_url, connections=SLOTS + 2)
        self.seams = Seams(orders.mark, orders.point, orders.passage, is_stopped=orders.is_stopped)
        seams.install(self.seams)
        app = create_worker_app(
            "miniature", PerformanceProfile(), broker_url=orders.redis_url, queues=queues.ALL_QUEUES
        )
        send = self._counted(publish.publisher(app, self.redis))
        publishing = seams.publishing(self.seams, self.postgres, self.redis, send)
        relay = Relay(self.postgres, publishing, list, points.RELAY_SECONDS)
        connections = runtime.connections(chosen, self.postgres)
        self.runtime = MiniatureRuntime(
            chosen, self.postgres, self.redis, self.redis, PostgresMetrics(), orders.name, connections, relay
        )
        runtime.install(self.runtime)
        self._take = self.redis.register_script(TAKE)
        self._pause = threading.Event()

    def run(self) -> None:
        """Work until the end, which comes from outside or from a seam."""
        assert self.runtime.relay is not None
        self.runtime.relay.start()
        self.runtime.relay.wake()
        threads = [threading.Thread(target=self._consume, daemon=True) for _ in range(SLOTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _counted(self, send: Callable[[Sequence[Message]], None]) -> Callable[[Sequence[Message]], None]:
        def counted(messages: Sequence[Message]) -> None:
            now = time.time()
            lines = "".join(f"{jobs.message_id(message.dedupe)} {now}\n" for message in messages)
            _append(self.orders.sent, lines)  # before: a message that was perhaps not sent counts as sent
            send(messages)

        return counted

    def _consume(self) -> None:
        while True:
            try:
                order = [FIRST_QUEUE, *random.sample(QUEUES, len(QUEUES))]  # a long queue keeps none waiting
                found = self._take(keys=[self.orders.held], args=order)
            except redis.RedisError:
                found = None
            if found is None:
                self._pause.wait(IDLE_SECONDS)
            else:
                self._work(found)

    def _work(self, raw: bytes) -> None:
        envelope = json.loads(raw)
        name = envelope["headers"]["task"].rpartition(".")[2]
        given = json.loads(base64.b64decode(envelope["body"]))[1]
        while True:
            try:
                self._look(given)
                _task(name)(**given)
                self.redis.lrem(self.orders.held, 1, raw)  # type: ignore[arg-type]
            except (errors.StoreAway, redis.RedisError) as error:
                self._fault(f"away {name} {error}")
                self._pause.wait(0.2)
            except Exception as error:  # noqa: BLE001 - Celery would acknowledge it, too; the test judges what it was
                self._fault(f"raised {name} {type(error).__name__} {error!r}")
                traceback.print_exc()
                self.redis.lrem(self.orders.held, 1, raw)  # type: ignore[arg-type]
                return
            else:
                return

    def _look(self, given: Mapping[str, str]) -> None:
        """Whether the store knows what the message speaks of: a message is never ahead of its commit."""
        with self.postgres.transaction() as tx:
            for table, key in (("sync_runs", "run_id"), ("sync_batches", "batch_id")):
                if (
                    key in given
                    and not tx.execute(
                        text(f"SELECT 1 FROM {table} WHERE id = :id"), {"id": UUID(given[key])}
                    ).scalar_one_or_none()
                ):
                    self._fault(f"orphan {table} {given[key]}")

    def _fault(self, line: str) -> None:
        _append(self.orders.faults, line.replace("\n", " ") + "\n")


def _task(name: str) -> Callable[..., Any]:
    task: Callable[..., Any] = getattr(tasks, "rescue_lost" if name == "rescue" else name)
    return task


def _append(path: Path, lines: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, lines.encode())
    finally:
        os.close(descriptor)


def _settings(orders: Orders) -> Settings:
    chosen = settings.load(
        {
            "DATABASE_URL": orders.database_url,
            "REDIS_URL": orders.redis_url,
            "DEV_HOPS_DIR": orders.folder,
            "BATCH_LEASE_SECONDS": str(points.LEASE_SECONDS),
        }
    )
    return chosen.model_copy(update={"visibility_timeout_seconds": orders.visibility_seconds})


def main(orders: Orders) -> None:
    """The whole life of a process that was forked for it."""
    log = os.open(Path(orders.folder) / f"{orders.name}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        Actor(orders).run()
    except BaseException:  # noqa: BLE001 - a forked process ends here, whatever it was
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)

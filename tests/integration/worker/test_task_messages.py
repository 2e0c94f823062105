"""What a task makes of a message that comes again, for nothing, from an old beat, or to a host whose clock is wrong."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
import structlog

from celery_utils import PerformanceProfile, create_worker_app
from tests.integration.worker.broker import (
    Broker,
    broker_of_the_test,  # noqa: F401 - pytest finds it
    is_redelivered,
    lists_of,
)
from tests.seed import column, commit, execute, manual_run, schedule, seed
from tests.virtual_clock import VirtualClock
from worker_app import queues, runtime, settings, tasks, telemetry
from worker_app.jobs import WaitingBatch
from worker_app.records import Cursor, Page, Reader, Source, Walk
from worker_app.runtime import Runtime
from worker_app.store.fence import Fence
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics
from worker_app.sync.outbox import Relay
from worker_app.worker import publish

pytestmark = pytest.mark.integration
PATIENCE = 10
VISIBILITY_SECONDS = 5
ENDED = "SELECT state || finished_at FROM sync_runs WHERE kind = 'sync'"


@dataclass
class Slow:
    """A reader of one page, which stands still before it until it is let go."""

    begun: list[datetime] = field(default_factory=list)
    stands: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def begin(self, source: Source, cursor: Cursor, now: datetime) -> Walk:
        self.begun.append(now)
        return Walk(started_at=now)

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        self.stands.set()
        assert self.goes_on.wait(PATIENCE)
        yield Page((commit("a" * 40),), next=None)


class WithReader(Runtime):
    """The runtime of a worker whose sources are read by one reader, and which no gate blocks."""

    one: Slow

    def reader(self, source: Source, dataset: str, patience: Callable[[], float]) -> Reader:
        return self.one

    def blocked_by(self, batch: WaitingBatch) -> None:
        return None


@pytest.fixture
def worker(
    postgres: Postgres, database_url: str, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WithReader]:
    """What the tasks of this process work with."""
    chosen = settings.load({"DATABASE_URL": database_url, "REDIS_URL": redis_url, "DEV_HOPS_DIR": "/nonexistent"})
    connections = runtime.connections(chosen, postgres)
    made = WithReader(chosen, postgres, redis_client, redis_client, PostgresMetrics(), "worker@test", connections)
    made.one = Slow()
    monkeypatch.setattr(runtime, "_current", made)
    with structlog.contextvars.bound_contextvars():
        yield made
    connections.close()


def counted(counter: Any, *labels: str) -> float:
    return float((counter.labels(*labels) if labels else counter)._value.get())


def only(postgres: Postgres, query: str) -> UUID:
    (found,) = column(postgres, query)
    assert isinstance(found, UUID)
    return found


def published(worker: WithReader) -> None:
    """The relay has taken everything to Redis, as a worker's does."""
    url = worker.settings.broker_url
    app = create_worker_app("t", PerformanceProfile(), broker_url=url, queues=queues.ALL_QUEUES)
    Relay(worker.postgres, publish.publisher(app, worker.broker), list, 60).drain()
    app.close()


def given(text: bytes | str) -> dict[str, str]:
    """The arguments that a message carries."""
    arguments: dict[str, str] = json.loads(base64.b64decode(json.loads(text)["body"]))[1]
    return arguments


def test_batch_that_is_delivered_again_while_it_is_read_is_acknowledged_and_does_nothing(
    worker: WithReader, postgres: Postgres, broker: Broker
) -> None:
    run_id = manual_run(postgres, seed(postgres))
    tasks.dispatch_sync_run(run_id=str(run_id))
    published(worker)
    first, second = broker.deliveries(), broker.deliveries()
    ((tag, delivery),) = first.exchange(["sync.git"], 1, life_seconds=PATIENCE)
    assert (json.loads(delivery.text)["headers"]["eta"], json.loads(delivery.text)["headers"]["expires"]) == (
        None,
        None,
    )
    reading = threading.Thread(target=lambda: tasks.run_sync_batch(**given(delivery.text)))
    reading.start()
    try:
        assert worker.one.stands.wait(PATIENCE)
        broker.age(tag)  # longer than the visibility timeout: its worker stands still and renews nothing
        assert second.sweep(VISIBILITY_SECONDS, lists_of) == 1
        ((again, copy),) = second.exchange(["sync.git"], 1, life_seconds=PATIENCE)
        assert (again, is_redelivered(copy.text.decode()), given(copy.text)) == (tag, True, given(delivery.text))
        before = counted(telemetry.DUPLICATE_MESSAGES, "run_sync_batch")
        tasks.run_sync_batch(**given(copy.text))  # raises nothing, so it is acknowledged
        second.settle(again)
        second.pay()
        assert counted(telemetry.DUPLICATE_MESSAGES, "run_sync_batch") == before + 1
        assert (broker.ready("sync.git"), broker.unacked()) == ([], set())
        assert column(postgres, "SELECT state || attempt || pages FROM sync_batches") == ["running00"]
    finally:
        worker.one.goes_on.set()
        reading.join(PATIENCE)
    assert len(worker.one.begun) == 1
    assert column(postgres, "SELECT state || attempt || pages || records FROM sync_batches") == ["succeeded011"]


def test_second_message_to_finish_a_run_changes_nothing(worker: WithReader, postgres: Postgres) -> None:
    run_id = str(manual_run(postgres, seed(postgres)))
    execute(postgres, "UPDATE sources SET state = 'gone'")  # a run without a batch
    tasks.dispatch_sync_run(run_id=run_id)
    tasks.finish_sync_run(run_id=run_id)
    ended, before = column(postgres, ENDED), counted(telemetry.DUPLICATE_MESSAGES, "finish_sync_run")
    for _ in range(2):
        tasks.finish_sync_run(run_id=run_id)
    assert counted(telemetry.DUPLICATE_MESSAGES, "finish_sync_run") == before + 2
    assert column(postgres, ENDED) == ended
    assert column(postgres, "SELECT count(*) FROM sync_runs WHERE kind = 'metrics'") == [1]
    assert column(postgres, "SELECT count(*) FROM task_outbox WHERE task = 'compute_daily_metrics'") == [1]


def test_message_of_a_run_that_postgres_forgot_is_an_orphan_and_the_next_tick_mints_the_same_run(
    worker: WithReader, postgres: Postgres
) -> None:
    schedule(postgres, seed(postgres))
    slot = column(postgres, "SELECT next_run_at FROM scheduled_jobs")
    tasks.dispatch_scheduled_syncs()
    run_id = only(postgres, "SELECT id FROM sync_runs")
    for table in ("task_outbox", "sync_runs", "schedule_occurrences"):  # a failover lost the commit, not the message
        execute(postgres, f"DELETE FROM {table}")
    execute(postgres, "UPDATE scheduled_jobs SET next_run_at = :slot", slot=slot[0])
    before = counted(telemetry.ORPHAN_MESSAGES, "dispatch_sync_run")
    tasks.dispatch_sync_run(run_id=str(run_id))  # raises nothing, so it is acknowledged
    assert counted(telemetry.ORPHAN_MESSAGES, "dispatch_sync_run") == before + 1
    tasks.dispatch_scheduled_syncs()
    assert only(postgres, "SELECT id FROM sync_runs") == run_id
    for _ in range(2):  # the message from before and that of after
        tasks.dispatch_sync_run(run_id=str(run_id))
    assert column(postgres, "SELECT state || batches_total FROM sync_runs") == ["running1"]
    assert counted(telemetry.ORPHAN_MESSAGES, "dispatch_sync_run") == before + 1


def test_tick_of_a_beat_that_was_overtaken_is_counted_and_serves_nothing(
    worker: WithReader, postgres: Postgres
) -> None:
    schedule(postgres, seed(postgres))
    for _ in range(2):
        beat = Fence(worker.locks, "beat")
        assert beat.hold()
        beat.release()
    before = counted(telemetry.BEAT_STALE_TICKS)
    tasks.dispatch_scheduled_syncs(epoch=1)
    assert counted(telemetry.BEAT_STALE_TICKS) == before + 1
    assert column(postgres, "SELECT count(*) FROM sync_runs") == [0]
    tasks.dispatch_scheduled_syncs(epoch=2)
    assert column(postgres, "SELECT count(*) FROM sync_runs") == [1]


def test_tick_that_cannot_ask_which_beat_is_the_newest_is_served(worker: WithReader, postgres: Postgres) -> None:
    schedule(postgres, seed(postgres))
    worker.locks = redis.Redis(port=1)
    tasks.dispatch_scheduled_syncs(epoch=1)
    assert column(postgres, "SELECT outcome FROM schedule_occurrences") == ["minted"]


@pytest.mark.parametrize("ahead", [timedelta(minutes=-10), timedelta(0), timedelta(minutes=10)])
def test_worker_whose_clock_is_wrong_does_the_same_and_says_by_how_much(
    worker: WithReader, postgres: Postgres, ahead: timedelta
) -> None:
    VirtualClock(postgres).move(-ahead)
    schedule(postgres, seed(postgres))
    (newest,) = column(postgres, "SELECT next_run_at + interval '5 minutes' FROM scheduled_jobs")
    tasks.dispatch_scheduled_syncs()
    assert counted(telemetry.CLOCK_SKEW) == pytest.approx(ahead.total_seconds(), abs=5)
    assert column(postgres, "SELECT scheduled_for FROM schedule_occurrences") == [newest]
    stamps = "SELECT next_run_at - :newest FROM scheduled_jobs"
    assert column(postgres, stamps, newest=newest) == [timedelta(minutes=5)]
    assert column(postgres, "SELECT available_at <= now() FROM task_outbox") == [True]
    run_id = str(only(postgres, "SELECT id FROM sync_runs"))
    tasks.dispatch_sync_run(run_id=run_id)
    worker.one.goes_on.set()
    for _ in range(2):
        tasks.run_sync_batch(batch_id=str(only(postgres, "SELECT id FROM sync_batches")))
    tasks.finish_sync_run(run_id=run_id)
    assert column(postgres, "SELECT state || attempt FROM sync_runs WHERE kind = 'sync'") == ["succeeded0"]
    assert len(worker.one.begun) == 1

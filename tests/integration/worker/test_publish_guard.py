"""The publish guard at every way by which Celery sends a message, and at the relay's own."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery, Task, chain, chord, group, signals
from celery.beat import ScheduleEntry, Scheduler
from celery.exceptions import Reject, Retry
from celery.schedules import schedule
from structlog.testing import capture_logs

from celery_utils import PerformanceProfile, create_worker_app
from tests.seed import column, execute, manual_run, seed
from worker_app import errors, queues, tasks
from worker_app.jobs import Message
from worker_app.store.postgres import Postgres
from worker_app.sync.outbox import Relay
from worker_app.worker import publish
from worker_app.worker.guarded_app import GuardedApp

# Now and then a connection of Celery closes only when a ring of objects is collected: no matter of the guard.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SYNC, RESCUE = tasks.dispatch_sync_run.name, tasks.rescue_lost.name
FOREIGN = "shop.tasks.pay"
RUN = {"run_id": str(uuid4())}
TOKEN = "glpat-" + "c4n4ry" * 4


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    made = create_worker_app(
        "t",
        PerformanceProfile(),
        broker_url=redis_url,
        queues=queues.ALL_QUEUES,
        app_class=GuardedApp,
        settings={"task_routes": {SYNC: {"queue": "sync"}}},
    )

    @made.task(name=FOREIGN, bind=True, shared=False)  # type: ignore[untyped-decorator]
    def pay(self: Any, *given: object, **named: object) -> None: ...

    yield made
    _close(made)


def _close(app: Celery) -> None:
    app.backend.result_consumer.stop()
    app.backend.client.connection_pool.disconnect()
    app.close()
    gc.collect()  # a refusal leaves its frames in a ring, and with them connections: not into the next test


def sent(client: redis.Redis) -> int:
    return sum(int(client.llen(queue)) for queue in queues.ALL_QUEUES)


@dataclass(frozen=True)
class At:
    """An app, a task of ours in it, and a foreign one."""

    app: Celery

    @property
    def ours(self) -> Task:
        return self.app.tasks[SYNC]

    @property
    def foreign(self) -> Task:
        return self.app.tasks[FOREIGN]


UNSAFE: dict[str, Callable[[At], object]] = {
    "delay": lambda at: at.ours.delay(run_id=TOKEN),
    "apply_async": lambda at: at.ours.apply_async(kwargs={"run_id": TOKEN}),
    "positions": lambda at: at.app.send_task(SYNC, args=(str(uuid4()),)),
    "headers": lambda at: at.ours.apply_async(kwargs=RUN, headers={"given": TOKEN}),
    "shadow": lambda at: at.ours.apply_async(kwargs=RUN, shadow=TOKEN),
    "task id": lambda at: at.ours.apply_async(kwargs=RUN, task_id=TOKEN),
    "foreign": lambda at: at.foreign.delay(TOKEN),
    "signature": lambda at: at.ours.si(run_id=1).apply_async(),
    "link": lambda at: at.foreign.apply_async(link=at.ours.si(run_id=1)),
    "link_error": lambda at: at.foreign.apply_async(link_error=at.foreign.s(TOKEN)),
    "chain": lambda at: chain(at.foreign.si(1), at.foreign.si(2), at.ours.si(run_id=1)).apply_async(),
    "first of a chain": lambda at: chain(at.ours.si(run_id=1), at.foreign.si(2)).apply_async(),
    "group": lambda at: group([at.foreign.si(TOKEN)]).apply_async(),
    "chord body": lambda at: chord([at.foreign.si(1), at.foreign.si(2)], at.ours.si(run_id=1)).apply_async(),
    "send_task": lambda at: at.app.send_task(SYNC, kwargs={"token": TOKEN}),
    "undeclared": lambda at: at.app.send_task(SYNC, kwargs={"token": 1}),
    "unknown here": lambda at: at.app.send_task("elsewhere.task", args=(TOKEN,), queue="celery"),
    "of celery": lambda at: at.app.send_task("celery.backend_cleanup", args=(TOKEN,)),
}


@pytest.mark.parametrize("way", UNSAFE)
def test_unsafe_message_is_refused_before_it_is_sent(app: Celery, redis_client: redis.Redis, way: str) -> None:
    with pytest.raises(errors.UnsafeMessage) as caught:
        UNSAFE[way](At(app))
    assert TOKEN not in str(caught.value)
    assert sent(redis_client) == 0


def test_sound_messages_are_sent_by_every_way(app: Celery, redis_client: redis.Redis) -> None:
    ours, foreign, run_id = app.tasks[SYNC], app.tasks[FOREIGN], str(uuid4())
    ours.delay(run_id=run_id)
    ours.apply_async(kwargs={"run_id": run_id}, countdown=1, headers={"enqueued_at": 1.0})
    chain(foreign.si(1), ours.si(run_id=run_id)).apply_async()
    group([foreign.s(1), ours.si(run_id=run_id)]).apply_async()
    app.send_task(RESCUE, kwargs={"epoch": 3}, queue="scheduler")
    chord([foreign.si(1), foreign.si(2)], ours.si(run_id=run_id)).apply_async()
    assert sent(redis_client) == 8


def test_retry_passes_the_guard(app: Celery, redis_client: redis.Redis) -> None:
    foreign = app.tasks[FOREIGN]
    foreign.push_request(id="1", args=(1,), kwargs={}, called_directly=False, delivery_info={"routing_key": "default"})
    with pytest.raises(Retry):
        foreign.retry(countdown=0)
    with pytest.raises(Reject, match="is not sent") as caught:  # what Celery makes of a retry that is not published
        foreign.retry(args=(TOKEN,), countdown=0)
    assert TOKEN not in str(caught.value)
    foreign.pop_request()
    assert sent(redis_client) == 1


def test_beat_passes_the_guard(app: Celery, redis_client: redis.Redis) -> None:
    beat = Scheduler(app, lazy=True)
    every = schedule(60, app=app)
    for kwargs in ({"epoch": 1}, {"epoch": TOKEN}):
        entry = ScheduleEntry("rescue", RESCUE, schedule=every, kwargs=kwargs, options={"queue": "scheduler"}, app=app)
        if kwargs == {"epoch": 1}:
            beat.apply_async(entry)
        else:
            with pytest.raises(Exception, match="is not sent") as caught:
                beat.apply_async(entry)
            assert TOKEN not in str(caught.value)
    assert sent(redis_client) == 1


def test_stock_celery_publishes_what_a_handler_refuses() -> None:
    app = Celery("t", broker="memory://")

    def refuse(**_: object) -> None:
        raise errors.UnsafeMessage("no", task="a", key="b")

    signals.before_task_publish.connect(refuse)
    try:
        app.send_task("elsewhere.task", args=(1,), queue="celery")
    finally:
        signals.before_task_publish.disconnect(refuse)
    with app.connection_for_read() as connection:
        assert connection.default_channel.basic_get("celery", no_ack=True) is not None
    app.close()


def test_unsafe_row_of_the_outbox_is_told_and_forgotten_and_the_others_are_sent(
    app: Celery, postgres: Postgres, redis_client: redis.Redis
) -> None:
    made, *others = (seed(postgres, name) for name in ("acme", "beta", "gamma"))
    for one in (made, *others):
        manual_run(postgres, one)
    (bad, *_) = column(postgres, "SELECT dedupe FROM task_outbox WHERE org_id = :org", org=made.org.id)
    execute(
        postgres,
        "UPDATE task_outbox SET kwargs = jsonb_build_object('run_id', CAST(:token AS text)) WHERE dedupe = :dedupe",
        token=TOKEN,
        dedupe=bad,
    )
    relay = Relay(postgres, publish.publisher(app, redis_client), list, 60)
    with capture_logs() as events:
        relay.drain()
    assert relay.drain() == 0
    assert redis_client.llen("sync") == 2
    assert column(postgres, "SELECT count(*) FROM task_outbox") == [0]
    told = [repr(event) for event in events if event["event"] == "outbox.message_refused"]
    assert len(told) == 1
    assert str(bad) in told[0]
    assert str(made.org.id) in told[0]
    assert TOKEN not in told[0]


def test_batch_of_unsafe_rows_alone_asks_the_broker_nothing(app: Celery) -> None:
    away = redis.Redis(port=1)
    publish.publisher(app, away)([Message(1, "run/x/dispatch/1", "dispatch_sync_run", "sync", {"token": TOKEN})])

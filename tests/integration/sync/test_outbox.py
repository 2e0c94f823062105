import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
import redis

from celery_utils import PerformanceProfile, create_worker_app
from tests.processes import wait_for
from tests.seed import column, execute, manual_run, schedule, seed
from worker_app import jobs, queue_depth, queues
from worker_app.jobs import Message
from worker_app.store import outbox
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch
from worker_app.sync import outbox as relays
from worker_app.sync.outbox import PublishError, Relay
from worker_app.worker import publish

pytestmark = pytest.mark.integration

RUN_ID = "6f2c0c5e-6c0b-5d0e-9f0d-3a4a1f7b9c11"


class Broker:
    """Keeps what it is given; refuses batches that begin after `refuse_after` messages."""

    def __init__(self, refuse_after: int = 1_000_000) -> None:
        self.taken: list[Message] = []
        self.sizes: list[int] = []  # of the batches that it was given
        self.refuse_after = refuse_after

    def __call__(self, messages: Sequence[Message]) -> None:
        if len(self.taken) >= self.refuse_after:
            raise PublishError("away")
        self.taken += messages
        self.sizes.append(len(messages))


def owing(postgres: Postgres, count: int) -> None:
    made = seed(postgres)
    for _ in range(count):
        schedule(postgres, made)
    assert dispatch.tick(postgres, "test").minted == count


def relay_of(postgres: Postgres, broker: Broker, held: list[str] | None = None, pause: float = 60.0) -> Relay:
    return Relay(postgres, broker, lambda: held or [], pause)


@contextmanager
def started(relay: Relay) -> Iterator[Relay]:
    relay.start()
    try:
        yield relay
    finally:
        relay.stop()


def test_everything_owed_is_published_once_and_forgotten(postgres: Postgres) -> None:
    owing(postgres, 60)
    broker = Broker()
    assert relay_of(postgres, broker).drain() == 60
    assert len({message.dedupe for message in broker.taken}) == 60
    assert broker.sizes == [25, 25, 10]  # what a kill doubles at most
    assert column(postgres, "SELECT count(*) FROM task_outbox") == [0]


def test_broker_that_goes_away_in_the_middle_loses_nothing_and_doubles_nothing(postgres: Postgres) -> None:
    owing(postgres, 60)
    broker = Broker(refuse_after=50)
    relay = relay_of(postgres, broker)
    with pytest.raises(PublishError):
        relay.drain()
    assert column(postgres, "SELECT count(*) FROM task_outbox WHERE claimed_until IS NULL") == [10]
    broker.refuse_after = 1_000
    assert relay.drain() == 10
    assert len({message.dedupe for message in broker.taken}) == len(broker.taken) == 60


def test_messages_that_another_relay_holds_are_left_alone_until_its_claim_ends(postgres: Postgres) -> None:
    owing(postgres, 1)
    execute(
        postgres,
        "UPDATE task_outbox SET claimed_until = now() + interval '30 seconds', claim_token = gen_random_uuid()",
    )
    assert relay_of(postgres, Broker()).drain() == 0
    execute(postgres, "UPDATE task_outbox SET claimed_until = now() - interval '1 second'")
    assert relay_of(postgres, Broker()).drain() == 1


def test_relay_that_was_too_slow_leaves_a_row_to_who_has_claimed_it_since(postgres: Postgres) -> None:
    owing(postgres, 1)
    slow, quick = uuid4(), uuid4()
    with postgres.transaction() as tx:
        (message,) = outbox.exchange(tx, slow, [])
    execute(postgres, "UPDATE task_outbox SET claimed_until = now() - interval '1 second'")
    with postgres.transaction() as tx:
        assert [item.id for item in outbox.exchange(tx, quick, [])] == [message.id]
    with postgres.transaction() as tx:
        outbox.delete(tx, slow, [message.id])
        outbox.release(tx, slow, [message.id])
        assert outbox.exchange(tx, slow, [message.id]) == []
    assert column(postgres, "SELECT claim_token FROM task_outbox WHERE claimed_until > now()") == [quick]
    with postgres.transaction() as tx:
        outbox.exchange(tx, quick, [message.id])
    assert column(postgres, "SELECT count(*) FROM task_outbox") == [0]


def test_message_waits_for_its_time_and_for_room_in_its_queue(postgres: Postgres) -> None:
    owing(postgres, 1)
    execute(postgres, "UPDATE task_outbox SET available_at = now() + interval '1 hour'")
    assert relay_of(postgres, Broker()).drain() == 0
    execute(postgres, "UPDATE task_outbox SET available_at = now()")
    assert relay_of(postgres, Broker(), held=["sync"]).drain() == 0
    assert relay_of(postgres, Broker()).drain() == 1


def test_woken_relay_publishes_at_once(postgres: Postgres) -> None:
    broker = Broker()
    with started(relay_of(postgres, broker)) as relay:
        owing(postgres, 3)
        relay.wake()
        wait_for(lambda: len(broker.taken) == 3, "the relay was woken", 5)


def test_relay_goes_on_after_a_broker_that_was_away(postgres: Postgres) -> None:
    broker = Broker(refuse_after=0)
    owing(postgres, 3)
    with started(relay_of(postgres, broker, pause=0.1)):
        wait_for(lambda: column(postgres, "SELECT max(attempts) FROM task_outbox")[0], "the relay tried", 5)
        broker.refuse_after = 10
        wait_for(lambda: len(broker.taken) == 3, "the relay went on", 5)


def test_relay_that_has_failed_for_long_looks_again_within_its_pause(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "FIRST_BACKOFF_SECONDS", 600.0)  # what a back-off has grown to after an outage
    broker = Broker(refuse_after=0)
    owing(postgres, 3)
    with started(relay_of(postgres, broker, pause=0.1)):
        wait_for(lambda: column(postgres, "SELECT max(attempts) FROM task_outbox")[0], "the relay tried", 5)
        broker.refuse_after = 10
        wait_for(lambda: len(broker.taken) == 3, "the relay went on", 5)


def test_published_message_lies_in_its_queue_with_its_age_and_a_name_of_its_own(
    postgres: Postgres, redis_client: redis.Redis, redis_url: str
) -> None:
    manual_run(postgres, seed(postgres))
    app = create_worker_app("t", PerformanceProfile(), broker_url=redis_url, queues=queues.ALL_QUEUES)
    send = publish.publisher(app, redis_client)
    assert Relay(postgres, send, list, 60).drain() == 1
    found = {item.queue: item for item in queue_depth.depths(redis_client)}
    assert redis_client.llen("sync") == found["sync"].ready == 1
    age = found["sync"].oldest_age_seconds
    assert age is not None
    assert 0 <= age < 10
    assert found["sync.git"].ready == 0
    (run_id,) = column(postgres, "SELECT id FROM sync_runs")
    (raw,) = redis_client.lrange("sync", 0, -1)
    assert str(jobs.message_id(f"run/{run_id}/dispatch/1")).encode() in raw
    app.close()


def test_broker_that_does_not_answer_is_said_without_its_password() -> None:
    app = create_worker_app(
        "t", PerformanceProfile(), broker_url="redis://:canary@127.0.0.1:1/0", queues=queues.ALL_QUEUES
    )
    send = publish.publisher(app, redis.Redis(port=1))
    with pytest.raises(PublishError) as caught:
        send([Message(1, "run/x/dispatch/1", "dispatch_sync_run", "sync", {})])
    assert "canary" not in str(caught.value)
    app.close()


def test_full_queue_is_held(redis_client: redis.Redis) -> None:
    redis_client.rpush("sync.git", *range(5))
    assert publish.held_queues(redis_client, queues.ALL_QUEUES, 5)() == ["sync.git"]
    assert publish.held_queues(redis_client, queues.ALL_QUEUES, 6)() == []


def test_message_of_the_relay_is_the_one_that_celery_would_send(redis_client: redis.Redis, redis_url: str) -> None:
    app = create_worker_app("t", PerformanceProfile(), broker_url=redis_url, queues=queues.ALL_QUEUES)
    owed = Message(1, "run/x/dispatch/1", "dispatch_sync_run", "sync", {"run_id": RUN_ID})
    publish.publisher(app, redis_client)([owed])
    (ours,) = redis_client.lrange("sync", 0, -1)
    redis_client.delete("sync")
    app.send_task(
        "worker_app.tasks.dispatch_sync_run",
        kwargs={"run_id": RUN_ID},
        queue="sync",
        task_id=str(jobs.message_id(owed.dedupe)),
        ignore_result=True,
        headers={"enqueued_at": 0.0},
    )
    (theirs,) = redis_client.lrange("sync", 0, -1)
    assert _comparable(ours) == _comparable(theirs)
    app.close()


def _comparable(raw: bytes | str) -> dict[str, Any]:
    """A message without what is new in each one: delivery tag, age, correlation, the address for a result that it ignores."""
    message: dict[str, Any] = json.loads(raw)
    new = ("delivery_tag", "reply_to", "correlation_id")
    message["properties"] = {name: value for name, value in message["properties"].items() if name not in new}
    message["headers"] |= {"enqueued_at": 0, "correlation_id": ""}
    return message

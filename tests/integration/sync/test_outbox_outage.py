"""The outbox while Redis is away: minting goes on, and what it owes goes out once Redis is back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from celery_utils import PerformanceProfile, create_worker_app
from tests.processes import wait_for
from tests.seed import column, due_jobs, seed
from worker_app import queues, telemetry
from worker_app.embedded.valkey import EmbeddedValkey
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch
from worker_app.sync.outbox import Relay
from worker_app.worker import publish

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

OWED = 3000
DRAINED_SECONDS = 60


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    """A server of the test's own, which may be stopped."""
    made = EmbeddedValkey(tmp_path, password=None)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def relay(postgres: Postgres, valkey: EmbeddedValkey) -> Iterator[Relay]:
    """A relay as a worker starts it, at that server."""
    app = create_worker_app("t", PerformanceProfile(), broker_url=valkey.url, queues=queues.ALL_QUEUES)
    client = redis.Redis.from_url(valkey.url, socket_timeout=1)  # a worker's has five seconds, and two tries more
    made = Relay(postgres, publish.publisher(app, client), publish.held_queues(client, queues.ALL_QUEUES, 100_000), 12)
    made.start()
    yield made
    made.stop()
    client.close()
    app.close()


def mint(postgres: Postgres, count: int) -> None:
    due_jobs(postgres, seed(postgres), count)
    assert dispatch.tick(postgres, "test").minted == count


def arrived(valkey: EmbeddedValkey) -> int:
    client = redis.Redis.from_url(valkey.url)
    try:
        return int(client.llen("sync"))
    finally:
        client.close()


def failures() -> float:
    return float(telemetry.OUTBOX_PUBLISH_FAILURES._value.get())


def owed(postgres: Postgres) -> object:
    return column(postgres, "SELECT count(*) FROM task_outbox")[0]


def test_minting_goes_on_while_redis_is_away_and_all_goes_out_within_a_minute_of_its_return(
    postgres: Postgres, valkey: EmbeddedValkey, relay: Relay
) -> None:
    before = failures()
    valkey.stop()
    mint(postgres, OWED)
    relay.wake()
    wait_for(lambda: failures() > before, "the relay has tried", 60)
    assert owed(postgres) == OWED
    valkey.start()
    wait_for(lambda: owed(postgres) == 0, "all is published", DRAINED_SECONDS)
    assert arrived(valkey) == OWED


def test_redis_that_answers_nothing_for_a_while_gets_each_message_once_or_twice(
    postgres: Postgres, valkey: EmbeddedValkey, relay: Relay
) -> None:
    before = failures()
    os.kill(valkey.pid, signal.SIGSTOP)
    try:
        mint(postgres, OWED)
        relay.wake()
        wait_for(lambda: failures() > before, "the relay has tried", 60)
    finally:
        os.kill(valkey.pid, signal.SIGCONT)
    wait_for(lambda: owed(postgres) == 0, "all is published", DRAINED_SECONDS)
    assert OWED <= arrived(valkey) <= OWED + 25

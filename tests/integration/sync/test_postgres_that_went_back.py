"""Postgres forgets a commit whose message is out already: the slot is minted again, and both messages are of one run."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID, uuid4

import pytest

from tests.integration.migrate.databases import copies
from tests.seed import column, schedule, seed
from worker_app import jobs
from worker_app.jobs import BatchEnd, BatchState, Message, RunState
from worker_app.store import batches
from worker_app.store.postgres import Postgres
from worker_app.sync import control, dispatch, finish, plan
from worker_app.sync.outbox import Relay

pytestmark = pytest.mark.integration
ENDLESS = (
    "SELECT count(*) FROM scheduled_jobs j JOIN sync_runs r ON r.job_id = j.id "
    "WHERE NOT (isfinite(j.next_run_at) AND isfinite(r.scheduled_for) AND isfinite(r.deadline_at))"
)


@pytest.fixture
def earlier(postgres: Postgres, database_url: str) -> Iterator[Postgres]:
    """The database as it was before its first tick, which finds one job due."""
    schedule(postgres, seed(postgres), cron="0 0 * * *", next_run_at=midnight(postgres))
    postgres.engine.dispose()
    with copies(database_url, 1) as (url,):
        opened = Postgres(url, pool_size=5)
        yield opened
        opened.close()


def midnight(postgres: Postgres) -> datetime:
    return postgres.now().replace(hour=0, minute=0, second=0, microsecond=0)


def published(postgres: Postgres) -> list[Message]:
    """What a tick and a relay send."""
    assert dispatch.tick(postgres, "test").minted == 1
    sent: list[Message] = []

    def publish(messages: Sequence[Message]) -> None:
        sent.extend(messages)

    assert Relay(postgres, publish, list, 60).drain() == 1
    return sent


def planned(postgres: Postgres, message: Message) -> object:
    """What the consumer of a message does with it; None: nothing."""
    return plan.run(postgres, UUID(message.kwargs["run_id"]), lease_seconds=60, cap=8, max_batches=10)


def end(postgres: Postgres, run_id: UUID) -> RunState | None:
    """Its only batch and then the run are done."""
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches")
    assert isinstance(batch_id, UUID)
    with postgres.transaction() as tx:
        taken = batches.claim(tx, batch_id, uuid4(), lease_seconds=60, cap=8)
        assert taken is not None
        assert batches.close(tx, batch_id, taken.owner, BatchEnd(BatchState.SUCCEEDED, is_complete=True))
    return finish.run(postgres, run_id, lease_seconds=60)


def test_message_of_a_forgotten_commit_is_an_orphan_and_then_that_of_the_same_run(
    postgres: Postgres, earlier: Postgres
) -> None:
    (old,) = published(postgres)
    assert planned(earlier, old) is None
    assert not control.is_known(earlier, UUID(old.kwargs["run_id"]))
    (new,) = published(earlier)
    assert (new.kwargs, jobs.message_id(new.dedupe)) == (old.kwargs, jobs.message_id(old.dedupe))
    assert [planned(earlier, message) is None for message in (old, new, old)] == [False, True, True]
    run_id = UUID(old.kwargs["run_id"])
    assert end(earlier, run_id) == RunState.SUCCEEDED
    assert finish.run(earlier, run_id, lease_seconds=60) is None
    assert column(earlier, "SELECT id FROM sync_runs WHERE kind = 'sync'") == [run_id]
    assert column(earlier, ENDLESS) == [0]
    assert column(earlier, "SELECT count(*) FROM sync_batches WHERE finished_at IS NULL") == [0]
    assert dispatch.tick(earlier, "test") == dispatch.Tick()

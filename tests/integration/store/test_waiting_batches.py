"""What a gate holds back, as Postgres sees it: batches that go on sooner, and messages that lie in a queue in vain."""

from uuid import UUID

import pytest
from sqlalchemy import text

from tests.seed import column, execute
from tests.waiting import deferred, github, queued
from worker_app.store import batches
from worker_app.store.batches import Unclaimed
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
WAITS = "SELECT extract(epoch FROM not_before - now())::float8 FROM sync_batches ORDER BY id"


def wake(postgres: Postgres, org_id: UUID, provider: str, host: str, spread: float = 30.0) -> int:
    with postgres.transaction() as tx:
        return batches.wake_deferred(tx, org_id, provider, host, spread)


def test_deferred_batches_and_their_messages_go_on_within_the_spread(postgres: Postgres) -> None:
    made = github(postgres)
    deferred(postgres, made, "commits", "work_items", "pull_requests")
    execute(postgres, "DELETE FROM task_outbox WHERE task <> 'run_sync_batch'")
    assert wake(postgres, made.org.id, "github", "github.com") == 3
    waits = column(postgres, WAITS)
    assert all(isinstance(wait, float) and -5 < wait <= 30 for wait in waits)
    assert len(set(waits)) == 3
    owed = (
        "SELECT m.available_at = b.not_before FROM task_outbox m "
        "JOIN sync_batches b ON m.dedupe = 'batch/' || b.id || '/' || b.wakes"
    )
    assert column(postgres, owed) == [True] * 3
    assert column(postgres, "SELECT attempt + deferrals FROM sync_batches") == [1] * 3


def test_batch_that_goes_on_sooner_anyway_does_not_wait_longer(postgres: Postgres) -> None:
    made = github(postgres)
    deferred(postgres, made, "commits", seconds=5.0)
    assert wake(postgres, made.org.id, "github", "github.com", spread=100_000.0) == 1
    (wait,) = column(postgres, WAITS)
    assert isinstance(wait, float)
    assert wait <= 5


def test_batches_of_others_and_those_that_do_not_wait_stay_as_they_are(postgres: Postgres) -> None:
    made, other = github(postgres), github(postgres, "orbit")
    enterprise = github(postgres, "initech", "ghe.acme.com")
    for one in (other, enterprise):
        deferred(postgres, one, "commits")
    queued(postgres, made, "commits")
    before = column(postgres, "SELECT id || coalesce(not_before::text, '-') FROM sync_batches ORDER BY id")
    assert wake(postgres, made.org.id, "github", "github.com") == 0
    assert wake(postgres, enterprise.org.id, "github", "github.com") == 0
    assert wake(postgres, other.org.id, "gitlab", "github.com") == 0
    assert column(postgres, "SELECT id || coalesce(not_before::text, '-') FROM sync_batches ORDER BY id") == before


def test_batch_that_somebody_holds_keeps_nobody_waiting(postgres: Postgres) -> None:
    made = github(postgres)
    held, free = deferred(postgres, made, "commits", "work_items")
    with postgres.transaction() as other:
        other.execute(text("SELECT 1 FROM sync_batches WHERE id = :id FOR UPDATE"), {"id": held})
        assert wake(postgres, made.org.id, "github", "github.com") == 1
    (still,) = column(postgres, "SELECT id FROM sync_batches WHERE not_before > now() + interval '40 minutes'")
    assert (still, held != free) == (held, True)


def test_unclaimed_batches_are_those_whose_message_has_left_the_outbox(postgres: Postgres) -> None:
    made, other = github(postgres), github(postgres, "orbit")
    first, second, _ = queued(postgres, made, "commits", "work_items", "pull_requests")
    queued(postgres, other, "commits")
    key = (made.org.id, "github", "github.com")
    with postgres.transaction() as tx:
        assert batches.unclaimed(tx, [key]) == []
    execute(postgres, "DELETE FROM task_outbox WHERE kwargs ->> 'batch_id' IN (:a, :b)", a=str(first), b=str(second))
    with postgres.transaction() as tx:
        found = batches.unclaimed(tx, [key, (other.org.id, "github", "elsewhere.com")])
        assert batches.unclaimed(tx, []) == []
    assert sorted(found, key=lambda item: item.dataset) == [
        Unclaimed("sync.github", *key, "commits", 1),
        Unclaimed("sync.github", *key, "work_items", 1),
    ]


def test_batch_that_waits_for_its_moment_is_not_unclaimed_until_it_has_come(postgres: Postgres) -> None:
    made = github(postgres)
    deferred(postgres, made, "commits")
    execute(postgres, "DELETE FROM task_outbox")
    key = (made.org.id, "github", "github.com")
    with postgres.transaction() as tx:
        assert batches.unclaimed(tx, [key]) == []
    execute(postgres, "UPDATE sync_batches SET not_before = now() - interval '1 second'")
    with postgres.transaction() as tx:
        assert [item.number for item in batches.unclaimed(tx, [key])] == [1]

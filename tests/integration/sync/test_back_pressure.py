"""Back-pressure and leases: how many batches run at once, which one is next, and what nobody but its owner can change."""

import threading
from uuid import UUID, uuid4

import pytest

from tests.seed import Seed, column, execute, manual_run, seed
from tests.waiting import github, queued
from worker_app import errors, jobs
from worker_app.jobs import Batch, BatchEnd, BatchState, NewBatch
from worker_app.records import Page
from worker_app.store import batches, runs
from worker_app.store.postgres import Postgres
from worker_app.sync import plan

pytestmark = pytest.mark.integration
DONE = BatchEnd(BatchState.SUCCEEDED, is_complete=True)
CAP, CLAIMERS, ROUNDS = 3, 4, 5


def claim(postgres: Postgres, batch_id: UUID, cap: int = CAP) -> Batch | None:
    with postgres.transaction() as tx:
        return batches.claim(tx, batch_id, uuid4(), lease_seconds=60, cap=cap)


def claimed(postgres: Postgres, batch_id: UUID) -> Batch:
    found = claim(postgres, batch_id)
    assert found is not None
    return found


def close(postgres: Postgres, batch: Batch) -> None:
    with postgres.transaction() as tx:
        assert batches.close(tx, batch.id, batch.owner, DONE)


def in_state(postgres: Postgres, state: str) -> list[object]:
    return column(postgres, "SELECT dataset FROM sync_batches WHERE state = :state ORDER BY dataset", state=state)


def row(postgres: Postgres, batch_id: UUID) -> object:
    return column(postgres, "SELECT to_jsonb(b) FROM sync_batches b WHERE id = :id", id=batch_id)[0]


def test_four_claimers_of_more_queued_batches_than_the_cap_never_pass_it(postgres: Postgres) -> None:
    ids = queued(postgres, github(postgres), *(f"d{number:02}" for number in range(CLAIMERS * ROUNDS)))
    for start in range(0, len(ids), CLAIMERS):
        met, found = threading.Barrier(CLAIMERS), list[Batch | None]()

        def take(batch_id: UUID, met: threading.Barrier = met, found: list[Batch | None] = found) -> None:
            met.wait(10)
            found.append(claim(postgres, batch_id))

        claimers = [threading.Thread(target=take, args=(item,)) for item in ids[start : start + CLAIMERS]]
        for claimer in claimers:
            claimer.start()
        for claimer in claimers:
            claimer.join(10)
        taken = [batch for batch in found if batch is not None]
        assert (len(found), len(taken), len(in_state(postgres, "running"))) == (CLAIMERS, CAP, CAP)
        for batch in taken:
            close(postgres, batch)


def test_batch_that_the_cap_refuses_waits_in_postgres_and_is_let_in_when_a_place_is_free(postgres: Postgres) -> None:
    first, second = queued(postgres, github(postgres), "first", "second")
    execute(postgres, "DELETE FROM task_outbox")
    working = claim(postgres, first, cap=1)
    assert working is not None
    assert claim(postgres, second, cap=1) is None
    assert in_state(postgres, "planned") == ["second"]
    assert column(postgres, "SELECT count(*) FROM task_outbox") == [0]
    execute(postgres, "UPDATE sync_batches SET not_before = now() WHERE state = 'planned'")
    close(postgres, working)
    assert in_state(postgres, "queued") == ["second"]
    assert column(postgres, "SELECT dedupe FROM task_outbox WHERE task = 'run_sync_batch'") == [f"batch/{second}/2"]


def test_batch_whose_lease_lives_or_that_is_closed_is_no_ones_to_take_and_a_dead_ones_costs_an_attempt(
    postgres: Postgres,
) -> None:
    (batch_id,) = queued(postgres, github(postgres), "commits")
    claimed(postgres, batch_id)
    before = row(postgres, batch_id)
    assert claim(postgres, batch_id) is None
    assert row(postgres, batch_id) == before
    execute(postgres, "UPDATE sync_batches SET lease_until = now() - interval '1 second'")
    taken_over = claimed(postgres, batch_id)
    assert taken_over.attempt == 1
    close(postgres, taken_over)
    before = row(postgres, batch_id)
    assert claim(postgres, batch_id) is None
    assert row(postgres, batch_id) == before


def plan_waiting(postgres: Postgres, made: Seed) -> None:
    """Four planned batches, all in the wrong order: a backfill is the oldest, one that was rescued the youngest."""
    queued(postgres, made, "backfill", "older", "younger", "rescued")
    execute(
        postgres,
        "UPDATE sync_batches SET state = 'planned', attempt = (dataset = 'rescued')::int, "
        "queue = CASE WHEN dataset = 'backfill' THEN 'backfill' ELSE queue END, "
        "created_at = now() - CASE dataset WHEN 'backfill' THEN interval '9 h' WHEN 'older' THEN interval '2 h' "
        "WHEN 'younger' THEN interval '1 h' ELSE interval '0' END",
    )


def test_rescued_batches_are_let_in_first_then_the_oldest_and_backfills_last(postgres: Postgres) -> None:
    made = github(postgres)
    plan_waiting(postgres, made)
    with postgres.transaction() as tx:
        runs.lock_cap(tx, made.org.id, "github")
        assert runs.release(tx, made.org.id, "github", 1) == 1
        assert runs.release(tx, made.org.id, "github", 1) == 0
    order = []
    for _ in range(4):  # one leaves, one enters
        (name,) = in_state(postgres, "queued")
        order.append(name)
        (batch_id,) = column(postgres, "SELECT id FROM sync_batches WHERE state = 'queued'")
        assert isinstance(batch_id, UUID)
        close(postgres, claimed(postgres, batch_id))
    assert order == ["rescued", "older", "younger", "backfill"]
    assert column(postgres, "SELECT state || batches_done FROM sync_runs") == ["finishing4"]


def test_backfill_that_yields_makes_room_for_a_sync(postgres: Postgres) -> None:
    made = github(postgres)
    plan_waiting(postgres, made)
    execute(postgres, "DELETE FROM sync_batches WHERE dataset IN ('younger', 'rescued')")
    execute(postgres, "UPDATE sync_batches SET state = 'queued' WHERE dataset = 'backfill'")
    (backfill,) = column(postgres, "SELECT id FROM sync_batches WHERE dataset = 'backfill'")
    assert isinstance(backfill, UUID)
    yielding = claimed(postgres, backfill)
    with postgres.transaction() as tx:
        runs.lock_cap(tx, made.org.id, "github")
        assert batches.give_back(tx, yielding, BatchState.PLANNED)
        assert runs.release(tx, made.org.id, "github", 1) == 1
    assert (in_state(postgres, "queued"), in_state(postgres, "planned")) == (["older"], ["backfill"])


def test_who_is_not_the_owner_changes_nothing_of_a_batch_and_counts_nothing_in_its_run(postgres: Postgres) -> None:
    (batch_id,) = queued(postgres, github(postgres), "commits")
    old = claimed(postgres, batch_id)
    execute(postgres, "UPDATE sync_batches SET lease_until = now() - interval '1 second'")
    new = claimed(postgres, batch_id)
    before = row(postgres, batch_id)
    with postgres.transaction() as tx:
        assert not batches.renew(tx, old, 300)
        assert not batches.give_back(tx, old, BatchState.DEFERRED, wait_seconds=60)
        assert not batches.close(tx, old.id, old.owner, DONE)
    for change in (
        lambda tx: batches.checkpoint(tx, old, Page((), next="2"), 300),
        lambda tx: batches.begin(tx, old, {}),
    ):
        with pytest.raises(errors.LeaseLost), postgres.transaction() as tx:
            change(tx)
    assert row(postgres, batch_id) == before
    assert column(postgres, "SELECT state || batches_done || batches_failed FROM sync_runs") == ["running00"]
    close(postgres, new)
    assert column(postgres, "SELECT state || batches_done || batches_failed FROM sync_runs") == ["finishing10"]


def test_run_that_is_planned_again_after_a_crash_has_the_same_batches(postgres: Postgres) -> None:
    run_id = manual_run(postgres, seed(postgres))
    given = {"lease_seconds": 60, "cap": 8, "max_batches": 10}
    assert plan.run(postgres, run_id, **given) == 1
    first = column(postgres, "SELECT id FROM sync_batches")
    execute(postgres, "UPDATE sync_runs SET state = 'planning', lease_until = now() - interval '1 second'")
    plan.run(postgres, run_id, **given)
    assert column(postgres, "SELECT id FROM sync_batches") == first
    assert column(postgres, "SELECT state || batches_total FROM sync_runs") == ["running1"]
    assert plan.run(postgres, run_id, **given) is None  # a second message


def test_planner_whose_lease_was_taken_over_writes_no_batch(postgres: Postgres) -> None:
    made = seed(postgres)
    run_id, slow = manual_run(postgres, made), uuid4()
    with postgres.transaction() as tx:
        run = runs.claim(tx, run_id, slow, "plan", 60)
        assert run is not None
        assert runs.claim(tx, run_id, uuid4(), "plan", 60) is None  # its lease lives
    execute(postgres, "UPDATE sync_runs SET lease_until = now() - interval '1 second'")
    with postgres.transaction() as tx:
        assert runs.claim(tx, run_id, uuid4(), "plan", 60) is not None
    batch = NewBatch(jobs.batch_id(run_id, made.source.id, "commits"), made.source.id, "commits", "sync.git")
    with pytest.raises(errors.LeaseLost), postgres.transaction() as tx:
        runs.plan(tx, run, slow, [batch], CAP)
    assert column(postgres, "SELECT count(*) FROM sync_batches") == [0]

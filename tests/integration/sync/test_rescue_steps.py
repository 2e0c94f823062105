"""The steps of a sweep one by one: what each finds, what it leaves alone, and under which number it owes a message."""

from uuid import UUID, uuid4

import pytest
import redis

from tests.seed import Seed, column, execute, manual_run, seed
from tests.waiting import github, queued
from worker_app import errors
from worker_app.records import Page
from worker_app.store import batches
from worker_app.store.postgres import Postgres
from worker_app.sync import rescue
from worker_app.sync.rescue import Rescued

pytestmark = pytest.mark.integration
DATASETS = ("commits", "pull_requests", "reviews", "work_items", "deployments")


@pytest.fixture(autouse=True)
def known_redis(postgres: Postgres, redis_client: redis.Redis) -> None:
    """The database has met this Redis before: the first sweep of all arms whatever waits."""
    sweep(postgres, redis_client)


def sweep(postgres: Postgres, client: redis.Redis, cap: int = 8) -> Rescued:
    return rescue.sweep(postgres, client, cap=cap, visibility_timeout_seconds=3600)


def published(postgres: Postgres) -> None:
    """The relay has taken everything to Redis."""
    execute(postgres, "DELETE FROM task_outbox")


def in_state(postgres: Postgres, batch_id: UUID, state: str, lease: str | None = None) -> None:
    """A batch as a worker that is gone left it; `lease`: from now to its end, below 0 where it is over."""
    execute(
        postgres,
        "UPDATE sync_batches SET state = :state, lease_until = now() + CAST(:lease AS interval), "
        "lease_owner = CASE WHEN CAST(:lease AS text) IS NOT NULL THEN gen_random_uuid() END WHERE id = :id",
        id=batch_id,
        state=state,
        lease=lease,
    )


def states(postgres: Postgres, ids: list[UUID]) -> list[object]:
    return column(
        postgres, "SELECT state FROM sync_batches WHERE id = ANY(:ids) ORDER BY array_position(:ids, id)", ids=ids
    )


def owed(postgres: Postgres) -> set[object]:
    return set(column(postgres, "SELECT dedupe FROM task_outbox"))


def finishing(postgres: Postgres, made: Seed, lease: str | None) -> UUID:
    """A run whose batches are closed; `lease`: of who finishes it, from now to its end."""
    run_id = manual_run(postgres, made)
    execute(
        postgres,
        "UPDATE sync_runs SET state = 'finishing', lease_until = now() + CAST(:lease AS interval) WHERE id = :id",
        id=run_id,
        lease=lease,
    )
    return run_id


@pytest.mark.parametrize(
    ("kind", "state", "becomes", "task", "step"),
    [
        ("sync", "planning", "queued", "dispatch_sync_run", "dispatch"),
        ("sync", "finishing", "finishing", "finish_sync_run", "finish"),
        ("metrics", "running", "queued", "compute_daily_metrics", "dispatch"),
        ("report", "running", "queued", "render_report", "dispatch"),
    ],
)
def test_run_whose_lease_is_over_is_armed_under_its_next_number_and_a_live_lease_is_left_alone(
    postgres: Postgres, redis_client: redis.Redis, kind: str, state: str, becomes: str, task: str, step: str
) -> None:
    dead, alive = manual_run(postgres, seed(postgres)), manual_run(postgres, seed(postgres, "other"))
    published(postgres)
    execute(
        postgres,
        "UPDATE sync_runs SET kind = :kind, state = :state, lease_owner = gen_random_uuid(), wakes = 7, "
        "lease_until = now() + CASE WHEN id = :dead THEN interval '-1 s' ELSE interval '1 min' END",
        kind=kind,
        state=state,
        dead=dead,
    )
    assert sweep(postgres, redis_client) == Rescued(runs=1)
    assert column(
        postgres, "SELECT state || attempt || wakes FROM sync_runs WHERE id = :id AND lease_until IS NULL", id=dead
    ) == [f"{becomes}18"]
    assert column(postgres, "SELECT dedupe || ' ' || task FROM task_outbox") == [f"run/{dead}/{step}/8 {task}"]
    assert column(postgres, "SELECT state || attempt FROM sync_runs WHERE id = :id", id=alive) == [f"{state}0"]
    assert sweep(postgres, redis_client) == Rescued()


def test_batch_whose_lease_is_over_is_armed_under_its_next_number_and_a_live_lease_is_left_alone(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    dead, alive = queued(postgres, github(postgres), *DATASETS[:2])
    published(postgres)
    in_state(postgres, dead, "running", "-1 second")
    in_state(postgres, alive, "running", "1 minute")
    assert sweep(postgres, redis_client) == Rescued(batches=1)
    assert states(postgres, [dead, alive]) == ["queued", "running"]
    assert column(
        postgres, "SELECT attempt || '/' || wakes FROM sync_batches WHERE id = :id AND lease_owner IS NULL", id=dead
    ) == ["1/2"]
    assert owed(postgres) == {f"batch/{dead}/2"}


def test_emptied_redis_brings_back_what_waits_for_a_message_and_nothing_else(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    waiting, running, past, ahead, planned = queued(postgres, github(postgres), *DATASETS)
    in_state(postgres, running, "running", "1 minute")
    for batch_id, moment in ((past, "-1 second"), (ahead, "1 hour")):
        in_state(postgres, batch_id, "deferred")
        execute(
            postgres,
            "UPDATE sync_batches SET not_before = now() + CAST(:moment AS interval) WHERE id = :id",
            id=batch_id,
            moment=moment,
        )
    execute(
        postgres,
        "UPDATE sync_batches SET state = 'planned', not_before = now() + interval '1 hour' WHERE id = :id",
        id=planned,
    )
    run_id, _ = (finishing(postgres, seed(postgres, name), lease) for name, lease in (("a", None), ("b", "1 minute")))
    published(postgres)
    redis_client.flushall()
    assert sweep(postgres, redis_client) == Rescued(rearmed=3)
    assert owed(postgres) == {f"batch/{waiting}/2", f"batch/{past}/2", f"run/{run_id}/finish/2"}


def test_epoch_of_redis_is_kept_for_a_week_from_each_sweep(postgres: Postgres, redis_client: redis.Redis) -> None:
    sweep(postgres, redis_client)
    token = redis_client.get(rescue.EPOCH_KEY)
    redis_client.expire(rescue.EPOCH_KEY, 10)
    sweep(postgres, redis_client)
    assert redis_client.ttl(rescue.EPOCH_KEY) > rescue.EPOCH_SECONDS - 60
    assert rescue.EPOCH_SECONDS == 7 * 24 * 3600
    assert redis_client.get(rescue.EPOCH_KEY) == token


def test_message_counts_as_lost_after_twice_the_visibility_timeout_and_not_before(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    slow, lost, waited = queued(postgres, github(postgres), *DATASETS[:3])
    published(postgres)
    in_state(postgres, waited, "deferred")  # for three hours, which have just gone by: its message is young
    execute(postgres, "UPDATE sync_batches SET not_before = now() - interval '1 min' WHERE id = :id", id=waited)
    for batch_id, age in ((slow, "7190 s"), (lost, "7210 s"), (waited, "3 h")):
        execute(
            postgres,
            "UPDATE sync_batches SET armed_at = now() - CAST(:age AS interval) WHERE id = :id",
            id=batch_id,
            age=age,
        )
    assert sweep(postgres, redis_client) == Rescued(rearmed=1)
    assert owed(postgres) == {f"batch/{lost}/2"}
    assert sweep(postgres, redis_client) == Rescued()


def test_counters_that_disagree_with_open_batches_are_mended_and_the_run_is_not_finished(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    ids = queued(postgres, github(postgres), *DATASETS)
    published(postgres)
    for batch_id, state in zip(ids, ("succeeded", "succeeded", "failed", "cancelled", "queued"), strict=True):
        in_state(postgres, batch_id, state)
    execute(postgres, "UPDATE sync_runs SET batches_done = 4, batches_failed = 0, batches_total = 4")
    sweep(postgres, redis_client)
    counted = "SELECT state || batches_done || batches_failed || batches_total FROM sync_runs"
    assert column(postgres, counted) == ["running225"]
    assert owed(postgres) == set()


def test_no_more_planned_batches_are_released_than_the_cap_leaves_places(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    made = github(postgres)
    running, deferred, *planned = queued(postgres, made, *DATASETS)
    in_state(postgres, running, "running", "1 minute")
    in_state(postgres, deferred, "deferred")
    for batch_id in planned:
        in_state(postgres, batch_id, "planned")
    execute(postgres, "UPDATE sync_batches SET not_before = now() + interval '1 hour' WHERE state = 'deferred'")
    assert sweep(postgres, redis_client, cap=3).released == 1
    assert sorted(map(str, states(postgres, planned))) == ["planned", "planned", "queued"]


def test_lost_run_takes_every_open_batch_from_whoever_has_it_and_a_run_in_time_keeps_its_own(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    done, planned, waiting, deferred, working = ids = queued(postgres, github(postgres), *DATASETS)
    (in_time,) = queued(postgres, github(postgres, "orbit"), "commits")
    with postgres.transaction() as tx:
        batch = batches.claim(tx, working, uuid4(), lease_seconds=300, cap=8)
    assert batch is not None
    for batch_id, state in ((done, "succeeded"), (planned, "planned"), (deferred, "deferred")):
        in_state(postgres, batch_id, state)
    execute(
        postgres,
        "UPDATE sync_runs SET batches_done = 1, deadline_at = now() - interval '1 s' WHERE id = :id",
        id=batch.run_id,
    )
    assert sweep(postgres, redis_client).lost == 1
    assert states(postgres, ids) == ["succeeded", *["cancelled"] * 4]
    assert column(
        postgres,
        "SELECT state || batches_done || batches_failed || error_class FROM sync_runs WHERE id = :id",
        id=batch.run_id,
    ) == ["lost14deadline"]
    with pytest.raises(errors.LeaseLost), postgres.transaction() as tx:
        batches.checkpoint(tx, batch, Page((), next="2"), 300)
    assert states(postgres, [waiting, in_time]) == ["cancelled", "queued"]


def test_cancel_request_closes_what_has_not_begun_and_leaves_what_runs_to_its_worker(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    done, planned, waiting, deferred, working = queued(postgres, github(postgres), *DATASETS)
    published(postgres)
    for batch_id, state in ((done, "succeeded"), (planned, "planned"), (deferred, "deferred")):
        in_state(postgres, batch_id, state)
    in_state(postgres, working, "running", "1 minute")
    execute(postgres, "UPDATE sync_runs SET batches_done = 1, cancel_requested_at = now()")
    assert sweep(postgres, redis_client).cancelled == 1
    assert states(postgres, [done, planned, waiting, deferred, working]) == [
        "succeeded",
        *["cancelled"] * 3,
        "running",
    ]
    assert column(postgres, "SELECT state || batches_done || batches_failed FROM sync_runs") == ["running13"]
    assert owed(postgres) == set()

import pytest
import redis

from tests.seed import column, execute, manual_run, schedule, seed
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch, plan, rescue
from worker_app.sync.rescue import Rescued

pytestmark = pytest.mark.integration


def sweep(postgres: Postgres, client: redis.Redis) -> Rescued:
    return rescue.sweep(postgres, client, cap=8, visibility_timeout_seconds=3600)


def published(postgres: Postgres) -> None:
    """The relay has taken everything to Redis."""
    execute(postgres, "DELETE FROM task_outbox")


def test_quiet_fleet_has_nothing_to_rescue(postgres: Postgres, redis_client: redis.Redis) -> None:
    manual_run(postgres, seed(postgres))
    assert sweep(postgres, redis_client) == Rescued()


def test_emptied_redis_brings_every_waiting_message_back(postgres: Postgres, redis_client: redis.Redis) -> None:
    run_id = manual_run(postgres, seed(postgres))
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10)
    manual_run(postgres, seed(postgres, "other"))
    sweep(postgres, redis_client)
    published(postgres)
    redis_client.flushall()
    assert sweep(postgres, redis_client).rearmed == 2
    assert set(column(postgres, "SELECT task FROM task_outbox")) == {"run_sync_batch", "dispatch_sync_run"}
    assert sweep(postgres, redis_client).rearmed == 0


def test_message_that_still_stands_in_the_outbox_is_not_armed_twice(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    sweep(postgres, redis_client)
    manual_run(postgres, seed(postgres))
    redis_client.flushall()
    assert sweep(postgres, redis_client).rearmed == 0


def test_run_whose_planner_died_is_planned_again(postgres: Postgres, redis_client: redis.Redis) -> None:
    manual_run(postgres, seed(postgres))
    published(postgres)
    execute(
        postgres,
        "UPDATE sync_runs SET state = 'planning', lease_owner = gen_random_uuid(), lease_until = now() - interval '1 s'",
    )
    assert sweep(postgres, redis_client).runs == 1
    assert column(postgres, "SELECT state || attempt FROM sync_runs") == ["queued1"]
    assert column(postgres, "SELECT task FROM task_outbox") == ["dispatch_sync_run"]


def test_run_that_lost_its_worker_five_times_fails(postgres: Postgres, redis_client: redis.Redis) -> None:
    manual_run(postgres, seed(postgres))
    execute(postgres, "UPDATE sync_runs SET state = 'planning', attempt = 4, lease_until = now() - interval '1 s'")
    sweep(postgres, redis_client)
    assert column(postgres, "SELECT state || ' ' || error_class FROM sync_runs") == ["failed worker_lost"]


def test_batch_that_lost_its_worker_five_times_fails_its_run(postgres: Postgres, redis_client: redis.Redis) -> None:
    run_id = manual_run(postgres, seed(postgres))
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10)
    execute(postgres, "UPDATE sync_batches SET state = 'running', attempt = 4, lease_until = now() - interval '1 s'")
    assert sweep(postgres, redis_client).exhausted == 1
    assert column(postgres, "SELECT state || ' ' || error_class FROM sync_batches") == ["failed worker_lost"]
    assert column(postgres, "SELECT state || batches_failed FROM sync_runs") == ["finishing1"]


def test_run_past_its_deadline_is_lost_and_its_batches_are_cancelled(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    run_id = manual_run(postgres, seed(postgres))
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10)
    execute(postgres, "UPDATE sync_runs SET deadline_at = now() - interval '1 s'")
    assert sweep(postgres, redis_client).lost == 1
    assert column(postgres, "SELECT state FROM sync_runs") == ["lost"]
    assert column(postgres, "SELECT state FROM sync_batches") == ["cancelled"]


def test_wrong_counters_are_mended_and_the_run_goes_on(postgres: Postgres, redis_client: redis.Redis) -> None:
    run_id = manual_run(postgres, seed(postgres))
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10)
    published(postgres)
    execute(postgres, "UPDATE sync_batches SET state = 'succeeded', complete = true, finished_at = now()")
    assert sweep(postgres, redis_client).recounted == 1
    assert column(postgres, "SELECT state || batches_done FROM sync_runs") == ["finishing1"]
    assert column(postgres, "SELECT task FROM task_outbox") == ["finish_sync_run"]


def test_planned_batch_without_anybody_to_release_it_is_released(postgres: Postgres, redis_client: redis.Redis) -> None:
    run_id = manual_run(postgres, seed(postgres))
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10)
    published(postgres)
    execute(postgres, "UPDATE sync_batches SET state = 'planned'")
    assert sweep(postgres, redis_client).released == 1
    assert column(postgres, "SELECT state FROM sync_batches") == ["queued"]


def test_buffered_slot_becomes_a_run_once_nothing_is_active(postgres: Postgres, redis_client: redis.Redis) -> None:
    schedule(postgres, seed(postgres), overlap="buffer_one")
    dispatch.tick(postgres, "test")
    execute(postgres, "UPDATE scheduled_jobs SET buffered_slot = next_run_at")
    assert sweep(postgres, redis_client).promoted == 0
    execute(postgres, "UPDATE sync_runs SET state = 'succeeded', finished_at = now()")
    assert sweep(postgres, redis_client).promoted == 1
    assert column(postgres, "SELECT count(*) FROM sync_runs WHERE state = 'queued'") == [1]
    assert column(postgres, "SELECT buffered_slot FROM scheduled_jobs") == [None]


def test_message_that_was_lost_long_ago_is_armed_again(postgres: Postgres, redis_client: redis.Redis) -> None:
    manual_run(postgres, seed(postgres))
    published(postgres)
    execute(postgres, "UPDATE sync_runs SET armed_at = now() - interval '3 hours'")
    assert sweep(postgres, redis_client).rearmed == 1


def test_redis_that_was_started_anew_brings_every_waiting_message_back(
    postgres: Postgres, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(postgres, redis_client)
    manual_run(postgres, seed(postgres))
    published(postgres)
    assert sweep(postgres, redis_client).rearmed == 0
    monkeypatch.setattr(
        redis_client, "info", lambda _: {"run_id": "another"}
    )  # its key may have come back from its disk
    assert sweep(postgres, redis_client).rearmed == 1
    assert sweep(postgres, redis_client).rearmed == 0


def test_rescue_goes_on_in_postgres_while_redis_is_away(postgres: Postgres) -> None:
    manual_run(postgres, seed(postgres))
    execute(
        postgres,
        "UPDATE sync_runs SET state = 'planning', lease_owner = gen_random_uuid(), lease_until = now() - interval '1 s'",
    )
    with pytest.raises(redis.RedisError):
        sweep(postgres, redis.Redis(port=1))
    assert column(postgres, "SELECT state FROM sync_runs") == ["queued"]


def test_cancelled_run_whose_canceller_died_is_ended(postgres: Postgres, redis_client: redis.Redis) -> None:
    run_id = manual_run(postgres, seed(postgres))
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10)
    execute(postgres, "UPDATE sync_runs SET cancel_requested_at = now()")
    assert sweep(postgres, redis_client).cancelled == 1
    assert column(postgres, "SELECT state FROM sync_runs") == ["finishing"]
    assert column(postgres, "SELECT state FROM sync_batches") == ["cancelled"]
    assert sweep(postgres, redis_client).cancelled == 0

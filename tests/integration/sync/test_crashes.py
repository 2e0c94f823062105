"""What a kill or a lost store leaves behind at one exact moment, each as small as it gets; `tests/chaos/dispatch` finds them."""

import threading
from collections.abc import Sequence

import pytest
import redis
from sqlalchemy import text

from tests.processes import wait_for
from tests.seed import column, execute, manual_run, schedule, seed
from worker_app.jobs import Message
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch, plan, rescue
from worker_app.sync.outbox import Relay
from worker_app.sync.rescue import Rescued

pytestmark = pytest.mark.integration
WAITS_FOR_LOCK = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def sweep(postgres: Postgres, client: redis.Redis) -> Rescued:
    return rescue.sweep(postgres, client, cap=8, visibility_timeout_seconds=3600)


def test_emptied_redis_brings_back_more_than_one_step_of_the_sweep_holds(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    made = seed(postgres)
    for _ in range(501):
        schedule(postgres, made)
    sweep(postgres, redis_client)
    assert dispatch.tick(postgres, "test").minted == 501
    execute(postgres, "DELETE FROM task_outbox")  # the relay has taken everything to Redis
    redis_client.flushall()
    assert sum(sweep(postgres, redis_client).rearmed for _ in range(2)) == 501


def test_redis_emptied_between_a_publish_and_its_receipt_loses_no_message(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    manual_run(postgres, seed(postgres))
    sweep(postgres, redis_client)
    sent: list[str] = []

    def publish(messages: Sequence[Message]) -> None:
        sent.extend(message.dedupe for message in messages)
        if len(sent) == 1:  # it went out, then Redis was emptied, and a sweep saw the row that still stands for it
            redis_client.flushall()
            sweep(postgres, redis_client)

    Relay(postgres, publish, list, 60).drain()
    sweep(postgres, redis_client)
    Relay(postgres, publish, list, 60).drain()
    assert len(sent) == 2


@pytest.mark.parametrize("table", ["sync_runs", "schedule_occurrences", "task_outbox"])
def test_slot_has_its_run_its_ledger_row_and_its_message_or_none_of_them(postgres: Postgres, table: str) -> None:
    schedule(postgres, seed(postgres))
    execute(
        postgres,
        "CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken off'; END $$; "
        f"CREATE TRIGGER break_off BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION break_off()",
    )
    assert dispatch.tick(postgres, "test").quarantined == 1
    rows = [f"(SELECT count(*) FROM {name})" for name in ("sync_runs", "schedule_occurrences", "task_outbox")]
    assert column(postgres, f"SELECT {' + '.join(rows)}") == [0]
    execute(postgres, f"DROP TRIGGER break_off ON {table}; UPDATE scheduled_jobs SET quarantined_until = NULL")
    assert dispatch.tick(postgres, "test").minted == 1
    together = (
        "SELECT count(*) FROM sync_runs r JOIN schedule_occurrences o ON o.run_id = r.id AND o.outcome = 'minted' "
    )
    together += "JOIN task_outbox m ON m.dedupe = 'run/' || r.id || '/dispatch/1'"
    assert column(postgres, together) == [1]


def test_redis_emptied_before_the_first_sweep_loses_no_message(postgres: Postgres, redis_client: redis.Redis) -> None:
    manual_run(postgres, seed(postgres))
    execute(postgres, "DELETE FROM task_outbox")
    redis_client.flushall()
    assert sweep(postgres, redis_client).rearmed == 1


def test_row_that_a_dying_worker_held_when_redis_was_emptied_is_armed_too(
    postgres: Postgres, redis_client: redis.Redis
) -> None:
    run_id = manual_run(postgres, seed(postgres))
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10)
    sweep(postgres, redis_client)
    execute(postgres, "DELETE FROM task_outbox")  # the relay has taken it to Redis
    redis_client.flushall()
    found: list[Rescued] = []
    sweeper = threading.Thread(target=lambda: found.append(sweep(postgres, redis_client)))
    with postgres.engine.connect() as dying:
        dying.execute(text("UPDATE sync_batches SET lease_owner = gen_random_uuid()"))  # and never commits
        sweeper.start()
        wait_for(lambda: column(postgres, WAITS_FOR_LOCK), "the sweep waits for it", 10)
        dying.rollback()
    sweeper.join(timeout=10)
    assert found[0].rearmed == 1

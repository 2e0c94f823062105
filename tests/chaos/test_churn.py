"""A reader that keeps an old snapshot for long: dead rows pile up in jobs and outbox, and a claim is quick all the same."""

import time
from collections.abc import Sequence
from uuid import uuid4

import pytest
from sqlalchemy import text

from tests.seed import column, execute, seed
from worker_app.jobs import Message
from worker_app.store import outbox, schedules
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch
from worker_app.sync.outbox import Relay

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

JOBS, ROUNDS = 1000, 50
MOST_SECONDS = 0.05  # of the slowest claim but one in a hundred


def test_claims_stay_quick_while_an_old_snapshot_keeps_fifty_thousand_dead_rows(postgres: Postgres) -> None:
    made = seed(postgres)
    execute(
        postgres,
        "INSERT INTO scheduled_jobs (id, org_id, kind, provider, cron_source, cron, next_run_at, overlap) "
        "SELECT gen_random_uuid(), :org, 'sync', 'git', '0 * * * *', '0 * * * *', now(), 'allow' "
        "FROM generate_series(1, :count)",
        org=made.org.id,
        count=JOBS,
    )
    claims: list[float] = []
    takes: list[float] = []
    sent = 0

    def publish(messages: Sequence[Message]) -> None:
        nonlocal sent
        sent += len(messages)

    with postgres.engine.connect() as reader:
        reader.execution_options(isolation_level="REPEATABLE READ")
        reader.execute(text("SET idle_in_transaction_session_timeout = 0"))
        reader.execute(text("SELECT count(*) FROM task_outbox"))
        for _ in range(ROUNDS):
            execute(postgres, "UPDATE scheduled_jobs SET next_run_at = date_trunc('hour', now())")
            execute(postgres, "DELETE FROM schedule_occurrences")
            execute(postgres, "DELETE FROM sync_runs")
            claims += [_seconds_of_a_claim(postgres) for _ in range(3)]
            assert dispatch.tick(postgres, "test").due == JOBS
            takes += [_seconds_of_a_take(postgres) for _ in range(3)]
            execute(postgres, "UPDATE task_outbox SET claimed_until = NULL")
            Relay(postgres, publish, list, 60).drain()
    assert sent == JOBS * ROUNDS
    assert column(postgres, "SELECT n_dead_tup > 0 FROM pg_stat_user_tables WHERE relname = 'task_outbox'")
    assert _p99(claims) < MOST_SECONDS, claims
    assert _p99(takes) < MOST_SECONDS, takes


def _seconds_of_a_claim(postgres: Postgres) -> float:
    with postgres.transaction() as tx:
        begun = time.perf_counter()
        schedules.claim_due(tx)
        taken = time.perf_counter() - begun
        tx.rollback()
    return taken


def _seconds_of_a_take(postgres: Postgres) -> float:
    with postgres.transaction() as tx:
        begun = time.perf_counter()
        outbox.exchange(tx, uuid4(), [])
        return time.perf_counter() - begun


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[-1 - len(seconds) // 100]

"""How Postgres carries out the claims whose limit has to hold, on statistics that know of two rows where 500 wait."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from tests.seed import column, due_jobs, execute, seed
from worker_app.store import outbox, schedules
from worker_app.store.postgres import Postgres, Transaction, statement
from worker_app.sync import dispatch

pytestmark = pytest.mark.integration
CLAIMS: dict[str, dict[str, object]] = {
    "claim_due_jobs": {"batch": 3},
    "exchange_messages": {"published": [], "token": uuid4(), "held": []},
}


def surprise(postgres: Postgres) -> None:
    """Five hundred jobs and as many messages wait, and the planner believes in two of each."""
    made = seed(postgres)
    for table in ("scheduled_jobs", "task_outbox"):
        execute(postgres, f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    due_jobs(postgres, made, 2)
    dispatch.tick(postgres, "test")
    execute(postgres, "ANALYZE scheduled_jobs, task_outbox")
    due_jobs(postgres, made, 498)
    assert dispatch.tick(postgres, "test").minted == 498
    execute(postgres, "UPDATE scheduled_jobs SET next_run_at = now()")


def plan_of(tx: Transaction, name: str) -> dict[str, Any]:
    """The outermost step of a claim's plan."""
    *before, wanted = statement(name).text.split(";\n")
    for each in before:
        tx.execute(text(each))
    explained: list[dict[str, Any]] = tx.execute(text(f"EXPLAIN (FORMAT JSON) {wanted}"), CLAIMS[name]).scalar_one()
    plan: dict[str, Any] = explained[0]["Plan"]
    return plan


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A step and all below it."""
    yield plan
    for below in plan.get("Plans", []):
        yield from steps(below)


@pytest.mark.parametrize("name", CLAIMS)
def test_claim_takes_its_locks_in_a_step_that_is_carried_out_once(postgres: Postgres, name: str) -> None:
    surprise(postgres)
    with postgres.transaction() as tx:
        every = list(steps(plan_of(tx, name)))
    (due,) = [step for step in every if step.get("Subplan Name") == "CTE due"]
    locking = [step for step in every if step["Node Type"] == "LockRows"]
    assert locking
    assert locking == [step for step in steps(due) if step["Node Type"] == "LockRows"]
    assert [step for step in every if step["Node Type"] == "CTE Scan" and step["CTE Name"] == "due"]


def test_claims_change_and_return_no_more_rows_than_their_limit(postgres: Postgres) -> None:
    surprise(postgres)
    with postgres.transaction() as tx:
        assert len(schedules.claim_due(tx, 3)[1]) == 3
        assert len(outbox.exchange(tx, uuid4(), [])) == 25
    assert column(postgres, "SELECT count(*) FROM task_outbox WHERE claim_token IS NOT NULL OR attempts > 0") == [25]

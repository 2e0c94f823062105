"""One tick: every kind of job, within its times, and what a fault that will pass does to it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from tests.processes import wait_for
from tests.seed import column, due_jobs, schedule, seed
from worker_app import errors
from worker_app.store import schedules
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch

pytestmark = pytest.mark.integration
QUARANTINED = "SELECT count(*) FROM scheduled_jobs WHERE fault IS NOT NULL"
HOLDS_A_CLAIM = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' "
    "AND query LIKE '%fair claim of gate 1%'"
)


def test_one_tick_serves_syncs_metrics_and_reports_each_by_its_own_task(postgres: Postgres) -> None:
    made = seed(postgres)
    schedule(postgres, made)
    for kind in ("metrics", "report"):
        schedule(postgres, made, kind=kind, provider=None, source_ids=())
    assert dispatch.tick(postgres, "test").minted == 3
    owed = (
        "SELECT r.kind || ' ' || m.task || ' ' || m.queue FROM task_outbox m JOIN sync_runs r "
        "ON m.kwargs = jsonb_build_object('run_id', r.id) AND m.dedupe = 'run/' || r.id || '/dispatch/1' ORDER BY 1"
    )
    assert column(postgres, owed) == [
        "metrics compute_daily_metrics metrics",
        "report render_report reports",
        "sync dispatch_sync_run sync",
    ]


def test_claim_gives_up_on_locks_after_a_second_and_on_a_statement_after_five(postgres: Postgres) -> None:
    with postgres.transaction() as tx:
        schedules.claim_due(tx, 10)
        limits = [tx.execute(text(f"SHOW {name}")).scalar_one() for name in ("lock_timeout", "statement_timeout")]
    assert limits == ["1s", "5s"]
    assert column(postgres, "SHOW lock_timeout") == ["0"]  # of this transaction alone


def test_batch_that_takes_too_long_to_decide_is_cut_and_what_is_left_stays_due(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_jobs(postgres, seed(postgres), 5)
    monkeypatch.setattr(dispatch, "DECIDE_SECONDS", -1.0)
    done = dispatch.Tick()
    assert dispatch._claim_and_mint(postgres, "test", 200, done)
    assert (done.due, done.minted) == (1, 1)
    assert column(postgres, "SELECT count(*) FROM scheduled_jobs WHERE next_run_at <= now()") == [4]
    assert dispatch.tick(postgres, "test").minted == 4


class Stepping:
    """A clock by which each write takes six seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def slowly(self, mint: Callable[..., schedules.Minted]) -> Callable[..., schedules.Minted]:
        def slow(*given: object) -> schedules.Minted:
            self.seconds += 6.0
            return mint(*given)

        return slow


def test_tick_that_is_out_of_time_leaves_the_rest_to_the_next(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_jobs(postgres, seed(postgres), 20)
    clock = Stepping()
    with monkeypatch.context() as patched:
        patched.setattr(dispatch, "time", clock)
        patched.setattr(schedules, "mint", clock.slowly(schedules.mint))
        assert dispatch.tick(postgres, "test", batch=1).claims == 4  # the one that begins at 18 s is the last
    assert column(postgres, "SELECT count(*) FROM scheduled_jobs WHERE next_run_at <= now()") == [16]
    assert dispatch.tick(postgres, "test").minted == 16


def test_fault_that_will_pass_sets_no_job_aside_and_the_next_tick_serves_all(postgres: Postgres) -> None:
    job_id = schedule(postgres, seed(postgres))
    due_jobs(postgres, seed(postgres, "other"), 3)
    slot = "SELECT next_run_at + interval '5 minutes' FROM scheduled_jobs WHERE id = :id"
    (newest,) = column(postgres, slot, id=job_id)
    with postgres.transaction() as other:  # somebody writes the same ledger row and does not end
        other.execute(
            text(
                "INSERT INTO schedule_occurrences (job_id, scheduled_for, org_id, outcome, dispatcher) "
                "SELECT id, :slot, org_id, 'skipped_overlap', 'other' FROM scheduled_jobs WHERE id = :id"
            ),
            {"id": job_id, "slot": newest},
        )
        with pytest.raises(errors.StoreAway, match="lock timeout"):
            dispatch.tick(postgres, "test")
        other.rollback()
    assert column(postgres, QUARANTINED) == [0]
    assert column(postgres, "SELECT count(*) FROM schedule_occurrences") == [0]
    assert dispatch.tick(postgres, "test").minted == 4


class Still:
    """Lets the first who decides stand still until somebody wakes it."""

    def __init__(self, decide: Callable[..., Any]) -> None:
        self._decide = decide
        self._is_taken = threading.Lock()
        self.stands = threading.Event()
        self.wakes = threading.Event()

    def __call__(self, *given: object) -> Any:
        if self._is_taken.acquire(blocking=False):
            self.stands.set()
            assert self.wakes.wait(20)
        return self._decide(*given)


def test_dispatcher_whose_session_ends_between_claim_and_commit_writes_nothing_and_another_serves_all(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_jobs(postgres, seed(postgres), 10)
    still, faults = Still(dispatch._decide), list[errors.StoreAway]()
    monkeypatch.setattr(dispatch, "_decide", still)

    def stand() -> None:
        try:
            dispatch.tick(postgres, "slow")
        except errors.StoreAway as error:
            faults.append(error)

    slow = threading.Thread(target=stand)
    slow.start()
    assert still.stands.wait(10)
    assert dispatch.tick(postgres, "quick").minted == 0  # all of it is held
    (session,) = column(postgres, HOLDS_A_CLAIM)
    assert column(postgres, "SELECT pg_terminate_backend(:pid)", pid=session) == [True]  # as its idle timeout does
    wait_for(lambda: column(postgres, HOLDS_A_CLAIM) == [], "the session is gone", 10)
    assert dispatch.tick(postgres, "quick").minted == 10
    still.wakes.set()
    slow.join(timeout=10)
    assert len(faults) == 1
    assert column(postgres, "SELECT dispatcher || count(*) FROM schedule_occurrences GROUP BY dispatcher") == [
        "quick10"
    ]
    assert (
        column(postgres, "SELECT count(*) FROM sync_runs")
        == column(postgres, "SELECT count(*) FROM task_outbox")
        == [10]
    )

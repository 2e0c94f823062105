"""Claims: what several dispatchers, relays and workers may take at once, and what none of them may."""

import threading
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tests.seed import column, due_jobs, execute, schedule, seed
from worker_app import sync
from worker_app.jobs import BatchEnd, BatchState, Message
from worker_app.store import batches, outbox, runs, schedules, sources
from worker_app.store.postgres import Postgres, Transaction
from worker_app.sync import dispatch, plan
from worker_app.sync.outbox import Relay

pytestmark = pytest.mark.integration


LOOKS = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT EXISTS%scheduled_jobs%'"
)
SQL = Path(str(runs.__file__)).parent / "sql"


def test_claim_locks_and_returns_no_more_than_its_limit_on_stale_statistics(postgres: Postgres) -> None:
    made = seed(postgres)
    execute(postgres, "ALTER TABLE scheduled_jobs SET (autovacuum_enabled = false)")
    due_jobs(postgres, made, 2)
    execute(postgres, "ANALYZE scheduled_jobs")  # the planner believes in two rows from now on
    due_jobs(postgres, made, 500)
    with postgres.transaction() as tx:
        _, due = schedules.claim_due(tx, 3)
        assert len(due) == 3
        with postgres.transaction() as other:
            _, rest = schedules.claim_due(other, 10_000)
    # a claim gives each organisation ten at least, so that it locks no more than these and returns three
    assert len(rest) >= 502 - 10
    assert not {job.id for job in due} & {job.id for job in rest}


def test_every_change_of_what_is_skipped_when_locked_takes_its_locks_in_a_materialized_step() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in SQL.glob("*.sql")}
    skipping = {name: content for name, content in texts.items() if "SKIP LOCKED" in content}
    assert len(skipping) > 5
    plain = {name for name, content in skipping.items() if "AS MATERIALIZED" not in content}
    assert plain == {"free_buffered_slots"}  # a query alone: it changes nothing, so its limit holds


def test_two_claims_at_once_never_share_a_job(postgres: Postgres) -> None:
    due_jobs(postgres, seed(postgres), 50)
    with postgres.transaction() as first, postgres.transaction() as second:
        _, one = schedules.claim_due(first, 30)
        _, two = schedules.claim_due(second, 30)
    assert not {job.id for job in one} & {job.id for job in two}
    assert len(one) + len(two) == 50


def test_job_that_is_edited_while_the_tick_passes_by_is_served_by_the_same_tick(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_jobs(postgres, seed(postgres), 5)
    has_passed, look, minted = threading.Event(), schedules.has_due, list[int]()

    def seen(tx: Transaction) -> bool:
        has_passed.set()
        return look(tx)

    monkeypatch.setattr(schedules, "has_due", seen)
    tick = threading.Thread(target=lambda: minted.append(dispatch.tick(postgres, "test").minted))
    with postgres.transaction() as editor:
        editor.execute(text("UPDATE scheduled_jobs SET max_jitter_seconds = 1"))
        tick.start()
        assert has_passed.wait(5)
    tick.join(timeout=10)
    assert minted == [5]


def test_claim_waits_for_nobody(postgres: Postgres) -> None:
    due_jobs(postgres, seed(postgres), 5)
    with postgres.transaction() as editor:
        editor.execute(text("UPDATE scheduled_jobs SET cron = '5 * * * *'"))
        assert dispatch.tick(postgres, "test").minted == 0
    assert dispatch.tick(postgres, "test").due == 5


def test_claimed_job_is_as_its_last_edit_left_it(postgres: Postgres) -> None:
    made = seed(postgres)
    job_id = schedule(postgres, made)
    with postgres.transaction() as tx:
        tx.execute(text("SELECT 1"))
        execute(postgres, "UPDATE scheduled_jobs SET cron = '7 * * * *' WHERE id = :id", id=job_id)
        _, (job,) = schedules.claim_due(tx, 10)
    assert job.cron == "7 * * * *"


def test_relay_misses_no_row_whose_number_is_lower_and_whose_commit_is_later(postgres: Postgres) -> None:
    made = seed(postgres)
    sent: list[str] = []

    def publish(messages: Sequence[Message]) -> None:
        sent.extend(message.dedupe for message in messages)

    add = text(
        "INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs) VALUES (:dedupe, :org, 't', 'sync', '{}')"
    )
    with postgres.transaction() as slow:
        slow.execute(add, {"dedupe": "lower", "org": made.org.id})
        with postgres.transaction() as quick:
            quick.execute(add, {"dedupe": "higher", "org": made.org.id})
        assert Relay(postgres, publish, list, 60).drain() == 1
    assert Relay(postgres, publish, list, 60).drain() == 1
    assert sent == ["higher", "lower"]


def test_relays_that_work_at_once_publish_each_message_once(postgres: Postgres) -> None:
    due_jobs(postgres, seed(postgres), 1000)
    assert dispatch.tick(postgres, "test").minted == 1000
    sent: list[str] = []

    def publish(messages: Sequence[Message]) -> None:
        sent.extend(message.dedupe for message in messages)

    relays = [threading.Thread(target=Relay(postgres, publish, list, 60).drain) for _ in range(4)]
    for relay in relays:
        relay.start()
    for relay in relays:
        relay.join(timeout=20)
    assert len(sent) == len(set(sent)) == 1000


def test_claim_of_messages_is_for_one_relay_at_a_time(postgres: Postgres) -> None:
    due_jobs(postgres, seed(postgres), 30)
    dispatch.tick(postgres, "test")
    with postgres.transaction() as one, postgres.transaction() as other:
        first = outbox.exchange(one, uuid4(), [])
        other.execute(text("SET LOCAL lock_timeout = '2s'"))  # a lock that does not exclude itself would wait
        second = outbox.exchange(other, uuid4(), [])
    assert (len(first), len(second)) == (25, 5)
    assert not {message.id for message in first} & {message.id for message in second}
    assert all(message.age_seconds >= 0 for message in first)
    claimed = "SELECT count(*) FROM task_outbox WHERE claimed_until - now() BETWEEN interval '20 s' AND interval '30 s'"
    assert column(postgres, claimed) == [30]  # a relay that was killed is followed after half a minute


@pytest.mark.timeout(60)
def test_forty_nine_small_organisations_are_served_within_five_claims_beside_a_big_one(postgres: Postgres) -> None:
    big = seed(postgres, "big")
    due_jobs(postgres, big, 5000)
    execute(
        postgres, "UPDATE scheduled_jobs SET next_run_at = next_run_at - interval '3 hours'"
    )  # all older than the others
    for number in range(49):
        due_jobs(postgres, seed(postgres, f"small{number}"), 20)
    claims = 0
    while column(
        postgres, "SELECT 1 FROM scheduled_jobs WHERE org_id <> :big AND next_run_at <= now() LIMIT 1", big=big.org.id
    ):
        done = dispatch.Tick()
        assert dispatch._claim_and_mint(postgres, "test", schedules.CLAIM_SIZE, done)
        claims += 1
    assert claims <= 5


@pytest.mark.timeout(60)
def test_cap_holds_with_four_claimers_and_no_batch_waits_for_ever(postgres: Postgres) -> None:
    made, cap = seed(postgres), 3
    with postgres.transaction() as tx:
        ids = [made.source.id] + [
            sources.add_source(tx, made.org.id, "git", "localhost", f"/{n}", f"/{n}").id for n in range(39)
        ]
    schedule(postgres, made, source_ids=tuple(ids))
    dispatch.tick(postgres, "test")
    (run_id,) = column(postgres, "SELECT id FROM sync_runs")
    assert isinstance(run_id, UUID)
    plan.run(postgres, run_id, lease_seconds=60, cap=cap, max_batches=100)
    most: list[object] = []
    deadline = threading.Event()

    def work() -> None:
        while not deadline.is_set():
            waiting = column(postgres, "SELECT id FROM sync_batches WHERE state = 'queued' ORDER BY random() LIMIT 1")
            if not waiting:
                if not column(postgres, "SELECT 1 FROM sync_batches WHERE state NOT IN ('succeeded') LIMIT 1"):
                    return
                continue
            (batch_id,) = waiting
            assert isinstance(batch_id, UUID)
            with postgres.transaction() as tx:
                taken = batches.claim(tx, batch_id, uuid4(), lease_seconds=60, cap=cap)
            most.extend(column(postgres, "SELECT count(*) FROM sync_batches WHERE state = 'running'"))
            if taken is not None:
                with postgres.transaction() as tx:
                    end = BatchEnd(BatchState.SUCCEEDED, is_complete=True)
                    assert batches.close(tx, batch_id, taken.owner, end)

    claimers = [threading.Thread(target=work) for _ in range(4)]
    for claimer in claimers:
        claimer.start()
    for claimer in claimers:
        claimer.join(timeout=40)
    deadline.set()
    assert column(postgres, "SELECT count(*) FROM sync_batches WHERE state = 'succeeded'") == [40]
    assert max(int(str(count)) for count in most) <= cap
    assert column(postgres, "SELECT state || batches_done FROM sync_runs WHERE kind = 'sync'") == ["finishing40"]


def test_nothing_of_sync_or_store_asks_the_host_for_the_time_of_day() -> None:
    folders = [Path(str(sync.__file__)).parent, Path(str(runs.__file__)).parent]
    asked = [
        f"{path.name}: {line.strip()}"
        for folder in folders
        for path in folder.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "datetime.now(" in line or "time.time(" in line or "date.today(" in line or "utcnow(" in line
    ]
    assert asked == []


def test_interrupted_dispatcher_commits_or_leaves_nothing(postgres: Postgres) -> None:
    made = seed(postgres)
    schedule(postgres, made)

    def serve_and_stop() -> None:
        with postgres.transaction() as tx:
            now, due = schedules.claim_due(tx, 10)
            assert now is not None
            (decided,) = (dispatch.decide(job, now) for job in due)
            schedules.mint(tx, decided.slots, [(decided.job_id, decided.next_at)], "test")
            raise RuntimeError("stopped before its commit")

    with pytest.raises(RuntimeError, match="stopped"):
        serve_and_stop()
    assert column(postgres, "SELECT count(*) FROM sync_runs") == [0]
    assert dispatch.tick(postgres, "other").minted == 1

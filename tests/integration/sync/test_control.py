"""Cancel and retry: what people ask of a run, whatever it is doing."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID, uuid4

import pytest

from tests.seed import NOON, Seed, column, commit, execute, manual_run, schedule, seed
from worker_app import errors, jobs
from worker_app.jobs import BatchState
from worker_app.records import Cursor, Page, Source, Walk
from worker_app.store import batches, runs, sources
from worker_app.store.postgres import Postgres
from worker_app.sync import batch, control, dispatch, finish, plan
from worker_app.sync.batch import Bounds

pytestmark = pytest.mark.integration
CAP = 2
BOUNDS = Bounds(lease_seconds=60, deadline_seconds=60, cap=CAP)


class Pages:
    """A reader of three pages; calls `between` after the first."""

    def __init__(self, between: object = None, fault: Exception | None = None) -> None:
        self.between = between
        self.fault = fault
        self.read_pages = 0

    def begin(self, source: Source, cursor: Cursor, now: object) -> Walk:
        return Walk(started_at=NOON, since={}, until={}, total=3, is_full=True, state="active", incomplete_reason=None)

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        for number in range(int(position or 0), 3):
            if self.fault is not None:
                raise self.fault
            self.read_pages += 1
            following = str(number + 1) if number < 2 else None
            yield Page(records=(commit(f"{number:040d}"),), next=following)
            if number == 0 and callable(self.between):
                self.between()


def planned(postgres: Postgres, made: Seed, sources_count: int = 4) -> UUID:
    """A planned run of a scheduled job over several sources; the cap lets two batches in."""
    with postgres.transaction() as tx:
        every = [made.source.id] + [
            sources.add_source(tx, made.org.id, "git", "localhost", f"/srv/{n}", f"/srv/{n}").id
            for n in range(sources_count - 1)
        ]
    schedule(postgres, made, source_ids=tuple(every))
    dispatch.tick(postgres, "test")
    (run_id,) = column(postgres, "SELECT id FROM sync_runs")
    assert isinstance(run_id, UUID)
    plan.run(postgres, run_id, lease_seconds=60, cap=CAP, max_batches=100)
    return run_id


def states(postgres: Postgres) -> list[object]:
    return column(postgres, "SELECT state FROM sync_batches ORDER BY state")


def run_one(postgres: Postgres, reader: Pages) -> str:
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches WHERE state = 'queued' ORDER BY id LIMIT 1")
    assert isinstance(batch_id, UUID)
    return batch.run(postgres, batch_id, reader_of=lambda *_: reader, bounds=BOUNDS, is_draining=lambda: False)


def test_queued_run_is_cancelled_at_once_and_its_message_does_nothing(postgres: Postgres) -> None:
    run_id = manual_run(postgres, seed(postgres))
    assert control.cancel(postgres, run_id, cap=CAP).state == "cancelled"
    assert plan.run(postgres, run_id, lease_seconds=60, cap=CAP, max_batches=10) is None
    assert column(postgres, "SELECT finished_at IS NOT NULL FROM sync_runs") == [True]


def test_running_run_closes_what_has_not_begun_and_what_runs_ends_after_its_page(postgres: Postgres) -> None:
    run_id = planned(postgres, seed(postgres))

    def cancel() -> None:
        done = control.cancel(postgres, run_id, cap=CAP)
        assert (done.state, done.closed) == ("running", 3)

    reader = Pages(between=cancel)
    assert run_one(postgres, reader) == "cancelled"
    assert reader.read_pages == 2  # the page that was being read when somebody asked is stored
    assert states(postgres) == ["cancelled"] * 4
    assert column(postgres, "SELECT records FROM sync_batches ORDER BY records DESC LIMIT 1") == [2]
    assert finish.run(postgres, run_id, lease_seconds=60) == "cancelled"
    assert column(postgres, "SELECT error_class FROM sync_runs WHERE id = :id", id=run_id) == ["cancelled"]


def test_planning_run_is_cancelled_by_its_planner(postgres: Postgres) -> None:
    run_id = manual_run(postgres, seed(postgres))
    with postgres.transaction() as tx:
        owner = uuid4()
        claimed = runs.claim(tx, run_id, owner, "plan", 60)
    assert claimed is not None
    assert control.cancel(postgres, run_id, cap=CAP).state == "planning"
    with postgres.transaction() as tx:
        assert runs.plan(tx, claimed, owner, [], CAP) == 0
    assert column(postgres, "SELECT state FROM sync_runs") == ["cancelled"]


def test_run_that_is_over_cannot_be_cancelled(postgres: Postgres) -> None:
    run_id = manual_run(postgres, seed(postgres))
    execute(postgres, "UPDATE sync_runs SET state = 'succeeded', finished_at = now()")
    with pytest.raises(errors.Conflict, match="succeeded"):
        control.cancel(postgres, run_id, cap=CAP)


def test_cancelled_run_lets_the_batches_of_others_in(postgres: Postgres) -> None:
    made = seed(postgres)
    run_id = planned(postgres, made)
    with postgres.transaction() as tx:
        other = sources.add_source(tx, made.org.id, "git", "localhost", "/srv/other", "/srv/other")
        waiting = runs.add_manual(tx, made.org.id, "git", other.id, uuid4())
    plan.run(postgres, waiting, lease_seconds=60, cap=CAP, max_batches=10)
    query = "SELECT state FROM sync_batches WHERE run_id = :id"
    assert column(postgres, query, id=waiting) == ["planned"]
    control.cancel(postgres, run_id, cap=CAP)
    assert column(postgres, query, id=waiting) == ["queued"]


def test_newer_slot_ends_the_active_run_where_the_job_says_so(postgres: Postgres) -> None:
    made = seed(postgres)
    job_id = schedule(postgres, made, overlap="cancel_other")
    dispatch.tick(postgres, "test")
    execute(postgres, "DELETE FROM task_outbox")
    execute(postgres, "UPDATE schedule_occurrences SET scheduled_for = scheduled_for - interval '1 day'")
    execute(postgres, "UPDATE sync_runs SET scheduled_for = scheduled_for - interval '1 day', id = gen_random_uuid()")
    (first,) = column(postgres, "SELECT id FROM sync_runs")
    assert isinstance(first, UUID)
    plan.run(postgres, first, lease_seconds=60, cap=CAP, max_batches=10)
    execute(postgres, "UPDATE scheduled_jobs SET next_run_at = next_run_at - interval '5 minutes'")
    assert dispatch.tick(postgres, "test").written.cancelled == 1
    assert run_one(postgres, Pages()) == "cancelled"
    assert finish.run(postgres, first, lease_seconds=60) == "cancelled"
    query = "SELECT id FROM sync_runs WHERE job_id = :id AND state = 'queued'"
    slots = column(postgres, query.replace("id", "scheduled_for", 1), id=job_id)
    assert column(postgres, query, id=job_id) == [
        jobs.run_id(job_id, slot) for slot in slots if isinstance(slot, datetime)
    ]
    assert len(slots) == 1
    assert column(postgres, "SELECT buffered_slot FROM scheduled_jobs") == [None]


def test_retry_opens_failed_batches_alone_and_the_run_ends_again_with_metrics_of_its_own(postgres: Postgres) -> None:
    run_id = planned(postgres, seed(postgres), sources_count=2)
    assert run_one(postgres, Pages()) == "succeeded"
    assert run_one(postgres, Pages(fault=errors.SourceUnavailable("no", state="inaccessible"))) == "failed"
    assert finish.run(postgres, run_id, lease_seconds=60) == "partial"
    assert control.retry(postgres, run_id, cap=CAP) == 1
    assert column(
        postgres, "SELECT state || batches_done || batches_failed || retries FROM sync_runs WHERE id = :id", id=run_id
    ) == ["running101"]
    assert run_one(postgres, Pages()) == "succeeded"
    assert finish.run(postgres, run_id, lease_seconds=60) == "succeeded"
    assert column(postgres, "SELECT count(*) FROM sync_runs WHERE kind = 'metrics'") == [2]
    assert column(postgres, "SELECT error FROM sync_runs WHERE id = :id", id=run_id) == [None]


def test_retry_of_a_run_that_has_no_batches_begins_anew(postgres: Postgres) -> None:
    run_id = manual_run(postgres, seed(postgres))
    execute(postgres, "DELETE FROM task_outbox")
    execute(postgres, "UPDATE sync_runs SET state = 'failed', attempt = 5, finished_at = now(), error = 'x'")
    assert control.retry(postgres, run_id, cap=CAP) == 0
    assert column(postgres, "SELECT dedupe FROM task_outbox") == [f"run/{run_id}/dispatch/2"]
    assert plan.run(postgres, run_id, lease_seconds=60, cap=CAP, max_batches=10) == 1


@pytest.mark.parametrize("state", ["queued", "running", "succeeded", "cancelled"])
def test_run_of_which_nothing_failed_is_not_retried(postgres: Postgres, state: str) -> None:
    run_id = manual_run(postgres, seed(postgres))
    execute(postgres, "UPDATE sync_runs SET state = :state", state=state)
    with pytest.raises(errors.Conflict, match=state):
        control.retry(postgres, run_id, cap=CAP)


def test_retry_beside_an_active_run_of_the_same_source_names_it(postgres: Postgres) -> None:
    made = seed(postgres)
    failed = manual_run(postgres, made)
    execute(postgres, "UPDATE sync_runs SET state = 'failed', finished_at = now()")
    active = manual_run(postgres, made)
    with pytest.raises(errors.Conflict, match=str(active)):
        control.retry(postgres, failed, cap=CAP)


def test_lost_run_goes_on_with_the_batches_that_its_deadline_closed(postgres: Postgres) -> None:
    run_id = planned(postgres, seed(postgres), sources_count=3)
    execute(postgres, "UPDATE sync_runs SET state = 'lost', batches_failed = 3, finished_at = now()")
    execute(postgres, "UPDATE sync_batches SET state = 'cancelled', finished_at = now()")
    assert control.retry(postgres, run_id, cap=CAP) == 3
    assert states(postgres) == ["planned", "queued", "queued"]


def test_batch_of_a_cancelled_run_is_closed_by_whoever_takes_it(postgres: Postgres) -> None:
    run_id = planned(postgres, seed(postgres), sources_count=1)
    execute(postgres, "UPDATE sync_runs SET cancel_requested_at = now()")
    reader = Pages()
    assert run_one(postgres, reader) == "cancelled"
    assert reader.read_pages == 0
    assert finish.run(postgres, run_id, lease_seconds=60) == "cancelled"


def test_cancel_of_a_metrics_run_takes_it_from_its_worker(postgres: Postgres) -> None:
    made, run_id = seed(postgres), uuid4()
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, kind, trigger, state, lease_owner, lease_until, deadline_at) VALUES "
        "(:id, :org, 'metrics', 'schedule', 'running', gen_random_uuid(), now() + interval '1 minute', now() + interval '1 day')",
        id=run_id,
        org=made.org.id,
    )
    assert control.cancel(postgres, run_id, cap=CAP).state == "cancelled"
    assert column(postgres, "SELECT lease_owner FROM sync_runs") == [None]


def test_running_batch_is_not_given_to_another_by_a_cancel(postgres: Postgres) -> None:
    run_id = planned(postgres, seed(postgres), sources_count=1)
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches")
    assert isinstance(batch_id, UUID)
    with postgres.transaction() as tx:
        claimed = batches.claim(tx, batch_id, uuid4(), lease_seconds=60, cap=CAP)
    assert claimed is not None
    done = control.cancel(postgres, run_id, cap=CAP)
    assert (done.state, done.closed) == ("running", 0)
    assert states(postgres) == [BatchState.RUNNING]


def test_row_that_postgres_has_forgotten_is_told_from_one_that_is_closed(postgres: Postgres) -> None:
    run_id = planned(postgres, seed(postgres), sources_count=1)
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches")
    assert isinstance(batch_id, UUID)
    assert control.is_known(postgres, run_id)
    assert control.is_known(postgres, batch_id)
    assert not control.is_known(postgres, uuid4())


def test_old_run_is_found_by_the_beginning_of_its_id_among_thousands(postgres: Postgres) -> None:
    old = manual_run(postgres, seed(postgres))
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, kind, trigger, deadline_at) "
        "SELECT gen_random_uuid(), org_id, 'metrics', 'manual', now() FROM sync_runs, generate_series(1, 3000)",
    )
    with postgres.transaction() as tx:
        assert runs.beginning_with(tx, str(old)) == runs.beginning_with(tx, str(old)[:18].upper()) == [old]
        assert len(runs.beginning_with(tx, "")) == 0
        assert len(runs.beginning_with(tx, "a")) == 10
        assert runs.beginning_with(tx, "none") == []


def test_idempotency_key_of_another_source_is_refused(postgres: Postgres) -> None:
    made = seed(postgres)
    with postgres.transaction() as tx:
        other = sources.add_source(tx, made.org.id, "git", "localhost", "/srv/other", "/srv/other")
        key = jobs.keyed_run_id(made.org.id, "k")
        assert runs.add_manual(tx, made.org.id, "git", made.source.id, key) == key
        assert runs.add_manual(tx, made.org.id, "git", made.source.id, key) == key
        with pytest.raises(errors.Conflict, match="another source"):
            runs.add_manual(tx, made.org.id, "git", other.id, key)


@pytest.mark.parametrize("change", ["DELETE FROM scheduled_jobs", "UPDATE scheduled_jobs SET params = '{}'"])
def test_run_reads_what_its_schedule_named_when_its_slot_was_served(postgres: Postgres, change: str) -> None:
    made = seed(postgres)
    with postgres.transaction() as tx:
        for number in range(5):
            sources.add_source(tx, made.org.id, "git", "localhost", f"/srv/{number}", f"/srv/{number}")
    schedule(postgres, made)
    dispatch.tick(postgres, "test")
    execute(postgres, change)
    (run_id,) = column(postgres, "SELECT id FROM sync_runs")
    assert isinstance(run_id, UUID)
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10)
    assert column(postgres, "SELECT source_id FROM sync_batches") == [made.source.id]


def test_run_that_nobody_can_tell_the_sources_of_fails_and_reads_none(postgres: Postgres) -> None:
    schedule(postgres, seed(postgres))
    dispatch.tick(postgres, "test")
    execute(postgres, "UPDATE sync_runs SET params = NULL")  # as a program before it wrote them
    execute(postgres, "DELETE FROM scheduled_jobs")
    (run_id,) = column(postgres, "SELECT id FROM sync_runs")
    assert isinstance(run_id, UUID)
    assert plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10) == 0
    assert column(postgres, "SELECT state FROM sync_runs") == ["failed"]
    assert column(postgres, "SELECT count(*) FROM sync_batches") == [0]

from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from tests.seed import NOON, Seed, column, commit, execute, seed
from worker_app.metrics import daily
from worker_app.records import Commit, Walk
from worker_app.store import metrics, records, sources
from worker_app.store.metrics import MetricRow, MetricSink
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
DAY = date(2026, 6, 1)


def store(postgres: Postgres, made: Seed, *commits: Commit) -> None:
    with postgres.transaction() as tx:
        records.write(tx, made.source, commits, NOON)


def compute(postgres: Postgres, sink: MetricSink, made: Seed) -> int | None:
    run_id = uuid4()
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, kind, trigger, deadline_at) "
        "VALUES (:id, :org, 'metrics', 'manual', now() + interval '1 h')",
        id=run_id,
        org=made.org.id,
    )
    return daily.run(postgres, sink, run_id, lease_seconds=60)


def read(
    postgres: Postgres, sink: MetricSink, org_id: UUID, metric: str = "commits", grain: str = "repo"
) -> list[MetricRow]:
    with postgres.transaction() as tx:
        return sink.read(tx, org_id, metrics=[metric], grain=grain)


def test_touched_days_are_computed_once(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    store(postgres, made, commit("a"), commit("b"), commit("c", NOON + timedelta(days=1)))
    assert compute(postgres, sink, made) == 2
    assert [(row.day, row.value, row.n) for row in read(postgres, sink, made.org.id)] == [
        (DAY, 2, 2),
        (date(2026, 6, 2), 1, 1),
    ]
    assert [row.value for row in read(postgres, sink, made.org.id, grain="org")] == [2, 1]
    assert compute(postgres, sink, made) == 0
    assert column(postgres, "SELECT DISTINCT state FROM sync_runs") == ["succeeded"]


def test_day_begins_at_midnight_of_the_organisation(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres, tz="America/New_York")
    store(
        postgres,
        made,
        commit("a", datetime(2026, 6, 2, 3, 59, tzinfo=UTC)),
        commit("b", datetime(2026, 6, 2, 4, 0, tzinfo=UTC)),
    )
    compute(postgres, sink, made)
    assert [row.day for row in read(postgres, sink, made.org.id)] == [DAY, date(2026, 6, 2)]


def test_day_whose_commits_vanished_is_emptied_not_left_and_not_zero(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    store(postgres, made, commit("a"))
    compute(postgres, sink, made)
    with postgres.transaction() as tx:
        assert records.mark_unreachable(tx, made.source, ext_ids=["a"]) == 1
    assert compute(postgres, sink, made) == 1
    assert [(row.value, row.num, row.den, row.n) for row in read(postgres, sink, made.org.id)] == [(None, 0, 0, 0)]


def test_page_that_arrives_during_a_computation_is_computed_by_the_next(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    store(postgres, made, commit("a"))
    with postgres.transaction() as tx:
        seen = metrics.touched_days(tx, made.org.id, 10)
    store(postgres, made, commit("b"))
    with postgres.transaction() as tx:
        sink.replace(tx, made.org.id, ["commits"], [item.day for item in seen], [])
        metrics.clear_touched(tx, made.org.id, seen)
    assert column(postgres, "SELECT count(*) FROM touched_days") == [1]
    assert compute(postgres, sink, made) == 1
    assert read(postgres, sink, made.org.id)[0].value == 2


def test_older_walk_does_not_overwrite_a_newer_one(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    with postgres.transaction() as tx:
        records.write(tx, made.source, [commit("a", additions=5)], NOON)
        records.write(tx, made.source, [commit("a", additions=9)], NOON - timedelta(hours=1))
    assert column(postgres, "SELECT additions FROM commits") == [5]


def test_coverage_says_whether_the_day_was_read_to_its_end(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    store(postgres, made, commit("a"), commit("b", NOON + timedelta(days=1)))
    with postgres.transaction() as tx:
        sources.move_cursor(tx, made.org.id, made.source.id, "commits", Walk(started_at=NOON + timedelta(days=1)))
    compute(postgres, sink, made)
    rows = read(postgres, sink, made.org.id)
    assert [row.coverage for row in rows] == [1.0, 0.0]
    assert {row.input_watermark for row in rows} == {NOON + timedelta(days=1)}


def test_day_that_a_later_walk_covers_is_computed_anew(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    store(postgres, made, commit("a"), commit("b", NOON + timedelta(days=1)))
    for walk in (NOON + timedelta(hours=1), NOON + timedelta(days=1), NOON + timedelta(days=2)):
        with postgres.transaction() as tx:
            sources.move_cursor(tx, made.org.id, made.source.id, "commits", Walk(started_at=walk))
        compute(postgres, sink, made)
    assert [row.coverage for row in read(postgres, sink, made.org.id)] == [1.0, 1.0]
    with postgres.transaction() as tx:
        sources.move_cursor(tx, made.org.id, made.source.id, "commits", Walk(started_at=NOON + timedelta(days=3)))
    assert compute(postgres, sink, made) == 0


def test_first_walk_of_a_source_covers_the_days_that_were_computed_before_its_end(
    postgres: Postgres, sink: MetricSink
) -> None:
    made = seed(postgres)
    with postgres.transaction() as tx:
        other = sources.add_source(tx, made.org.id, "git", "localhost", "/srv/other", "/srv/other")
    store(postgres, made, commit("a"))
    for source in (made.source, other):
        with postgres.transaction() as tx:
            sources.move_cursor(tx, made.org.id, source.id, "commits", Walk(started_at=NOON + timedelta(days=1)))
        compute(postgres, sink, made)
    assert [row.coverage for row in read(postgres, sink, made.org.id, grain="org")] == [1.0]


def test_walk_that_ends_during_a_computation_lets_the_days_be_computed_again(
    postgres: Postgres, sink: MetricSink
) -> None:
    made = seed(postgres)
    store(postgres, made, commit("a"))
    with postgres.transaction() as tx:
        seen = metrics.touched_days(tx, made.org.id, 10)
    with postgres.transaction() as tx:
        sources.move_cursor(tx, made.org.id, made.source.id, "commits", Walk(started_at=NOON + timedelta(days=1)))
    with postgres.transaction() as tx:
        sink.replace(tx, made.org.id, ["commits"], [item.day for item in seen], [])
        metrics.clear_touched(tx, made.org.id, seen)
    assert compute(postgres, sink, made) == 1
    assert [row.coverage for row in read(postgres, sink, made.org.id)] == [1.0]


def test_second_message_of_a_metrics_run_does_nothing(postgres: Postgres, sink: MetricSink) -> None:
    seed(postgres)
    assert daily.run(postgres, sink, uuid4(), lease_seconds=60) is None


def test_run_that_finds_another_at_work_on_its_organisation_waits_without_a_slot_and_spends_no_attempt(
    postgres: Postgres, sink: MetricSink
) -> None:
    made = seed(postgres)
    run_id = uuid4()
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, kind, trigger, wakes, deadline_at) "
        "VALUES (:id, :org, 'metrics', 'manual', 1, now() + interval '1 day')",
        id=run_id,
        org=made.org.id,
    )
    with postgres.transaction() as busy:
        assert metrics.lock_org(busy, made.org.id)
        assert daily.run(postgres, sink, run_id, lease_seconds=60) == 0
    assert column(postgres, "SELECT state || attempt || wakes FROM sync_runs") == ["queued02"]
    assert column(postgres, "SELECT dedupe FROM task_outbox WHERE available_at > now() + interval '5 seconds'") == [
        f"run/{run_id}/dispatch/2"
    ]
    assert daily.run(postgres, sink, run_id, lease_seconds=60) == 0
    assert column(postgres, "SELECT state FROM sync_runs") == ["succeeded"]

import json
import threading
from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tests.seed import NOON, Seed, column, commit, execute, seed
from worker_app import errors, jobs
from worker_app.jobs import RunState
from worker_app.metrics import daily
from worker_app.records import Walk
from worker_app.reports import render
from worker_app.store import records, reports, runs, sources
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics
from worker_app.store.reports import Output
from worker_app.sync import dispatch, orders

pytestmark = pytest.mark.integration
SLOT = datetime(2026, 6, 8, 6, tzinfo=UTC)  # a Monday: the week before is 1 to 7 June
HOSTILE = "/srv/a|b\n| `x` <img src=x>"


def report_job(postgres: Postgres, made: Seed, params: object, due: datetime = SLOT) -> UUID:
    job_id = uuid4()
    execute(
        postgres,
        "INSERT INTO scheduled_jobs (id, org_id, kind, params, cron_source, cron, next_run_at) "
        "VALUES (:id, :org, 'report', CAST(:params AS jsonb), '0 6 * * 1', '0 6 * * 1', :due)",
        id=job_id,
        org=made.org.id,
        params=json.dumps(params),
        due=due,
    )
    return job_id


def report_run(postgres: Postgres, made: Seed, params: object = None, slot: datetime = SLOT) -> UUID:
    """A queued run of a new schedule, as the tick mints it."""
    job_id = report_job(postgres, made, params or {"template": "sync-health", "period_days": 7})
    run_id = jobs.run_id(job_id, slot)
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, job_id, scheduled_for, kind, trigger, deadline_at) "
        "VALUES (:id, :org, :job, :slot, 'report', 'schedule', now() + interval '1 h')",
        id=run_id,
        org=made.org.id,
        job=job_id,
        slot=slot,
    )
    return run_id


def batch(postgres: Postgres, made: Seed, at: datetime, state: str, error_class: str | None = None) -> None:
    """A closed sync run with one batch in `state`."""
    run_id = uuid4()
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, kind, provider, trigger, deadline_at, state, created_at) "
        "VALUES (:id, :org, 'sync', 'git', 'manual', now(), :state, :at)",
        id=run_id,
        org=made.org.id,
        state=state,
        at=at,
    )
    execute(
        postgres,
        "INSERT INTO sync_batches (id, run_id, org_id, provider, source_id, dataset, queue, state, complete, error_class, "
        "finished_at) VALUES (gen_random_uuid(), :run, :org, 'git', :source, 'commits', 'sync.git', :state, "
        ":state = 'succeeded', :error_class, :at)",
        run=run_id,
        org=made.org.id,
        source=made.source.id,
        state=state,
        error_class=error_class,
        at=at,
    )


def read_up_to(postgres: Postgres, made: Seed, at: datetime) -> None:
    with postgres.transaction() as tx:
        sources.move_cursor(tx, made.org.id, made.source.id, "commits", Walk(started_at=at))


def stored(postgres: Postgres) -> Output:
    with postgres.transaction() as tx:
        (view,) = reports.views(tx)
        return reports.output(tx, view)


def number(output: Output, name: str) -> dict[str, object]:
    (found,) = [item for item in output.body["numbers"] if item["name"] == name]
    return dict(found)


def test_slot_of_a_report_schedule_is_minted_by_the_tick_and_becomes_one_report(postgres: Postgres) -> None:
    made = seed(postgres)
    job_id = report_job(
        postgres, made, {"template": "sync-health", "period_days": 3}, postgres.now() - timedelta(days=8)
    )
    dispatch.tick(postgres, "test")
    assert column(postgres, "SELECT task || ' ' || queue FROM task_outbox") == ["render_report reports"]
    (run_id,) = column(postgres, "SELECT id FROM sync_runs WHERE job_id = :job", job=job_id)
    assert isinstance(run_id, UUID)
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) == RunState.SUCCEEDED
    output = stored(postgres)
    assert (output.id, output.scheduled_job_id, output.template) == (render.output_id(run_id), job_id, "sync-health")
    assert output.period_to - output.period_from == timedelta(days=2)
    (slot,) = column(postgres, "SELECT scheduled_for FROM sync_runs")
    assert isinstance(slot, datetime)
    assert output.period_to == slot.date() - timedelta(days=1)
    assert column(postgres, "SELECT state FROM sync_runs") == ["succeeded"]


def test_schedule_that_a_person_adds_is_rendered_when_its_slot_comes(postgres: Postgres) -> None:
    made = seed(postgres)
    added = orders.add_report(postgres, made.org, "sync-health", cron_line="0 6 * * 1", tz="UTC", least_seconds=300)
    assert render.check_params(column(postgres, "SELECT params FROM scheduled_jobs")[0]) == ("sync-health", 7)
    execute(postgres, "UPDATE scheduled_jobs SET next_run_at = next_run_at - interval '7 days'")
    assert dispatch.tick(postgres, "test").minted == 1
    (run_id,) = column(postgres, "SELECT id FROM sync_runs WHERE job_id = :id", id=added.id)
    assert isinstance(run_id, UUID)
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) == RunState.SUCCEEDED
    assert stored(postgres).template == "sync-health"


def test_period_is_the_days_before_the_slot_in_the_organisations_zone(postgres: Postgres) -> None:
    made = seed(postgres, tz="America/New_York")
    render.run(
        postgres,
        PostgresMetrics(),
        report_run(postgres, made, slot=datetime(2026, 6, 8, 2, tzinfo=UTC)),
        lease_seconds=60,
    )
    output = stored(postgres)
    assert (output.period_from, output.period_to) == (date(2026, 5, 31), date(2026, 6, 6))
    assert output.body["as_of"] == "2026-06-07T04:00:00.000Z"


def test_second_message_of_a_report_run_does_nothing(postgres: Postgres) -> None:
    run_id = report_run(postgres, seed(postgres))
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) == RunState.SUCCEEDED
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) is None
    assert render.run(postgres, PostgresMetrics(), uuid4(), lease_seconds=60) is None


def test_run_that_is_rendered_twice_leaves_one_report_with_the_same_bytes(postgres: Postgres) -> None:
    made = seed(postgres)
    read_up_to(postgres, made, SLOT)
    batch(postgres, made, NOON, "failed", "SourceUnavailable")
    run_id = report_run(postgres, made)
    render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60)
    first = stored(postgres)
    execute(
        postgres,
        "UPDATE sync_runs SET state = 'running', lease_until = now() - interval '1 s' WHERE id = :id",
        id=run_id,
    )
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) == RunState.SUCCEEDED
    second = stored(postgres)
    assert (second.body_markdown, second.body) == (first.body_markdown, first.body)
    assert second.rendered_at > first.rendered_at


def test_two_messages_at_once_render_once(postgres: Postgres) -> None:
    run_id = report_run(postgres, seed(postgres))
    barrier, ends = threading.Barrier(2), []

    def deliver() -> None:
        barrier.wait()
        ends.append(render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60))

    threads = [threading.Thread(target=deliver) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends, key=str) == [None, RunState.SUCCEEDED]


def test_worker_that_lost_its_run_writes_no_report(postgres: Postgres) -> None:
    run_id = report_run(postgres, seed(postgres))
    execute(
        postgres,
        "CREATE FUNCTION take_over() RETURNS trigger AS $$ BEGIN UPDATE sync_runs SET lease_owner = gen_random_uuid() "
        "WHERE kind = 'report'; RETURN NEW; END $$ LANGUAGE plpgsql; "
        "CREATE TRIGGER taken BEFORE INSERT ON report_outputs FOR EACH ROW EXECUTE FUNCTION take_over()",
    )
    with pytest.raises(errors.LeaseLost):
        render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60)
    assert column(postgres, "SELECT count(*) FROM report_outputs") == [0]


@pytest.mark.parametrize(
    ("params", "error"),
    [
        (
            {"template": "nonsense"},
            "params.template is 'nonsense': there is sync-health; remove the schedule and add it again",
        ),
        (
            {"template": "sync-health", "period_days": "seven"},
            "params.period_days is 'seven': give whole days from 1 to 366; remove the schedule and add it again",
        ),
    ],
)
def test_bad_order_fails_the_run_once_with_its_remedy(postgres: Postgres, params: object, error: str) -> None:
    run_id = report_run(postgres, seed(postgres), params)
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) == RunState.FAILED
    with postgres.transaction() as tx:
        (view,) = runs.views(tx, run_id)
    assert (view.state, view.error) == ("failed", error)
    assert view.finished_at is not None
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) is None


def test_run_whose_schedule_was_removed_fails_with_a_remedy(postgres: Postgres) -> None:
    run_id = report_run(postgres, seed(postgres))
    execute(postgres, "DELETE FROM scheduled_jobs")
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) == RunState.FAILED
    (error,) = column(postgres, "SELECT error FROM sync_runs WHERE id = :id", id=run_id)
    assert "dev-hops reports run" in str(error)


def test_organisation_without_sources_gets_a_sensible_report(postgres: Postgres) -> None:
    made = seed(postgres)
    run_id = report_run(postgres, made)
    with postgres.transaction() as tx:
        sources.remove_source(tx, made.source)
    assert render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) == RunState.SUCCEEDED
    output = stored(postgres)
    assert output.body["sources_count"] == 0
    assert number(output, "days_read")["value"] is None
    assert output.input_watermark is None
    assert "dev-hops sources add ADDRESS" in output.body_markdown


def test_days_are_judged_by_their_metric_rows_and_quiet_ones_by_the_cursors(postgres: Postgres) -> None:
    made = seed(postgres)
    with postgres.transaction() as tx:
        records.write(tx, made.source, [commit("a"), commit("b", NOON + timedelta(days=5))], NOON)
    read_up_to(postgres, made, datetime(2026, 6, 6, 1, tzinfo=UTC))
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, kind, trigger, deadline_at, created_at) "
        "VALUES (:id, :org, 'metrics', 'manual', now() + interval '1 h', :at)",
        id=(metrics_run := uuid4()),
        org=made.org.id,
        at=NOON,
    )
    daily.run(postgres, PostgresMetrics(), metrics_run, lease_seconds=60)
    render.run(postgres, PostgresMetrics(), report_run(postgres, made), lease_seconds=60)
    output = stored(postgres)
    read = number(output, "days_read")
    assert (read["num"], read["den"], read["coverage"]) == (5, 7, 0.714286)
    assert [(line["day"], line["definition_v"], line["missing"]) for line in output.body["days_below"]] == [
        ("2026-06-06", 1, 1),
        ("2026-06-07", None, 1),
    ]
    assert output.body["missing_sources"][0]["missing_from"] == "2026-06-06"
    assert output.input_watermark == datetime(2026, 6, 6, 1, tzinfo=UTC)
    assert output.body["runs"] == [{"kind": "metrics", "state": "succeeded", "n": 1}]


def test_coverage_of_19_of_20_that_the_store_keeps_as_a_short_float_is_enough(postgres: Postgres) -> None:
    made = seed(postgres)
    read_up_to(postgres, made, SLOT)
    execute(
        postgres,
        "INSERT INTO metric_daily (org_id, metric, grain, grain_id, day, definition_v, num, den, n, value, coverage, "
        "computed_at) VALUES (:org, 'commits', 'org', CAST(:org AS text), '2026-06-03', 1, 1, 1, 1, 1, 0.95, now())",
        org=made.org.id,
    )
    render.run(postgres, PostgresMetrics(), report_run(postgres, made), lease_seconds=60)
    assert stored(postgres).body["days_below"] == []


def test_only_runs_of_the_period_and_of_the_organisation_count(postgres: Postgres) -> None:
    made, other = seed(postgres), seed(postgres, "other", path="/srv/other")
    read_up_to(postgres, made, SLOT)
    for at, state, error_class in [
        (datetime(2026, 5, 31, 23, 59, 59, tzinfo=UTC), "failed", "TransientError"),
        (datetime(2026, 6, 1, tzinfo=UTC), "failed", "SourceUnavailable"),
        (datetime(2026, 6, 7, 23, 59, 59, tzinfo=UTC), "succeeded", None),
        (datetime(2026, 6, 8, tzinfo=UTC), "failed", "TransientError"),
    ]:
        batch(postgres, made, at, state, error_class)
    batch(postgres, other, NOON, "failed", "TransientError")
    render.run(postgres, PostgresMetrics(), report_run(postgres, made), lease_seconds=60)
    output = stored(postgres)
    failed = number(output, "batches_failed")
    assert (failed["num"], failed["den"], failed["previous"], failed["trend"]) == (1, 2, 1.0, "down")
    assert output.body["errors"] == [{"state": "failed", "error_class": "SourceUnavailable", "n": 1}]
    assert output.body["sources"][0]["ended"] == "succeeded"


def test_source_that_was_never_read_shows_the_dataset_of_its_failed_batch(postgres: Postgres) -> None:
    made = seed(postgres)
    batch(postgres, made, NOON, "failed", "SourceUnavailable")
    with postgres.transaction() as tx:
        sources.set_state(tx, made.org.id, made.source.id, "inaccessible", "it asks for a password")
    render.run(postgres, PostgresMetrics(), report_run(postgres, made), lease_seconds=60)
    (line,) = stored(postgres).body["sources"]
    assert (line["state"], line["reason"], line["dataset"], line["walk_began_at"], line["ended"], line["error_class"]) == (
        "inaccessible", "it asks for a password", "commits", None, "failed", "SourceUnavailable",
    )  # fmt: skip


def test_disabled_datasets_faults_and_skipped_slots_are_named(postgres: Postgres) -> None:
    made = seed(postgres)
    read_up_to(postgres, made, SLOT)
    execute(
        postgres,
        "INSERT INTO sync_cursors (org_id, source_id, dataset, state, state_reason) "
        "VALUES (:org, :source, 'issues', 'disabled', '410 Gone')",
        org=made.org.id,
        source=made.source.id,
    )
    run_id = report_run(postgres, made)
    execute(
        postgres, "UPDATE scheduled_jobs SET fault = 'ZoneInfo: no zone', fault_count = 2, quarantined_until = now()"
    )
    for day, outcome, skipped in [(2, "minted", 4), (3, "skipped_overlap", 0), (9, "skipped_overlap", 0)]:
        execute(
            postgres,
            "INSERT INTO schedule_occurrences (job_id, scheduled_for, org_id, dispatcher, outcome, skipped_slots) "
            "SELECT id, :slot, org_id, 'test', :outcome, :skipped FROM scheduled_jobs",
            slot=datetime(2026, 6, day, tzinfo=UTC),
            outcome=outcome,
            skipped=skipped,
        )
    render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60)
    output = stored(postgres)
    assert output.body["disabled_datasets"] == [
        {"source": "/srv/app", "provider": "git", "dataset": "issues", "reason": "410 Gone"}
    ]
    assert output.body["schedules"][0]["fault"] == "ZoneInfo: no zone"
    assert output.body["slots"] == [
        {"outcome": "minted", "n": 1, "folded": 4},
        {"outcome": "skipped_overlap", "n": 1, "folded": 0},
    ]
    assert number(output, "slots_skipped")["value"] == 5 / 6


def test_hostile_source_name_breaks_no_table_and_is_whole_in_the_json(postgres: Postgres) -> None:
    made = seed(postgres, path=HOSTILE)
    render.run(postgres, PostgresMetrics(), report_run(postgres, made), lease_seconds=60)
    output = stored(postgres)
    assert output.body["sources"][0]["source"] == HOSTILE
    assert r"| /srv/a\|b \| \`x\` &lt;img src=x&gt; | git | active |" in output.body_markdown
    assert "<img" not in output.body_markdown


def test_period_rendered_by_hand_twice_is_one_report(postgres: Postgres) -> None:
    made = seed(postgres)
    first = render.by_hand(postgres, PostgresMetrics(), None, "sync-health", date(2026, 6, 1), date(2026, 6, 7))
    second = render.by_hand(
        postgres, PostgresMetrics(), made.org.name, "sync-health", date(2026, 6, 1), date(2026, 6, 7)
    )
    assert (first.id, first.body_markdown, first.scheduled_job_id) == (second.id, second.body_markdown, None)
    render.by_hand(postgres, PostgresMetrics(), None, "sync-health", date(2026, 6, 2), date(2026, 6, 7))
    assert column(postgres, "SELECT count(*) FROM report_outputs") == [2]


def test_period_by_hand_says_the_same_as_the_scheduled_run_of_the_same_days(postgres: Postgres) -> None:
    made = seed(postgres)
    read_up_to(postgres, made, NOON)
    run_id = report_run(postgres, made)
    with postgres.transaction() as tx:
        tx.execute(text("UPDATE sync_runs SET created_at = :at"), {"at": SLOT})
    render.run(postgres, PostgresMetrics(), run_id, lease_seconds=60)
    scheduled = stored(postgres)
    by_hand = render.by_hand(postgres, PostgresMetrics(), "acme", "sync-health", date(2026, 6, 1), date(2026, 6, 7))
    assert (by_hand.body_markdown, by_hand.body) == (scheduled.body_markdown, scheduled.body)


def test_unknown_template_by_hand_is_refused_before_anything_is_read(postgres: Postgres) -> None:
    with pytest.raises(errors.UsageError, match="template is 'dora': there is sync-health"):
        render.by_hand(postgres, PostgresMetrics(), None, "dora")
    assert column(postgres, "SELECT count(*) FROM report_outputs") == [0]


def test_reports_go_with_their_organisation(postgres: Postgres) -> None:
    made = seed(postgres)
    render.by_hand(postgres, PostgresMetrics(), None, "sync-health")
    execute(postgres, "DELETE FROM orgs WHERE id = :id", id=made.org.id)
    assert column(postgres, "SELECT count(*) FROM report_outputs") == [0]

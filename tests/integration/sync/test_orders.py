import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.seed import Seed, column, execute, schedule, seed
from worker_app import errors
from worker_app.records import Source
from worker_app.store import overview, schedules, sources
from worker_app.store.postgres import Postgres
from worker_app.store.schedules import Schedule
from worker_app.sync import dispatch, orders, plan
from worker_app.sync.orders import Policies

pytestmark = pytest.mark.integration

DAILY: dict[str, Any] = {"cron_line": "30 6 * * *", "tz": "Europe/Berlin", "least_seconds": 300}


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(errors.UsageError) as caught:
        call()
    return str(caught.value)


def removed(postgres: Postgres, item: Source) -> Source:
    with postgres.transaction() as tx:
        sources.remove_source(tx, item)
    return item


def test_order_to_sync_a_source_keeps_every_policy(postgres: Postgres) -> None:
    made = seed(postgres)
    policies = Policies("allow", "all", catchup_max=5, catchup_window=timedelta(hours=36), max_jitter_seconds=90)
    added = orders.add_sync(postgres, made.source, policies=policies, **DAILY)
    assert (added.kind, added.provider, added.sources) == ("sync", "git", (made.source.external_name,))
    assert (added.overlap, added.catchup, added.catchup_max, added.catchup_window_seconds) == (
        "allow",
        "all",
        5,
        129_600,
    )
    assert (added.max_jitter_seconds, added.buffered_slot, added.fault_count) == (90, None, 0)
    assert column(postgres, "SELECT catchup_window = interval '36 hours' FROM scheduled_jobs") == [True]


def test_order_without_policies_has_those_of_the_schema(postgres: Postgres) -> None:
    orders.add_sync(postgres, seed(postgres).source, **DAILY)
    policy = "overlap, catchup, catchup_max, catchup_window, max_jitter_seconds"
    execute(
        postgres,
        "INSERT INTO scheduled_jobs (id, org_id, kind, cron_source, cron) "
        "SELECT gen_random_uuid(), id, 'metrics', '', '' FROM orgs",
    )
    assert column(postgres, f"SELECT count(DISTINCT ({policy})) FROM scheduled_jobs") == [1]


def test_order_to_sync_a_provider_names_no_source(postgres: Postgres) -> None:
    made = seed(postgres)
    added = orders.add_provider_sync(postgres, made.org, "git", **DAILY)
    assert (added.provider, added.source_ids, added.sources) == ("git", (), ())
    assert column(postgres, "SELECT params ->> 'sources' FROM scheduled_jobs") == [None]
    assert "provider is 'gti': there are git" in refusal(
        lambda: orders.add_provider_sync(postgres, made.org, "gti", **DAILY)
    )


def test_order_for_metrics_is_of_the_organisation(postgres: Postgres) -> None:
    made = seed(postgres)
    added = orders.add_metrics(postgres, made.org, **DAILY)
    assert (added.kind, added.org_id, added.provider, added.template) == ("metrics", made.org.id, None, None)


def test_order_for_a_report_keeps_template_and_period(postgres: Postgres) -> None:
    added = orders.add_report(postgres, seed(postgres).org, "sync-health", period_days=30, **DAILY)
    assert (added.kind, added.template, added.period_days) == ("report", "sync-health", 30)
    assert column(postgres, "SELECT params FROM scheduled_jobs") == [{"template": "sync-health", "period_days": 30}]


@pytest.mark.parametrize(
    ("asked", "days", "words"),
    [
        ("pnl", 7, "template is 'pnl': give sync-health"),
        ("sync-health", 0, "period-days is 0: give 1 to 366"),
        ("sync-health", 367, "period-days is 367: give 1 to 366"),
    ],
)
def test_report_that_cannot_be_is_refused(postgres: Postgres, asked: str, days: int, words: str) -> None:
    org = seed(postgres).org
    assert words in refusal(lambda: orders.add_report(postgres, org, asked, period_days=days, **DAILY))


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (Policies(overlap="queue"), "overlap is 'queue': give skip, buffer_one, allow or cancel_other"),
        (Policies(catchup="some"), "catchup is 'some': give none, latest or all"),
        (Policies("allow", "all", catchup_max=0), "catchup-max is 0: give 1 to 100"),
        (Policies("allow", "all", catchup_max=101), "catchup-max is 101: give 1 to 100"),
        (Policies(catchup_window=timedelta(minutes=9)), "catchup-window is 540 s: give 10m to 7d"),
        (Policies(catchup_window=timedelta(days=7, seconds=1)), "catchup-window is 604801 s: give 10m to 7d"),
        (Policies(max_jitter_seconds=-1), "jitter is -1: give 0 to 86400"),
        (Policies(max_jitter_seconds=86_401), "jitter is 86401: give 0 to 86400"),
        (Policies("skip", "all"), "catchup is all and overlap is skip"),
        (Policies("cancel_other", "all"), "so let overlap be allow, or catchup be latest"),
    ],
)
def test_policies_that_cannot_be_are_refused_and_nothing_is_written(
    postgres: Postgres, policies: Policies, words: str
) -> None:
    made = seed(postgres)
    assert words in refusal(lambda: orders.add_sync(postgres, made.source, policies=policies, **DAILY))
    assert column(postgres, "SELECT count(*) FROM scheduled_jobs") == [0]


@pytest.mark.parametrize("overlap", orders.OVERLAPS)
def test_every_overlap_policy_is_one_of_the_schema(postgres: Postgres, overlap: str) -> None:
    assert orders.add_sync(postgres, seed(postgres).source, policies=Policies(overlap), **DAILY).overlap == overlap


@pytest.mark.parametrize(
    ("line", "tz", "words"),
    [
        ("* * * * *", "UTC", "the next line that fits is `*/5 * * * *`"),
        ("0 0 30 2 *", "UTC", "the next line that fits is `0 0 28 2 *`"),
        ("0 0 31 * 13", "UTC", "day of week is '13'"),
        ("0 0 * * *", "Berlin", "time zone is 'Berlin'"),
    ],
)
def test_line_or_zone_that_cannot_be_is_refused(postgres: Postgres, line: str, tz: str, words: str) -> None:
    made = seed(postgres)
    assert words in refusal(lambda: orders.add_sync(postgres, made.source, cron_line=line, tz=tz, least_seconds=300))


def test_order_for_a_source_that_is_gone_is_refused(postgres: Postgres) -> None:
    gone = removed(postgres, seed(postgres).source)
    assert "it was removed" in refusal(lambda: orders.add_sync(postgres, gone, **DAILY))


def paused_and_due(postgres: Postgres, made: Seed) -> Schedule:
    schedule(postgres, made)
    return orders.pause(postgres, orders.find(postgres, made.source.external_name))


def test_paused_schedule_goes_on_with_its_next_slot(postgres: Postgres) -> None:
    paused = paused_and_due(postgres, seed(postgres))
    assert (paused.enabled, paused.next_run_at) == (False, None)
    resumed = orders.resume(postgres, paused)
    assert resumed.enabled
    assert resumed.next_run_at is not None
    assert timedelta() < resumed.next_run_at - postgres.now() <= timedelta(minutes=5)
    assert column(postgres, "SELECT revision FROM scheduled_jobs") == [3]  # each change counts


def test_resume_of_a_schedule_that_is_not_paused_loses_no_due_slot(postgres: Postgres) -> None:
    made = seed(postgres)
    schedule(postgres, made)
    before = orders.find(postgres, made.source.external_name)
    assert orders.resume(postgres, before) == before
    assert dispatch.tick(postgres, "test").minted == 1


def test_resume_ends_a_quarantine_and_serves_what_is_due(postgres: Postgres) -> None:
    made = seed(postgres)
    job_id = schedule(postgres, made)
    with postgres.transaction() as tx:
        schedules.quarantine(tx, job_id, "broken")
    assert dispatch.tick(postgres, "test").minted == 0
    resumed = orders.resume(postgres, orders.find(postgres, str(job_id)))
    assert (resumed.fault, resumed.fault_count, resumed.quarantined_until) == (None, 0, None)
    assert dispatch.tick(postgres, "test").minted == 1


@pytest.mark.parametrize(("field", "value"), [("cron", "nonsense"), ("cron", "0 0 30 2 *"), ("tz", "Mars/Olympus")])
def test_resume_of_a_schedule_that_cannot_be_read_says_why(postgres: Postgres, field: str, value: str) -> None:
    made = seed(postgres)
    paused = paused_and_due(postgres, made)
    execute(postgres, f"UPDATE scheduled_jobs SET {field} = :value", value=value)
    assert value in refusal(lambda: orders.resume(postgres, paused))
    assert column(postgres, "SELECT enabled FROM scheduled_jobs") == [False]


def test_resume_reads_the_line_as_it_is_now_and_not_as_it_was_shown(postgres: Postgres) -> None:
    shown = paused_and_due(postgres, seed(postgres))
    execute(postgres, "UPDATE scheduled_jobs SET cron = '0 3 29 2 *', cron_source = '0 3 29 2 *'")
    resumed = orders.resume(postgres, shown)
    assert resumed.next_run_at is not None
    assert (resumed.next_run_at.month, resumed.next_run_at.day) == (2, 29)


def test_schedule_that_was_removed_meanwhile_is_named(postgres: Postgres) -> None:
    shown = paused_and_due(postgres, seed(postgres))
    orders.remove(postgres, shown)
    for change in (orders.pause, orders.resume, orders.remove):
        assert str(shown.id) in refusal(lambda change=change: change(postgres, shown))  # type: ignore[misc]


def test_change_waits_for_a_tick_that_holds_the_schedule(postgres: Postgres) -> None:
    made = seed(postgres)
    schedule(postgres, made)
    shown = orders.find(postgres, made.source.external_name)
    paused = threading.Event()

    def pause() -> None:
        orders.pause(postgres, shown)
        paused.set()

    thread = threading.Thread(target=pause)
    with postgres.transaction() as tx:
        _, due = schedules.claim_due(tx)
        assert [job.id for job in due] == [shown.id]
        thread.start()
        assert not paused.wait(0.3)
    thread.join(timeout=10)
    assert paused.is_set()
    assert orders.find(postgres, str(shown.id)).enabled is False


def test_order_that_comes_after_the_removal_of_its_source_is_refused_also_at_the_same_moment(
    postgres: Postgres,
) -> None:
    made = seed(postgres)
    met = threading.Barrier(2)
    faults: list[Exception] = []

    def add() -> None:
        met.wait(10)
        try:
            orders.add_sync(postgres, made.source, **DAILY)
        except errors.UsageError as error:
            faults.append(error)

    def remove() -> None:
        met.wait(10)
        removed(postgres, made.source)

    threads = [threading.Thread(target=target) for target in (add, remove)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert column(postgres, "SELECT count(*) FROM sources") == [0]
    if faults:
        assert column(postgres, "SELECT count(*) FROM scheduled_jobs") == [0]


def test_schedules_of_any_params_can_be_listed(postgres: Postgres) -> None:
    added = orders.add_report(postgres, seed(postgres).org, "sync-health", **DAILY)
    for params in ('{"period_days": "many"}', '{"period_days": 1e99}', "{}", '{"sources": {}}'):
        execute(postgres, "UPDATE scheduled_jobs SET params = CAST(:params AS jsonb)", params=params)
        assert orders.find(postgres, str(added.id)).period_days is None


def test_outlook_is_the_next_slots_and_clock_changes(postgres: Postgres) -> None:
    added = orders.add_sync(postgres, seed(postgres).source, **DAILY)
    outlook = orders.outlook(added, postgres.now())
    assert outlook.next[0].utc == added.next_run_at
    assert [slot.local[10:16] for slot in outlook.next] == ["T06:30"] * 3
    assert {(change.offset_before, change.offset_after) for change in outlook.clock_changes} == {
        ("+01:00", "+02:00"),
        ("+02:00", "+01:00"),
    }


def test_outlook_of_a_schedule_that_cannot_be_read_is_the_reason(postgres: Postgres) -> None:
    added = orders.add_sync(postgres, seed(postgres).source, **DAILY)
    for broken in (
        replace(added, cron="nonsense"),
        replace(added, tz="Mars/Olympus"),
        replace(added, cron="0 0 30 2 *"),
    ):
        outlook = orders.outlook(broken, postgres.now())
        assert (outlook.next, outlook.clock_changes) == ((), ())
        assert outlook.problem


def test_schedule_is_found_by_the_beginning_of_its_id_alone_where_one_fits(postgres: Postgres) -> None:
    made = seed(postgres)
    first, _ = (orders.add_sync(postgres, made.source, **DAILY) for _ in range(2))
    assert orders.find(postgres, str(first.id).upper()).id == first.id
    assert "2 schedules fit" in refusal(lambda: orders.find(postgres, made.source.external_name))
    assert "there is no schedule" in refusal(lambda: orders.find(postgres, str(uuid4())))


@pytest.mark.parametrize("broken", ['["zz"]', '"zz"', "7", "{}"])
def test_row_that_somebody_broke_by_hand_is_shown_and_removed_and_fails_its_run_with_the_reason(
    postgres: Postgres, broken: str
) -> None:
    made = seed(postgres)
    sound, bad = schedule(postgres, made), schedule(postgres, made)
    execute(
        postgres,
        "UPDATE scheduled_jobs SET params = jsonb_build_object('sources', CAST(:broken AS jsonb)) WHERE id = :id",
        broken=broken,
        id=bad,
    )
    with postgres.transaction() as tx:
        shown = {item.id: item.sources for item in schedules.schedules(tx)}
        assert {line.id for line in overview.read(tx).schedules} == {sound, bad}
    assert shown == {sound: ("/srv/app",), bad: ()}
    dispatch.tick(postgres, "test")
    (run_id,) = column(postgres, "SELECT id FROM sync_runs WHERE job_id = :id", id=bad)
    assert isinstance(run_id, UUID)
    assert plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10) == 0
    (said,) = column(postgres, "SELECT state || ' ' || error FROM sync_runs WHERE id = :id", id=run_id)
    assert str(said).startswith("failed params.sources of schedule")
    orders.remove(postgres, orders.find(postgres, str(bad)))
    assert column(postgres, "SELECT id FROM scheduled_jobs") == [sound]


def test_run_of_a_provider_that_cannot_be_read_fails_with_the_reason_at_once(postgres: Postgres) -> None:
    bad = schedule(postgres, seed(postgres), provider="gitlab")
    dispatch.tick(postgres, "test")
    (run_id,) = column(postgres, "SELECT id FROM sync_runs WHERE job_id = :id", id=bad)
    assert isinstance(run_id, UUID)
    assert plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10) == 0
    (said,) = column(postgres, "SELECT state || ' ' || error FROM sync_runs WHERE id = :id", id=run_id)
    assert "failed provider is 'gitlab'" in str(said)

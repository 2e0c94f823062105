"""Another line, zone or rules for a schedule that is there."""

import threading
from datetime import timedelta

import pytest

from tests.seed import column, execute, seed
from worker_app import errors
from worker_app.store import schedules
from worker_app.store.postgres import Postgres
from worker_app.store.schedules import Schedule
from worker_app.sync import cron, dispatch, edits, orders
from worker_app.sync.edits import Changes

pytestmark = pytest.mark.integration

LEAST_SECONDS = 300


def added(postgres: Postgres, line: str = "30 6 * * *") -> Schedule:
    source = seed(postgres).source
    return orders.add_sync(postgres, source, cron_line=line, tz="UTC", least_seconds=LEAST_SECONDS)


def edited(postgres: Postgres, schedule: Schedule, changes: Changes) -> Schedule:
    return edits.edit(postgres, schedule, changes, least_seconds=LEAST_SECONDS)


def make_due(postgres: Postgres) -> None:
    execute(postgres, "UPDATE scheduled_jobs SET next_run_at = date_trunc('minute', now()) - interval '1 minute'")


def revisions(postgres: Postgres) -> list[object]:
    return column(postgres, "SELECT revision FROM scheduled_jobs")


def test_other_line_and_zone_begin_with_the_next_slot_from_now(postgres: Postgres) -> None:
    before = added(postgres)
    make_due(postgres)
    after = edited(postgres, before, Changes(cron_line=" 0  7 * * 1-5", tz="Europe/Berlin"))
    assert (after.cron_source, after.cron, after.tz) == ("0 7 * * 1-5", "0 7 * * 1-5", "Europe/Berlin")
    assert after.next_run_at == cron.next_after("0 7 * * 1-5", "Europe/Berlin", postgres.now())
    assert (after.id, after.overlap, after.catchup) == (before.id, before.overlap, before.catchup)
    assert revisions(postgres) == [2]


def test_other_rules_leave_a_due_slot_in_its_place(postgres: Postgres) -> None:
    before = added(postgres)
    make_due(postgres)
    rules = Changes(
        overlap="allow", catchup="all", catchup_max=3, catchup_window=timedelta(hours=36), max_jitter_seconds=0
    )
    after = edited(postgres, before, rules)
    assert (after.overlap, after.catchup, after.catchup_max, after.catchup_window_seconds) == (
        "allow",
        "all",
        3,
        129_600,
    )
    assert after.next_run_at is not None
    assert after.next_run_at < postgres.now()
    assert dispatch.tick(postgres, "a").due == 1


def test_line_and_zone_named_as_they_are_leave_a_due_slot_in_its_place(postgres: Postgres) -> None:
    before = added(postgres, "H H * * *")
    make_due(postgres)
    after = edited(postgres, before, Changes(cron_line="H  H * * *", tz="UTC", overlap="allow"))
    assert (after.cron, after.overlap) == (before.cron, "allow")
    assert dispatch.tick(postgres, "a").due == 1


def test_other_zone_alone_keeps_what_was_drawn(postgres: Postgres) -> None:
    before = added(postgres, "H H * * *")
    after = edited(postgres, before, Changes(tz="Asia/Tokyo"))
    assert (after.cron_source, after.cron) == ("H H * * *", before.cron)
    assert after.next_run_at == cron.next_after(before.cron, "Asia/Tokyo", postgres.now())


def test_paused_schedule_stays_paused_and_goes_on_by_its_new_line(postgres: Postgres) -> None:
    before = added(postgres)
    orders.pause(postgres, before)
    paused = edited(postgres, before, Changes(cron_line="0 9 * * *"))
    assert (paused.enabled, paused.next_run_at) == (False, None)
    assert orders.resume(postgres, paused).next_run_at == cron.next_after("0 9 * * *", "UTC", postgres.now())


def test_edit_of_what_was_at_fault_ends_a_quarantine(postgres: Postgres) -> None:
    before = added(postgres)
    make_due(postgres)
    execute(postgres, "UPDATE scheduled_jobs SET tz = 'Nowhere/Land'")
    assert dispatch.tick(postgres, "a").quarantined == 1
    with pytest.raises(errors.UsageError, match=r"time zone is 'Nowhere/Land'"):
        edited(postgres, before, Changes(cron_line="0 9 * * *"))  # what is wrong stays wrong
    assert column(postgres, "SELECT fault IS NOT NULL FROM scheduled_jobs") == [True]
    after = edited(postgres, before, Changes(tz="UTC"))
    assert (after.fault, after.fault_count, after.quarantined_until) == (None, 0, None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (Changes(cron_line="* * * * *"), r"cron is '\* \* \* \* \*': two slots .* the next line that fits is"),
        (Changes(cron_line="0 0 30 2 *"), "day of month is '30'"),
        (Changes(tz="Mars"), "time zone is 'Mars'"),
        (Changes(catchup="all"), "catchup is all and overlap is skip"),
        (Changes(catchup_max=5), "catchup-max is 5 and catchup is latest"),
        (Changes(catchup_window=timedelta(minutes=1)), "catchup-window is 60 s"),
        (Changes(overlap="maybe"), "overlap is 'maybe': give skip, buffer_one, allow or cancel_other"),
        (Changes(max_jitter_seconds=-1), "jitter is -1"),
    ],
)
def test_change_that_cannot_be_is_refused_and_nothing_is_changed(
    postgres: Postgres, changes: Changes, words: str
) -> None:
    before = added(postgres)
    with pytest.raises(errors.UsageError, match=words):
        edited(postgres, before, changes)
    with postgres.transaction() as tx:
        assert schedules.schedules(tx, job_id=before.id) == [before]
    assert revisions(postgres) == [1]


def test_schedule_that_was_removed_meanwhile_is_named(postgres: Postgres) -> None:
    before = added(postgres)
    orders.remove(postgres, before)
    with pytest.raises(errors.UsageError, match=f"there is no schedule '{before.id}'"):
        edited(postgres, before, Changes(tz="UTC"))


def test_edit_changes_the_rule_that_another_has_written_just_before(postgres: Postgres) -> None:
    before = added(postgres)
    edited(postgres, before, Changes(overlap="allow"))
    after = edited(postgres, before, Changes(catchup="all"))  # `before` was shown before the first edit
    assert (after.overlap, after.catchup) == ("allow", "all")


def test_two_edits_at_once_both_stand(postgres: Postgres) -> None:
    before = added(postgres)
    both = [Changes(overlap="buffer_one"), Changes(tz="Asia/Tokyo")]
    threads = [threading.Thread(target=edited, args=(postgres, before, changes)) for changes in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    with postgres.transaction() as tx:
        (after,) = schedules.schedules(tx, job_id=before.id)
    assert (after.overlap, after.tz) == ("buffer_one", "Asia/Tokyo")
    assert revisions(postgres) == [3]

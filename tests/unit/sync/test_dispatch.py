from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from worker_app import errors, jobs
from worker_app.jobs import DueJob
from worker_app.sync import cron, dispatch

JOB = UUID("11111111-1111-4111-8111-111111111111")
NOW = datetime(2026, 6, 1, 12, 2, 30, tzinfo=UTC)


def due(**changes: Any) -> DueJob:
    given: dict[str, Any] = {
        "id": JOB,
        "cron": "*/5 * * * *",
        "tz": "UTC",
        "next_run_at": datetime(2026, 6, 1, 12, 0, tzinfo=UTC),
        "catchup": "latest",
        "catchup_max": 24,
        "catchup_window": timedelta(days=7),
        "max_jitter_seconds": 0,
    }
    return DueJob(**{**given, **changes})


def test_one_due_slot_is_minted_under_its_own_id() -> None:
    decided = dispatch.decide(due(), NOW)
    (slot,) = decided.slots
    assert slot.scheduled_for == datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
    assert slot.run_id == jobs.run_id(JOB, slot.scheduled_for)
    assert (slot.is_minted, slot.skipped_slots, slot.send_at) == (True, 0, NOW)
    assert (decided.job_id, decided.next_at) == (JOB, datetime(2026, 6, 1, 12, 5, tzinfo=UTC))


def test_after_an_outage_latest_mints_the_newest_and_counts_the_others() -> None:
    (slot,) = dispatch.decide(due(next_run_at=NOW.replace(second=0) - timedelta(hours=26)), NOW).slots
    assert slot.scheduled_for == datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
    assert slot.skipped_slots == 26 * 12 - 1


def test_all_mints_the_newest_slots_up_to_its_maximum() -> None:
    start = datetime(2026, 5, 31, 10, 0, tzinfo=UTC)
    slots = dispatch.decide(due(catchup="all", next_run_at=start), NOW).slots
    assert len(slots) == 24
    assert slots[-1].scheduled_for == datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
    assert [slot.skipped_slots for slot in slots] == [26 * 12 + 1 - 24, *[0] * 23]
    assert len({slot.run_id for slot in slots}) == 24


def test_none_mints_a_fresh_slot_and_only_records_an_old_one() -> None:
    (fresh,) = dispatch.decide(due(catchup="none"), NOW).slots
    (old,) = dispatch.decide(
        due(catchup="none", cron="0 * * * *", next_run_at=NOW - timedelta(hours=3)), NOW + timedelta(minutes=20)
    ).slots
    assert (fresh.is_minted, old.is_minted) == (True, False)


def test_slots_older_than_the_window_are_not_looked_at() -> None:
    (slot,) = dispatch.decide(due(catchup_window=timedelta(hours=1), next_run_at=NOW - timedelta(days=300)), NOW).slots
    assert slot.skipped_slots == 11
    (slot,) = dispatch.decide(due(next_run_at=NOW - timedelta(days=300)), NOW).slots
    assert 1 + slot.skipped_slots == 7 * 24 * 12  # the most that a job may have: a week, five minutes apart


def test_slot_older_than_the_window_is_written_down_as_skipped() -> None:
    missed = datetime(2026, 1, 1, tzinfo=UTC)
    decided = dispatch.decide(due(cron="0 0 1 1 *", catchup_window=timedelta(days=7), next_run_at=missed), NOW)
    (slot,) = decided.slots
    assert (slot.scheduled_for, slot.is_minted, slot.skipped_slots) == (missed, False, 0)
    assert decided.next_at == datetime(2027, 1, 1, tzinfo=UTC)


def test_job_whose_stamp_is_no_slot_only_moves_on() -> None:
    decided = dispatch.decide(due(cron="0 0 1 1 *", next_run_at=NOW - timedelta(days=1)), NOW)
    assert (decided.slots, decided.next_at) == ((), datetime(2027, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("changes", [{"tz": "Mars/Olympus"}, {"cron": "nonsense"}, {"cron": "99 * * * *"}])
def test_broken_row_raises_what_the_tick_quarantines(changes: dict[str, str]) -> None:
    with pytest.raises((errors.UsageError, ValueError, KeyError, OSError)):
        dispatch.decide(due(**changes), NOW)


def test_batch_of_many_slots_is_cut_before_it_outlasts_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "DECIDE_SECONDS", 60.0)
    catching_up = due(catchup="all", catchup_max=100, next_run_at=NOW - timedelta(days=1))
    decisions, faults = dispatch._decide([catching_up] * 200, NOW)
    assert sum(len(decision.slots) for decision in decisions) == dispatch.SLOTS_AT_ONCE == 2000
    assert (len(decisions), faults) == (20, [])
    assert len(dispatch._decide([due()] * 200, NOW)[0]) == 200


def test_next_slot_that_is_not_later_is_refused_as_the_tick_would_find_it_due_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cron, "next_after", lambda *_: NOW)
    with pytest.raises(errors.UsageError, match="its next slot is 2026-06-01T12:02:30Z, which is over"):
        dispatch.decide(due(), NOW)


def test_jitter_is_stable_spread_and_bounded() -> None:
    slot = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
    found = [dispatch.jitter(UUID(int=number), slot, 60) for number in range(600)]
    assert dispatch.jitter(JOB, slot, 60) == dispatch.jitter(JOB, slot, 60)
    assert set(found) == set(range(60))
    assert dispatch.jitter(JOB, slot, 0) == 0


def test_jitter_never_exceeds_the_gap_to_the_next_slot() -> None:
    (slot,) = dispatch.decide(due(max_jitter_seconds=86_400), NOW).slots
    assert NOW <= slot.send_at < NOW + timedelta(minutes=5)

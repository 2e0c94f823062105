from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from worker_app import jobs

JOB = UUID("11111111-1111-4111-8111-111111111111")
SLOT = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)


def test_run_id_is_fixed_for_ever() -> None:
    assert jobs.run_id(JOB, SLOT) == UUID("49697436-7bde-5959-84de-a4440eda6782")


def test_run_id_depends_on_the_instant_and_not_on_its_zone() -> None:
    elsewhere = SLOT.astimezone(timezone(timedelta(hours=-5)))
    assert jobs.run_id(JOB, elsewhere) == jobs.run_id(JOB, SLOT)
    assert jobs.run_id(JOB, SLOT + timedelta(minutes=1)) != jobs.run_id(JOB, SLOT)


def test_batch_id_tells_windows_apart() -> None:
    whole = jobs.batch_id(JOB, JOB, "commits")
    assert whole == jobs.batch_id(JOB, JOB, "commits")
    assert len({whole, jobs.batch_id(JOB, JOB, "commits", SLOT), jobs.batch_id(JOB, JOB, "commits", None, SLOT)}) == 3


def test_metrics_run_has_an_id_of_its_own() -> None:
    assert jobs.metrics_run_id(JOB) != JOB


def test_one_outbox_row_is_one_task() -> None:
    assert jobs.message_id("run/1/dispatch/1") == jobs.message_id("run/1/dispatch/1")
    assert jobs.message_id("run/1/dispatch/1") != jobs.message_id("run/1/dispatch/2")

"""A run that outlasts the next slot of its job: that slot follows the job's rule, and the one after it is a slot like any."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.seed import column, execute, schedule, seed
from tests.virtual_clock import VirtualClock
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch, promote

pytestmark = pytest.mark.integration
SLOTS = [datetime(2026, 6, 1, 0, minute, tzinfo=UTC) for minute in (15, 30, 45)]
OPEN = "SELECT scheduled_for FROM sync_runs WHERE finished_at IS NULL"


def close(postgres: Postgres) -> None:
    execute(postgres, "UPDATE sync_runs SET state = 'succeeded', finished_at = now() WHERE finished_at IS NULL")


@pytest.mark.parametrize(
    ("overlap", "of_second", "minted", "is_asked_to_end"),
    [
        ("skip", "skipped_overlap", [SLOTS[0], SLOTS[2]], False),
        ("buffer_one", "buffered", SLOTS, False),
        ("cancel_other", "buffered", SLOTS, True),
        ("allow", "minted", SLOTS, False),
    ],
)
def test_slot_that_meets_a_run_follows_its_rule_and_the_slot_after_it_is_minted(
    postgres: Postgres, overlap: str, of_second: str, minted: list[datetime], is_asked_to_end: bool
) -> None:
    clock = VirtualClock(postgres)
    job_id = schedule(postgres, seed(postgres), cron="*/15 * * * *", next_run_at=SLOTS[0], overlap=overlap)
    for slot in SLOTS[:2]:
        clock.go_to(slot + timedelta(seconds=1))
        dispatch.tick(postgres, "test")
    assert column(postgres, OPEN) == (SLOTS[:2] if overlap == "allow" else SLOTS[:1])
    asked = column(postgres, "SELECT cancel_requested_at IS NOT NULL FROM sync_runs ORDER BY scheduled_for LIMIT 1")
    assert asked == [is_asked_to_end]
    close(postgres)
    assert promote.after(postgres, job_id) == int(of_second == "buffered")
    close(postgres)
    clock.go_to(SLOTS[2] + timedelta(seconds=1))
    dispatch.tick(postgres, "test")
    outcomes = column(postgres, "SELECT outcome FROM schedule_occurrences ORDER BY scheduled_for")
    assert outcomes == ["minted", of_second, "minted"]
    assert column(postgres, "SELECT scheduled_for FROM sync_runs ORDER BY 1") == minted
    assert column(postgres, OPEN) == [SLOTS[2]]

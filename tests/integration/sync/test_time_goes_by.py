"""What hours and days do to a schedule: each in seconds, by a clock of Postgres that the test moves."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tests.seed import column, execute, schedule, seed
from tests.virtual_clock import VirtualClock
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch, promote

pytestmark = pytest.mark.integration

TICK = timedelta(seconds=300)
HOUR = timedelta(hours=1)
MIDNIGHT = datetime(2026, 6, 1, tzinfo=UTC)
FIRST = MIDNIGHT + timedelta(minutes=15)


@pytest.fixture
def clock(postgres: Postgres) -> VirtualClock:
    """The clock of the test's database, at midnight."""
    made = VirtualClock(postgres)
    made.go_to(MIDNIGHT + timedelta(seconds=1))
    return made


def close(postgres: Postgres, state: str = "succeeded", *, older_than: timedelta = timedelta()) -> None:
    """Every open run that began so long ago ends."""
    execute(
        postgres,
        "UPDATE sync_runs SET state = :state, finished_at = now() WHERE state = 'queued' AND scheduled_for <= now() - :age",
        state=state,
        age=older_than,
    )


def outcomes(postgres: Postgres) -> Counter[object]:
    return Counter(column(postgres, "SELECT outcome FROM schedule_occurrences"))


def test_without_a_consumer_each_job_has_one_live_run_and_the_rest_is_written_down(
    postgres: Postgres, clock: VirtualClock
) -> None:
    made = seed(postgres)
    schedule(postgres, made, cron="0 * * * *", next_run_at=MIDNIGHT + HOUR)
    schedule(postgres, made, cron="*/15 * * * *", next_run_at=FIRST)
    for _ in range(12):
        clock.move(TICK)
        dispatch.tick(postgres, "test")
    clock.move(timedelta(minutes=1))
    dispatch.tick(postgres, "test")
    assert outcomes(postgres) == {"minted": 2, "skipped_overlap": 3}
    assert column(postgres, "SELECT state FROM sync_runs GROUP BY job_id, state HAVING count(*) = 1") == ["queued"] * 2
    runs = column(postgres, "SELECT id::text FROM sync_runs ORDER BY 1")
    assert column(postgres, "SELECT kwargs ->> 'run_id' FROM task_outbox ORDER BY 1") == runs
    skipped = "SELECT scheduled_for FROM schedule_occurrences WHERE outcome = 'skipped_overlap' ORDER BY 1"
    assert column(postgres, skipped) == [FIRST + number * timedelta(minutes=15) for number in (1, 2, 3)]
    assert column(postgres, "SELECT buffered_slot FROM scheduled_jobs") == [None, None]


def test_job_whose_every_run_fails_is_minted_again_with_each_slot(postgres: Postgres, clock: VirtualClock) -> None:
    schedule(postgres, seed(postgres), cron="0 * * * *", next_run_at=MIDNIGHT + HOUR)
    repeated = 0
    for _ in range(5 * 12):
        clock.move(TICK)
        repeated += dispatch.tick(postgres, "test").repeated
        close(postgres, "failed")
    assert (outcomes(postgres), repeated) == ({"minted": 5}, 0)
    slots = "SELECT scheduled_for FROM sync_runs WHERE state = 'failed' ORDER BY 1"
    assert column(postgres, slots) == [MIDNIGHT + number * HOUR for number in range(1, 6)]


STEP = timedelta(minutes=12)  # from a slot of one job to a slot of the next; the sixth is the first job's again
IS_SLOW = f"extract(epoch FROM scheduled_for - '{MIDNIGHT}') / {STEP.total_seconds()} % 14 = 0"  # 7 in a hundred
CLOSE_ALL_BUT_SLOW = f"""
UPDATE sync_runs SET state = 'succeeded', finished_at = now()
WHERE state = 'queued' AND (NOT {IS_SLOW} OR scheduled_for <= now() - interval '90 minutes')"""
LATENESS = "SELECT max(now() - next_run_at) FROM scheduled_jobs WHERE next_run_at <= now()"


@pytest.mark.timeout(60)
def test_slots_stay_on_their_grid_however_late_the_ticks_are(postgres: Postgres, clock: VirtualClock) -> None:
    made, late = seed(postgres), TICK + timedelta(seconds=15)
    for number in range(5):
        schedule(postgres, made, cron=f"{number * 12} * * * *", next_run_at=MIDNIGHT + (number or 5) * STEP)
    repeated, lateness = 0, list[object]()
    for _ in range(round(timedelta(hours=24) / late)):
        clock.move(late)
        lateness += column(postgres, LATENESS)
        repeated += dispatch.tick(postgres, "test").repeated
        execute(postgres, CLOSE_ALL_BUT_SLOW)
    last = (clock.now() - MIDNIGHT) // STEP
    every, slow = set(range(1, last + 1)), set(range(14, last + 1, 14))
    skipped = {number + 5 for number in slow} & every  # the slot that its slow run outlasts; the next one runs again
    for outcome, wanted in (("minted", every - skipped), ("skipped_overlap", skipped)):
        found = "SELECT scheduled_for FROM schedule_occurrences WHERE outcome = :outcome ORDER BY 1"
        assert column(postgres, found, outcome=outcome) == [MIDNIGHT + number * STEP for number in sorted(wanted)]
    assert (outcomes(postgres).total(), repeated, len(skipped)) == (last, 0, 8)
    assert max(item for item in lateness if isinstance(item, timedelta)) <= late  # a slot is served by the next tick
    assert column(postgres, LATENESS) == [None]


def test_slot_that_meets_a_run_is_decided_and_the_one_after_it_is_not_forgotten(
    postgres: Postgres, clock: VirtualClock
) -> None:
    schedule(postgres, seed(postgres), cron="*/15 * * * *", next_run_at=FIRST, overlap="skip")
    for minutes in (15, 30, 45):
        clock.go_to(MIDNIGHT + timedelta(minutes=minutes, seconds=1))
        dispatch.tick(postgres, "test")
        if minutes == 30:
            close(postgres)  # the first run outlasts one slot
    assert column(postgres, "SELECT outcome FROM schedule_occurrences ORDER BY scheduled_for") == [
        "minted",
        "skipped_overlap",
        "minted",
    ]


def test_slot_that_waited_runs_after_the_active_run_and_only_the_newest_does(
    postgres: Postgres, clock: VirtualClock
) -> None:
    job_id = schedule(postgres, seed(postgres), cron="*/15 * * * *", next_run_at=FIRST, overlap="buffer_one")
    for minutes in (15, 30, 45):
        clock.go_to(MIDNIGHT + timedelta(minutes=minutes, seconds=1))
        dispatch.tick(postgres, "test")
    assert promote.waiting_slots(postgres, job_id) == 0
    close(postgres)
    assert promote.after(postgres, job_id) == 1
    assert column(postgres, "SELECT scheduled_for FROM sync_runs ORDER BY 1") == [
        FIRST,
        MIDNIGHT + timedelta(minutes=45),
    ]
    assert column(postgres, "SELECT outcome || skipped_slots FROM schedule_occurrences ORDER BY scheduled_for") == [
        "minted0",
        "buffered0",
        "buffered1",
    ]
    assert promote.after(postgres, job_id) == 0


def many(postgres: Postgres, count: int, *, cron: str, **rules: object) -> None:
    """`count` jobs over ten organisations, the first slot of each at midnight."""
    made = [seed(postgres, f"o{number}") for number in range(10)]
    rows = [
        {"id": uuid4(), "org": made[number % 10].org.id, "cron": cron.replace("H", str(number % 60))}
        for number in range(count)
    ]
    columns = ", ".join(rules)
    values = ", ".join(f"'{value}'" for value in rules.values())
    with postgres.transaction() as tx:
        tx.execute(
            text(
                f"INSERT INTO scheduled_jobs (id, org_id, kind, provider, cron_source, cron, next_run_at, {columns}) "
                f"VALUES (:id, :org, 'sync', 'git', :cron, :cron, '{MIDNIGHT.isoformat()}', {values})"
            ),
            rows,
        )


ALL = {"catchup": "all", "overlap": "allow", "catchup_max": 24}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("rules", "runs"), [({"catchup": "latest"}, 1), (ALL, 24), ({"catchup": "none"}, 1)])
def test_outage_of_26_hours_ends_with_the_exact_count_of_each_rule(
    postgres: Postgres, clock: VirtualClock, rules: dict[str, object], runs: int
) -> None:
    many(postgres, 100, cron="* * * * *", **rules)
    clock.go_to(MIDNIGHT + timedelta(hours=26) - timedelta(seconds=30))
    dispatch.tick(postgres, "test")
    assert outcomes(postgres) == {"minted": 100 * runs}
    assert (
        column(postgres, "SELECT sum(skipped_slots)::int FROM schedule_occurrences GROUP BY job_id")
        == [1560 - runs] * 100
    )
    newest = MIDNIGHT + timedelta(hours=25, minutes=59)
    wanted = [newest - timedelta(minutes=number) for number in reversed(range(runs))]
    assert column(postgres, "SELECT DISTINCT scheduled_for FROM sync_runs ORDER BY 1") == wanted
    assert column(
        postgres, "SELECT count(*) FROM sync_runs r JOIN task_outbox m ON m.kwargs ->> 'run_id' = r.id::text"
    ) == [100 * runs]


FRESH = {0, *range(51, 60)}  # minutes whose newest slot is younger than ten minutes half a minute after the full hour


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("rules", "runs"), [({"catchup": "latest"}, 1), (ALL | {"catchup_max": 10}, 10), ({"catchup": "none"}, 1)]
)
def test_thousand_schedules_after_a_day_away_are_served_within_one_tick(
    postgres: Postgres, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, rules: dict[str, object], runs: int
) -> None:
    monkeypatch.setattr(dispatch, "BUDGET_SECONDS", 10.0)  # no claim begins after it, and what is due then is left
    many(postgres, 1000, cron="H * * * *", **rules)
    clock.go_to(MIDNIGHT + timedelta(hours=26, seconds=30))
    done = dispatch.tick(postgres, "test")
    served = [number for number in range(1000) if rules["catchup"] != "none" or number % 60 in FRESH]
    assert (done.due, done.minted) == (1000, runs * len(served))
    assert outcomes(postgres)["skipped_catchup"] == 1000 - len(served)
    counted = column(postgres, "SELECT sum(skipped_slots)::int FROM schedule_occurrences")
    # minute 0 has 27 slots in these hours, every other minute 26
    assert counted == [sum((27 if number % 60 == 0 else 26) - runs for number in range(1000))]


def test_slot_older_than_ten_minutes_is_history_where_nothing_is_caught_up(
    postgres: Postgres, clock: VirtualClock
) -> None:
    job_id = schedule(postgres, seed(postgres), cron="0 * * * *", next_run_at=MIDNIGHT + HOUR, catchup="none")
    clock.go_to(MIDNIGHT + HOUR + timedelta(minutes=11))
    dispatch.tick(postgres, "test")
    assert outcomes(postgres) == {"skipped_catchup": 1}
    clock.go_to(MIDNIGHT + 2 * HOUR + timedelta(minutes=9))
    assert dispatch.tick(postgres, "test").minted == 1
    assert isinstance(job_id, UUID)


def test_job_that_runs_once_a_month_and_missed_its_slot_by_more_than_the_window_tells_so(
    postgres: Postgres, clock: VirtualClock
) -> None:
    schedule(postgres, seed(postgres), cron="0 0 1 * *", next_run_at=MIDNIGHT)
    clock.move(timedelta(days=9))
    assert dispatch.tick(postgres, "test").written.skipped_catchup == 1
    assert column(postgres, "SELECT scheduled_for FROM schedule_occurrences") == [MIDNIGHT]
    assert column(postgres, "SELECT next_run_at FROM scheduled_jobs") == [datetime(2026, 7, 1, tzinfo=UTC)]

"""What a tick tells of itself: numbers that the alerts of gate 1 look at."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.seed import Seed, due_jobs, execute, schedule, seed
from worker_app import runtime, settings, tasks, telemetry
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
BACK_TO_THE_LEDGER = (
    "UPDATE scheduled_jobs j SET next_run_at = o.scheduled_for FROM schedule_occurrences o WHERE o.job_id = j.id"
)
COUNTED = ("occurrences_", "schedules_faulted", "idle_due")


@pytest.fixture(autouse=True)
def _worker(
    tmp_path: Path, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[runtime.Runtime]:
    """The runtime of a worker, without a relay."""
    monkeypatch.setattr(runtime, "_current", None)
    stores = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "DEV_HOPS_DIR": str(tmp_path)}
    current = runtime.build(settings.load(stores), role="worker", pool_size=2)
    runtime.install(current)
    yield current
    current.close()


def counts() -> dict[str, float]:
    """name and label of each counter -> its value now."""
    return {
        "/".join([sample.name.removeprefix("dev_hops_").removesuffix("_total"), *sample.labels.values()]): sample.value
        for family in telemetry.WORKER.collect()
        for sample in family.samples
        if sample.name.removeprefix("dev_hops_").startswith(COUNTED) and sample.name.endswith("_total")
    }


def told(before: dict[str, float]) -> dict[str, float]:
    """What was counted since `before`."""
    return {name: value - before.get(name, 0) for name, value in counts().items() if value != before.get(name, 0)}


def daily(postgres: Postgres, made: Seed, *, missed: int = 0, **rules: Any) -> None:
    """A job that is due since midnight, and since `missed` midnights before."""
    midnight = postgres.now().replace(hour=0, minute=0, second=0, microsecond=0)
    schedule(postgres, made, cron="0 0 * * *", next_run_at=midnight - timedelta(days=missed), **rules)


def test_tick_counts_what_became_of_each_slot(postgres: Postgres) -> None:
    made = seed(postgres)
    daily(postgres, made, overlap="skip")
    daily(postgres, made, overlap="buffer_one")
    before = counts()
    tasks.dispatch_scheduled_syncs()
    assert told(before) == {"occurrences_minted": 2}
    execute(postgres, BACK_TO_THE_LEDGER)
    before = counts()
    tasks.dispatch_scheduled_syncs()
    assert told(before) == {"occurrences_repeated": 2}
    execute(postgres, BACK_TO_THE_LEDGER)
    execute(postgres, "DELETE FROM schedule_occurrences")
    execute(postgres, "UPDATE sync_runs SET scheduled_for = scheduled_for - interval '1 day', id = gen_random_uuid()")
    daily(postgres, made, missed=3)
    before = counts()
    tasks.dispatch_scheduled_syncs()
    assert told(before) == {
        "occurrences_minted": 1,
        "occurrences_skipped/catchup": 3,
        "occurrences_skipped/overlap": 1,
        "occurrences_buffered": 1,
    }


def test_tick_that_finds_due_jobs_and_serves_none_is_counted(postgres: Postgres) -> None:
    before = counts()
    tasks.dispatch_scheduled_syncs()
    assert told(before) == {}
    due_jobs(postgres, seed(postgres), 2)
    execute(postgres, "UPDATE scheduled_jobs SET cron = 'nonsense'")
    tasks.dispatch_scheduled_syncs()
    assert told(before) == {"idle_due_windows": 1, "schedules_faulted": 2}


def test_tick_says_when_it_was_although_it_found_nothing(postgres: Postgres) -> None:
    begun = time.time()
    tasks.dispatch_scheduled_syncs()
    told_at = telemetry.WORKER.get_sample_value("dev_hops_dispatch_last_tick_timestamp_seconds")
    assert told_at is not None
    assert begun <= told_at <= time.time()

from datetime import datetime, timedelta
from importlib import metadata, resources
from zoneinfo import TZPATH

import pytest

from tests.seed import column, execute, schedule, seed
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres
from worker_app.sync import cron, engine

HOUR = timedelta(hours=1)


def test_engine_names_what_is_installed() -> None:
    installed = metadata.version("croniter"), metadata.version("tzdata")
    assert cron.ENGINES[cron.ENGINE] == installed, "a new pair needs a new number, and golden vectors first"


def test_zones_are_those_of_the_pinned_package() -> None:
    assert TZPATH == ()
    assert resources.files("tzdata").joinpath("zoneinfo", "Europe", "Berlin").is_file()


@pytest.mark.integration
def test_migration_computes_the_slots_of_an_older_engine_anew(
    postgres: Postgres, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = seed(postgres)
    moment = postgres.now()
    to_come, unserved, broken, paused = (schedule(postgres, made, cron="0 * * * *") for _ in range(4))
    wrong = moment.replace(minute=30, second=0, microsecond=0)
    stamps = {to_come: wrong + 2 * HOUR, unserved: wrong - 5 * HOUR, broken: wrong}
    for job_id, at in stamps.items():
        execute(postgres, "UPDATE scheduled_jobs SET next_run_at = :at WHERE id = :id", at=at, id=job_id)
    execute(postgres, "UPDATE scheduled_jobs SET cron = 'nonsense' WHERE id = :id", id=broken)
    execute(postgres, "UPDATE scheduled_jobs SET enabled = false, next_run_at = NULL WHERE id = :id", id=paused)
    said: list[str] = []
    migrate_postgres(database_url, said.append)
    assert said == []  # they are of this engine
    monkeypatch.setattr(cron, "ENGINE", cron.ENGINE + 1)
    monkeypatch.setattr(engine, "STEP", 2)  # one transaction is not enough
    migrate_postgres(database_url, said.append)
    assert said == ["computed the next slots of 3 schedules anew: the cron library or the time zones are newer"]
    query = "SELECT next_run_at FROM scheduled_jobs WHERE id = :id"
    (coming,), (waiting,) = column(postgres, query, id=to_come), column(postgres, query, id=unserved)
    assert coming == cron.next_after("0 * * * *", "UTC", moment)
    assert isinstance(waiting, datetime)
    assert wrong - 5 * HOUR < waiting <= wrong - 4 * HOUR  # what nobody has served yet stays due
    assert column(postgres, query, id=broken) == [wrong]
    assert column(postgres, query, id=paused) == [None]
    migrate_postgres(database_url, said.append)
    assert len(said) == 1

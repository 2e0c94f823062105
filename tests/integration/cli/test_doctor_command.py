"""The doctor on real stores: what of the service's work needs a person."""

import json

import pytest

from tests import waiting
from tests.command_line import dev_hops
from tests.integration.credentials import sealed
from tests.seed import execute, schedule, seed
from worker_app.store import credentials, sources
from worker_app.store.fence import Fence
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration


def checks(database_url: str, redis_url: str) -> dict[str, str]:
    """What the doctor finds wrong, by check."""
    environment = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "DEV_HOPS_DIR": "/nonexistent"}
    done = dev_hops("doctor", "--json", environment=environment)
    assert done.returncode in (0, 1), done.stderr
    return {item["check"]: item["detail"] for item in json.loads(done.stdout)["checks"] if not item["ok"]}


def test_work_that_nobody_serves_is_told(
    postgres: Postgres, database_url: str, redis_url: str, redis_client: object
) -> None:
    quiet = checks(database_url, redis_url)
    assert "work" not in quiet
    assert "no beat holds the lock" in quiet["beat"]
    assert Fence(redis_client, "beat", 60).hold()  # type: ignore[arg-type]
    made = seed(postgres)
    late, aside = schedule(postgres, made), schedule(postgres, made)
    execute(postgres, "UPDATE scheduled_jobs SET next_run_at = now() - interval '1 hour' WHERE id = :id", id=late)
    execute(
        postgres, "UPDATE scheduled_jobs SET quarantined_until = now() + interval '1 hour' WHERE id = :id", id=aside
    )
    found = checks(database_url, redis_url)
    assert "beat" not in found
    assert "a slot is 360" in found["work"]
    assert "1 schedules are set aside" in found["work"]


def test_source_whose_credential_was_removed_is_named(postgres: Postgres, database_url: str, redis_url: str) -> None:
    made = waiting.github(postgres)
    entry = sealed.add(postgres, made.org.id)
    with postgres.transaction() as tx:
        sources.set_credential(tx, made.source, entry.id)
    assert "credentials" not in checks(database_url, redis_url)
    with postgres.transaction() as tx:
        credentials.erase(tx, entry)
    assert checks(database_url, redis_url)["credentials"].startswith("acme/api of acme names main: ")
    sealed.add(postgres, made.org.id)
    assert "credentials" not in checks(database_url, redis_url)

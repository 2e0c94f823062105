"""M9: a job that is killed in the middle leaves the lock and the table free, and the next one goes on."""

from pathlib import Path

import pytest

from tests.integration.migrate import revisions
from tests.integration.migrate.waits import Job, session, wait_until_running
from tests.seed import column
from worker_app.migrate import status
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

STEP = "SELECT state FROM schema_ledger WHERE number = :number"


def test_job_that_was_killed_in_a_revision_is_run_again(database_url: str, postgres: Postgres, tmp_path: Path) -> None:
    revisions.series(tmp_path / "r", revisions.sql("CREATE TABLE half (id integer)", "SELECT pg_sleep(20)"))
    with session(database_url) as watcher, Job(database_url, tmp_path / "r", tmp_path / "killed.log") as killed:
        wait_until_running(watcher, "SELECT pg_sleep")
        killed.kill()
    assert column(postgres, STEP, number=revisions.NEXT) == ["started"]
    assert status.of_postgres(postgres).state == "behind"
    revisions.series(tmp_path / "r", revisions.sql("CREATE TABLE half (id integer)"))
    with Job(database_url, tmp_path / "r", tmp_path / "again.log") as again:
        assert again.wait() == 0, again.text
    assert column(postgres, STEP, number=revisions.NEXT) == ["finished"]
    assert column(postgres, "SELECT count(*) FROM half") == [0]


def test_job_that_was_killed_while_it_builds_an_index_is_run_again(
    database_url: str, postgres: Postgres, tmp_path: Path
) -> None:
    revisions.series(tmp_path / "r", 'indexes.build("orgs_by_time", "orgs (created_at)")')
    with session(database_url) as writer, session(database_url) as watcher:
        writer.exec_driver_sql("BEGIN")
        writer.exec_driver_sql("INSERT INTO orgs (id, name) VALUES (gen_random_uuid(), 'acme')")
        with Job(database_url, tmp_path / "r", tmp_path / "killed.log") as killed:
            wait_until_running(watcher, "CREATE INDEX CONCURRENTLY")
            killed.kill()
        with Job(database_url, tmp_path / "r", tmp_path / "again.log") as again:
            again.wait_for("applying")
            writer.exec_driver_sql("COMMIT")
            assert again.wait() == 0, again.text
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('orgs_by_time')"
    assert column(postgres, valid) == [True]

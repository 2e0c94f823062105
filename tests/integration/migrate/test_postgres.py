"""The job alone: what it applies, what it refuses, and what is left when a revision fails."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.integration.migrate import databases, revisions
from tests.seed import column
from worker_app import errors
from worker_app.migrate import postgres as job
from worker_app.migrate import status, steps
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

STATES = "SELECT DISTINCT state FROM schema_ledger WHERE number = :number"


def quiet(_: str) -> None:
    return None


def execute(url: str, statement: str) -> None:
    with create_engine(url).begin() as connection:
        connection.execute(text(statement))


def has_table(postgres: Postgres, name: str) -> bool:
    return column(postgres, "SELECT to_regclass(:name) IS NOT NULL", name=name) == [True]


def test_empty_database_is_brought_up_and_the_second_job_has_nothing_to_do(empty_database_url: str) -> None:
    assert migrate_postgres(empty_database_url, quiet) == steps.postgres().newest
    assert migrate_postgres(empty_database_url, quiet) == 0
    opened = Postgres(empty_database_url, pool_size=1)
    assert status.of_postgres(opened).state == "current"
    opened.close()


def test_edited_revision_is_refused(database_url: str) -> None:
    execute(database_url, "UPDATE schema_ledger SET checksum = 'x' WHERE number = 1")
    with pytest.raises(errors.SettingsError, match="0001_spine"):
        migrate_postgres(database_url, quiet)


def test_schema_that_is_newer_than_the_program_is_refused(database_url: str, tmp_path: Path) -> None:
    migrate_postgres(database_url, quiet, series=revisions.series(tmp_path / "r", revisions.sql("SELECT 1")))
    with pytest.raises(errors.SettingsError, match=f"schema {revisions.NEXT} is newer than this program"):
        migrate_postgres(database_url, quiet)


def test_job_that_died_before_it_wrote_the_ends_is_run_again(empty_database_url: str) -> None:
    migrate_postgres(empty_database_url, quiet)
    execute(empty_database_url, "UPDATE schema_ledger SET state = 'started', finished_at = NULL")
    assert migrate_postgres(empty_database_url, quiet) == steps.postgres().newest


def test_lock_that_another_job_holds_is_waited_for_and_then_given_up(database_url: str) -> None:
    with create_engine(database_url).connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(hashtextextended('dev-hops/migrate', 0))"))
        with pytest.raises(errors.TransientError, match="another migration job"):
            migrate_postgres(database_url, quiet, wait_seconds=0.1)


def test_database_that_is_away_is_worth_another_try(database_url: str) -> None:
    with pytest.raises(errors.StoreAway, match="Postgres does not answer"):
        migrate_postgres(databases.beside(database_url, "gone"), quiet)


def test_revision_that_fails_is_named_and_leaves_nothing(database_url: str, postgres: Postgres, tmp_path: Path) -> None:
    broken = revisions.series(tmp_path / "r", revisions.sql("CREATE TABLE half (id integer)", "SELECT 1 / 0"))
    with pytest.raises(errors.MigrationFailed, match=rf"{revisions.NEXT:04}_synthetic failed: division by zero"):
        migrate_postgres(database_url, quiet, series=broken)
    assert not has_table(postgres, "half")
    assert column(postgres, STATES, number=revisions.NEXT) == ["started"]


def test_revision_that_was_mended_after_it_failed_is_applied(
    database_url: str, postgres: Postgres, tmp_path: Path
) -> None:
    with pytest.raises(errors.MigrationFailed):
        migrate_postgres(database_url, quiet, series=revisions.series(tmp_path / "r", revisions.sql("SELECT 1 / 0")))
    mended = revisions.series(tmp_path / "r", revisions.sql("CREATE TABLE whole (id integer)"))
    assert migrate_postgres(database_url, quiet, series=mended) == 1
    assert has_table(postgres, "whole")
    assert column(postgres, STATES, number=revisions.NEXT) == ["finished"]


def test_later_revision_that_fails_keeps_the_one_before(database_url: str, postgres: Postgres, tmp_path: Path) -> None:
    two = revisions.series(
        tmp_path / "r", revisions.sql("CREATE TABLE first (id integer)"), revisions.sql("SELECT 1 / 0")
    )
    with pytest.raises(errors.MigrationFailed, match=rf"{revisions.NEXT + 1:04}"):
        migrate_postgres(database_url, quiet, series=two)
    assert has_table(postgres, "first")
    assert column(postgres, "SELECT version_num FROM alembic_version") == [f"{revisions.NEXT:04}"]


def test_lost_session_is_worth_another_try(database_url: str, tmp_path: Path) -> None:
    dying = revisions.series(tmp_path / "r", revisions.sql("SELECT pg_terminate_backend(pg_backend_pid())"))
    with pytest.raises(errors.StoreAway):
        migrate_postgres(database_url, quiet, series=dying)


def test_table_that_stays_locked_ends_the_job_until_later(
    database_url: str, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(job, "LOCK_TRIES", 2)
    said: list[str] = []
    wanted = revisions.series(tmp_path / "r", revisions.sql("ALTER TABLE orgs ADD COLUMN extra text"))
    with postgres.transaction() as reader:
        reader.execute(text("SELECT count(*) FROM orgs"))
        with pytest.raises(errors.TransientError, match="stayed locked in 2 tries"):
            migrate_postgres(database_url, said.append, series=wanted)
    assert len([line for line in said if "a table is locked, try" in line]) == 2
    assert migrate_postgres(database_url, quiet, series=wanted) == 1

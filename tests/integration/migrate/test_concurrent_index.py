"""M3: an index is built while rows are written and while another job waits; what a failed build left is built anew."""

from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from tests.integration.migrate import revisions
from tests.integration.migrate.waits import DEADLINE_SECONDS, Job, session, wait_until_running
from tests.seed import column
from worker_app import errors
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store import schema
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

BUILD = 'indexes.build("orgs_by_time", "orgs (created_at)")'
ADD_ORG = "INSERT INTO orgs (id, name) VALUES (gen_random_uuid(), gen_random_uuid()::text)"
IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('orgs_by_time')"


def test_index_is_built_while_another_job_waits(database_url: str, postgres: Postgres, tmp_path: Path) -> None:
    revisions.series(tmp_path / "r", BUILD)
    with session(database_url) as writer, session(database_url) as watcher:
        writer.execute(text("BEGIN"))
        writer.execute(text(ADD_ORG))
        with Job(database_url, tmp_path / "r", tmp_path / "first.log") as first:
            wait_until_running(watcher, "CREATE INDEX CONCURRENTLY")
            with Job(database_url, tmp_path / "r", tmp_path / "second.log") as second:
                second.wait_for("another migration job is running")
                writer.execute(text("COMMIT"))
                assert (first.wait(), second.wait()) == (0, 0), first.text + second.text
    assert (first.text.splitlines()[-1], second.text.splitlines()[-1]) == ("applied 1", "applied 0")
    assert column(postgres, IS_VALID) == [True]
    assert column(postgres, "SELECT version_num FROM alembic_version") == [f"{revisions.NEXT:04}"]


def test_waiting_inside_the_lock_would_keep_an_index_from_being_built(database_url: str) -> None:
    """Why the lock is polled: a session that waits in pg_advisory_lock has a snapshot, and the build waits for that."""
    lock = text("SELECT pg_advisory_lock(1)")
    with (
        session(database_url) as holder,
        session(database_url) as builder,
        session(database_url) as waiter,
        session(database_url) as watcher,
    ):
        holder.execute(lock)
        waiting = Thread(target=waiter.execute, args=(lock,))
        waiting.start()
        wait_until_running(watcher, "SELECT pg_advisory_lock")
        builder.execute(text("SET statement_timeout = '2s'"))
        with pytest.raises(OperationalError, match="statement timeout"):
            builder.execute(text("CREATE INDEX CONCURRENTLY orgs_by_time ON orgs (created_at)"))
        holder.execute(text("SELECT pg_advisory_unlock(1)"))
        waiting.join(DEADLINE_SECONDS)
        assert watcher.execute(text(IS_VALID)).scalar_one() is False


def test_index_that_a_failed_build_left_is_built_anew(database_url: str, postgres: Postgres, tmp_path: Path) -> None:
    with session(database_url) as connection:
        for _ in range(2):
            connection.execute(text(ADD_ORG))
        with pytest.raises(DBAPIError, match="could not create unique index"):
            connection.execute(text("CREATE UNIQUE INDEX CONCURRENTLY orgs_by_time ON orgs (tz)"))
    with postgres.transaction() as tx:
        assert schema.invalid_indexes(tx) == ["orgs_by_time"]
    migrate_postgres(database_url, lambda _: None, series=revisions.series(tmp_path / "r", BUILD))
    assert column(postgres, IS_VALID) == [True]


def test_revision_that_leaves_an_invalid_index_is_not_finished(
    database_url: str, postgres: Postgres, tmp_path: Path
) -> None:
    swallowing = "\n    ".join(
        (
            "with op.get_context().autocommit_block():",
            "    try:",
            "        op.execute('CREATE UNIQUE INDEX CONCURRENTLY orgs_by_time ON orgs (tz)')",
            "    except Exception:",
            "        pass",
        )
    )
    with session(database_url) as connection:
        for _ in range(2):
            connection.execute(text(ADD_ORG))
    with pytest.raises(errors.MigrationFailed, match="left an invalid index: orgs_by_time"):
        migrate_postgres(database_url, lambda _: None, series=revisions.series(tmp_path / "r", swallowing))
    states = column(postgres, "SELECT state FROM schema_ledger WHERE number = :number", number=revisions.NEXT)
    assert states == ["started"]

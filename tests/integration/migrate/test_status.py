"""`dev-hops migrate`: its exit codes, which hooks and init containers rely on, and what it shows."""

import json
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.command_line import Ended, dev_hops
from tests.integration.migrate import databases, revisions
from tests.integration.migrate.waits import session
from tests.processes import DEV_HOPS, Service
from worker_app.migrate import steps
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

CODE = steps.postgres().newest


def migrate(service: Service, *arguments: str, **changes: str) -> Ended:
    return dev_hops("migrate", *arguments, environment=service.environment("m", **changes))


def code_of_process(service: Service, *arguments: str, **changes: str) -> int:
    """With what a hook or an init container sees the verb end."""
    command, environment = (DEV_HOPS, "migrate", *arguments), service.environment("m", **changes)
    return subprocess.run(command, env=environment, capture_output=True, timeout=25, check=False).returncode


def change(url: str, statement: str) -> None:
    with session(url) as connection:
        connection.execute(text(statement))


def test_current_schema_is_0(service: Service) -> None:
    done = migrate(service, "status", "--check", "--json")
    assert done.returncode == 0, done.stderr
    (shown,) = json.loads(done.stdout)
    assert (shown["store"], shown["have"], shown["want"], shown["state"]) == ("postgres", CODE, CODE, "current")


def test_schema_that_is_behind_is_75_until_the_job_has_run(service: Service, behind_url: str) -> None:
    assert code_of_process(service, "status", "--check", DATABASE_URL=behind_url) == 75
    done = migrate(service, "postgres", DATABASE_URL=behind_url)
    assert (done.returncode, done.stdout) == (0, "postgres: 1 revisions applied\n")
    assert code_of_process(service, "status", "--check", DATABASE_URL=behind_url) == 0


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE alembic_version SET version_num = '0004'", "alembic_version says 4"),
        ("DROP TABLE alembic_version", "alembic_version says 0"),
        ("UPDATE schema_ledger SET checksum = 'x' WHERE number = 2", "edited: 0002_reports"),
        (f"DELETE FROM schema_ledger WHERE number = {CODE}", f"the ledger says {CODE - 1}"),
    ],
)
def test_ledgers_that_disagree_are_1(service: Service, statement: str, said: str) -> None:
    change(service.database_url, statement)
    done = migrate(service, "status", "--check")
    assert done.returncode == 1, done.stderr
    assert said in done.stdout


def test_step_whose_job_died_before_its_end_was_written_is_75(service: Service) -> None:
    change(
        service.database_url, f"UPDATE schema_ledger SET state = 'started', finished_at = NULL WHERE number = {CODE}"
    )
    assert migrate(service, "status", "--check").returncode == 75


def test_newer_schema_is_0_when_compatible_and_78_when_not(service: Service, tmp_path: Path) -> None:
    newer = revisions.series(tmp_path / "r", revisions.sql("SELECT 1"))
    migrate_postgres(service.database_url, lambda _: None, series=newer)
    assert migrate(service, "status", "--check").returncode == 0
    change(service.database_url, f"UPDATE schema_ledger SET compatible_from = number WHERE number = {CODE + 1}")
    assert migrate(service, "status", "--check").returncode == 78


def test_database_that_is_away_is_75(service: Service) -> None:
    gone = databases.beside(service.database_url, "gone")
    assert migrate(service, "status", "--check", DATABASE_URL=gone).returncode == 75
    assert migrate(service, "postgres", DATABASE_URL=gone).returncode == 75


def test_edited_revision_is_78(service: Service, postgres: Postgres) -> None:
    change(service.database_url, "UPDATE schema_ledger SET checksum = 'x' WHERE number = 2")
    done = migrate(service, "postgres")
    assert done.returncode == 78
    assert "0002_reports" in done.stderr

import subprocess
import sys

import pytest
from sqlalchemy import create_engine, text

from worker_app import errors, migrate
from worker_app.store.postgres import Postgres


def quiet(_: str) -> None:
    return None


@pytest.mark.integration
def test_empty_database_is_brought_up_and_the_second_job_has_nothing_to_do(empty_database_url: str) -> None:
    assert migrate.migrate_postgres(empty_database_url, quiet) == len(migrate.steps())
    assert migrate.migrate_postgres(empty_database_url, quiet) == 0
    opened = Postgres(empty_database_url, pool_size=1)
    assert migrate.status(opened).state == "current"
    opened.close()


@pytest.mark.integration
def test_four_jobs_at_once_apply_each_revision_once(empty_database_url: str) -> None:
    script = "import sys; from worker_app import migrate; print(migrate.migrate_postgres(sys.argv[1], lambda _: None))"
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", script, empty_database_url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    answers = [job.communicate(timeout=30) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0, 0, 0], answers
    assert sorted(int(out) for out, _ in answers) == [0, 0, 0, len(migrate.steps())]


@pytest.mark.integration
def test_role_refuses_a_schema_that_is_behind_with_both_numbers_and_the_remedy(empty_database_url: str) -> None:
    opened = Postgres(empty_database_url, pool_size=1)
    with pytest.raises(errors.SchemaBehind, match=r"schema 0 is behind \d+; run `dev-hops migrate postgres`"):
        migrate.require_current(opened, 0, quiet)
    opened.close()


@pytest.mark.integration
def test_role_waits_for_the_schema(empty_database_url: str) -> None:
    opened = Postgres(empty_database_url, pool_size=1)

    def bring_up(_: float) -> None:
        migrate.migrate_postgres(empty_database_url, quiet)

    migrate.require_current(opened, 10, quiet, sleep=bring_up)
    assert migrate.status(opened).state == "current"
    opened.close()


@pytest.mark.integration
@pytest.mark.parametrize(("compatible_from", "state"), [(1, "ahead"), (99, "unusable")])
def test_newer_schema_is_used_only_when_it_is_compatible(database_url: str, compatible_from: int, state: str) -> None:
    with create_engine(database_url).begin() as connection:
        connection.execute(
            text(
                "INSERT INTO schema_ledger (store, number, name, checksum, state, compatible_from, app_version, finished_at) "
                "VALUES ('postgres', 99, '0099_later', '', 'finished', :compatible_from, '9', now())"
            ),
            {"compatible_from": compatible_from},
        )
    opened = Postgres(database_url, pool_size=1)
    assert migrate.status(opened).state == state
    if state == "unusable":
        with pytest.raises(errors.SchemaAhead):
            migrate.require_current(opened, 60, quiet)
    opened.close()


@pytest.mark.integration
def test_edited_revision_is_refused(database_url: str) -> None:
    with create_engine(database_url).begin() as connection:
        connection.execute(text("UPDATE schema_ledger SET checksum = 'x'"))
    with pytest.raises(errors.SettingsError, match="0001_spine"):
        migrate.migrate_postgres(database_url, quiet)


@pytest.mark.integration
def test_job_that_died_in_the_middle_is_run_again(empty_database_url: str) -> None:
    migrate.migrate_postgres(empty_database_url, quiet)
    with create_engine(empty_database_url).begin() as connection:
        connection.execute(text("UPDATE schema_ledger SET state = 'started', finished_at = NULL"))
    assert migrate.migrate_postgres(empty_database_url, quiet) == len(migrate.steps())


@pytest.mark.integration
def test_lock_that_another_job_holds_is_waited_for_and_then_given_up(database_url: str) -> None:
    with create_engine(database_url).connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(hashtextextended('dev-hops/migrate', 0))"))
        with pytest.raises(errors.TransientError, match="another migration job"):
            migrate.migrate_postgres(database_url, quiet, wait_seconds=0.1)

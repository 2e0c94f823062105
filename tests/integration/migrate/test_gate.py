"""The gate at the start: what it waits for, what it lets pass, and what it refuses at once.

M8 is an old program on a newer schema.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.integration.migrate import databases, revisions
from tests.integration.migrate.waits import session
from worker_app import errors
from worker_app.migrate import gate, status, steps
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

WANTED = (steps.postgres(),)
CODE = steps.postgres().newest


def quiet(_: str) -> None:
    return None


def never(_: float) -> None:
    raise AssertionError("it has waited where waiting cannot help")


@pytest.fixture
def newer(database_url: str, tmp_path: Path) -> Callable[[int], None]:
    """Brings the database one revision further than this program, which only programs from a number on may use."""

    def apply(compatible_from: int) -> None:
        migrate_postgres(
            database_url,
            quiet,
            series=revisions.series(tmp_path / "r", revisions.sql("SELECT 1"), compatible_from=compatible_from),
        )

    return apply


def test_schema_that_is_behind_is_told_with_both_numbers_and_the_remedy(behind: Postgres) -> None:
    with pytest.raises(
        errors.SchemaBehind, match=rf"schema {CODE - 1} is behind {CODE}; run `dev-hops migrate postgres`"
    ):
        gate.require_current(behind, WANTED, 0, quiet)


def test_database_without_a_ledger_counts_as_behind(empty_database_url: str) -> None:
    opened = Postgres(empty_database_url, pool_size=1)
    with pytest.raises(errors.SchemaBehind, match="schema 0 is behind"):
        gate.require_current(opened, WANTED, 0, quiet)
    opened.close()


def test_started_step_counts_as_behind(postgres: Postgres) -> None:
    with postgres.transaction() as tx:
        tx.execute(text("UPDATE schema_ledger SET state = 'started', finished_at = NULL WHERE number = 1"))
    with pytest.raises(errors.SchemaBehind, match="a migration has started"):
        gate.require_current(postgres, WANTED, 0, quiet)


def test_role_goes_on_when_the_job_has_ended_while_it_waits(behind_url: str, behind: Postgres) -> None:
    said: list[str] = []

    def bring_up(_: float) -> None:
        migrate_postgres(behind_url, quiet)

    gate.require_current(behind, WANTED, 10, said.append, sleep=bring_up)
    assert len(said) == 1
    assert status.of_postgres(behind).state == "current"


def test_each_reason_to_wait_is_told_once(behind_url: str, behind: Postgres) -> None:
    said: list[str] = []
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 5:
            migrate_postgres(behind_url, quiet)

    gate.require_current(behind, WANTED, 60, said.append, sleep=wait)
    assert len(looks) == 5
    assert len(said) == 1


def test_database_that_is_away_at_first_is_waited_for(database_url: str) -> None:
    late_url = databases.beside(database_url, "late")
    away = Postgres(late_url, pool_size=1)
    said: list[str] = []

    def bring_up(_: float) -> None:
        with session(database_url) as connection:
            connection.execute(text(f"CREATE DATABASE {away.engine.url.database}"))
        migrate_postgres(late_url, quiet)

    gate.require_current(away, WANTED, 10, said.append, sleep=bring_up)
    assert "Postgres does not answer" in said[0]
    away.close()


def test_database_that_stays_away_is_told_as_such(database_url: str) -> None:
    away = Postgres(databases.beside(database_url, "gone"), pool_size=1)
    with pytest.raises(errors.StoreAway):
        gate.require_current(away, WANTED, 0, quiet)
    away.close()


def test_newer_schema_that_is_compatible_is_used_with_one_warning(
    postgres: Postgres, newer: Callable[[int], None]
) -> None:
    newer(CODE)
    said: list[str] = []
    gate.require_current(postgres, WANTED, 0, said.append, sleep=never)
    assert said == [f"postgres: schema {CODE + 1} is newer than this program ({CODE}), and compatible"]


def test_newer_schema_that_is_not_compatible_is_refused_at_once(
    postgres: Postgres, newer: Callable[[int], None]
) -> None:
    newer(CODE + 1)
    with pytest.raises(
        errors.SchemaAhead, match=rf"schema {CODE + 1} is newer .* \({CODE}\); it needs {CODE + 1} or later"
    ):
        gate.require_current(postgres, WANTED, 60, quiet, sleep=never)


def test_both_stores_are_looked_at(postgres: Postgres) -> None:
    step = steps.postgres().steps[0]
    clickhouse = replace(steps.postgres(), store="clickhouse", steps=(step,))
    with pytest.raises(
        errors.SchemaBehind, match=r"^clickhouse: schema 0 is behind 1; run `dev-hops migrate clickhouse`$"
    ):
        gate.require_current(postgres, (*WANTED, clickhouse), 0, quiet)

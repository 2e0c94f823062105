import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clickhouse.address import PASSWORD
from tests.clickhouse.running import ClickHouse
from tests.command_line import dev_hops
from tests.integration.migrate import clickhouse_steps
from tests.processes import Service, wait_for
from tests.seed import column, execute
from worker_app import errors
from worker_app.migrate.clickhouse import migrate_clickhouse
from worker_app.migrate.steps import Series
from worker_app.store.postgres import Postgres

STATES = "SELECT state FROM schema_ledger WHERE store = 'clickhouse' ORDER BY number"


@pytest.fixture
def known(tmp_path: Path) -> Series:
    """Three steps of a test."""
    folder = tmp_path / "steps"
    folder.mkdir()
    return clickhouse_steps.written(folder)


@pytest.fixture
def urls(database_url: str, empty_clickhouse_url: str) -> tuple[str, str]:
    """Where the ledger is, and the ClickHouse to change."""
    return database_url, empty_clickhouse_url


def quiet(_: str) -> None:
    pass


def migrate(service: Service, url: str, *arguments: str) -> tuple[int, Any, str]:
    """Exit code, document and messages of a verb of ours."""
    done = dev_hops("migrate", *arguments, "--json", environment=service.environment("job", CLICKHOUSE_URL=url))
    assert PASSWORD not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


@pytest.mark.integration
def test_job_makes_database_tables_and_both_ledgers(
    clickhouse: ClickHouse, urls: tuple[str, str], postgres: Postgres
) -> None:
    said: list[str] = []
    assert migrate_clickhouse(*urls, said.append) == 1
    assert said == ["applying 0001_metric_daily"]
    name = urls[1].rpartition("/")[2]
    assert clickhouse.query("SELECT number, name FROM schema_steps", name) == "1\t0001_metric_daily"
    assert clickhouse.query(
        "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = 'metric_daily'", name
    ) == ("ReplacingMergeTree")
    assert column(postgres, STATES) == ["finished"]
    assert migrate_clickhouse(*urls, said.append) == 0


@pytest.mark.integration
def test_newer_program_applies_only_what_is_new(known: Series, urls: tuple[str, str]) -> None:
    assert migrate_clickhouse(*urls, quiet, series=replace(known, steps=known.steps[:2])) == 2
    said: list[str] = []
    assert migrate_clickhouse(*urls, said.append, series=known) == 1
    assert said == ["applying 0003_hops"]


@pytest.mark.integration
def test_two_jobs_at_once_apply_each_step_once(
    clickhouse: ClickHouse, known: Series, urls: tuple[str, str], postgres: Postgres
) -> None:
    said: list[str] = []
    with (
        clickhouse.failing("delay", matching="CREATE TABLE IF NOT EXISTS walks", seconds=1.5),
        ThreadPoolExecutor(2) as threads,
    ):
        jobs = [threads.submit(migrate_clickhouse, *urls, said.append, series=known) for _ in range(2)]
        assert sorted(job.result(20) for job in jobs) == [0, 3]
        assert len([text for text in clickhouse.asked() if text in clickhouse_steps.STATEMENTS.values()]) == 3
    assert [text for text in said if "waiting" in text] == ["another migration job is running; waiting for it"]
    assert column(postgres, STATES) == ["finished"] * 3


@pytest.mark.integration
def test_job_that_waits_too_long_says_later(clickhouse: ClickHouse, known: Series, urls: tuple[str, str]) -> None:
    with clickhouse.failing("delay", matching="walks", seconds=20, times=1), ThreadPoolExecutor(1) as threads:
        first = threads.submit(migrate_clickhouse, *urls, quiet, series=known)
        wait_for(lambda: [text for text in clickhouse.asked() if "walks" in text], "the first job is at work")
        with pytest.raises(errors.TransientError, match="another migration job"):
            migrate_clickhouse(*urls, quiet, wait_seconds=0.1, series=known)
        clickhouse.forget()
        assert first.result(20) == 3


@pytest.mark.integration
def test_edited_file_of_an_applied_step_is_refused(known: Series, urls: tuple[str, str], postgres: Postgres) -> None:
    migrate_clickhouse(*urls, quiet, series=known)
    edited = clickhouse_steps.written(known.folder, **{"0002_walks_length": "SELECT 1"})
    with pytest.raises(errors.SettingsError, match="0002_walks_length"):
        migrate_clickhouse(*urls, quiet, series=edited)
    execute(postgres, "DELETE FROM schema_ledger WHERE store = 'clickhouse'")
    with pytest.raises(errors.SettingsError, match="0002_walks_length"):
        migrate_clickhouse(*urls, quiet, series=edited)
    assert column(postgres, STATES) == []


@pytest.mark.integration
def test_two_files_of_one_number_are_refused(known: Series) -> None:
    with pytest.raises(errors.SettingsError, match="there are two"):
        clickhouse_steps.written(known.folder, **{"0002_other": "SELECT 1"})


@pytest.mark.integration
@pytest.mark.parametrize("forgotten", ["", "DELETE FROM schema_ledger WHERE store = 'clickhouse'"])
def test_newer_ledger_is_refused_and_nothing_is_done(
    clickhouse: ClickHouse, known: Series, urls: tuple[str, str], postgres: Postgres, forgotten: str
) -> None:
    """Either ledger is enough to know it."""
    migrate_clickhouse(*urls, quiet, series=known)
    if forgotten:
        execute(postgres, forgotten)
    before = column(postgres, STATES)
    with pytest.raises(errors.SettingsError, match="newer than this program"):
        migrate_clickhouse(*urls, quiet, series=replace(known, steps=known.steps[:2]))
    assert column(postgres, STATES) == before


@pytest.mark.integration
def test_failing_statement_names_step_and_code_and_can_be_mended(
    known: Series, urls: tuple[str, str], postgres: Postgres
) -> None:
    broken = clickhouse_steps.written(
        known.folder, **{"0002_walks_length": "ALTER TABLE nowhere ADD COLUMN IF NOT EXISTS x Int8"}
    )
    with pytest.raises(errors.MigrationFailed, match=r"0002_walks_length.*code 60") as caught:
        migrate_clickhouse(*urls, quiet, series=broken)
    assert PASSWORD not in str(caught.value)
    assert column(postgres, STATES) == ["finished", "started"]
    assert migrate_clickhouse(*urls, quiet, series=clickhouse_steps.written(known.folder)) == 2


@pytest.mark.integration
def test_clickhouse_that_is_away_in_the_middle_is_told_and_leaves_the_step_started(
    clickhouse: ClickHouse, known: Series, urls: tuple[str, str], postgres: Postgres
) -> None:
    with clickhouse.failing("unavailable", matching="ALTER"), pytest.raises(errors.StoreAway):
        migrate_clickhouse(*urls, quiet, series=known)
    assert column(postgres, STATES) == ["finished", "started"]
    assert migrate_clickhouse(*urls, quiet, series=known) == 2


@pytest.mark.integration
def test_postgres_that_is_away_is_told_before_anything_is_done(
    clickhouse: ClickHouse, empty_clickhouse_url: str
) -> None:
    with pytest.raises(errors.StoreAway):
        migrate_clickhouse("postgresql+psycopg2://u:p@127.0.0.1:1/n", empty_clickhouse_url, quiet)
    assert clickhouse.asked() == []


@pytest.mark.integration
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_emptied_or_restored_clickhouse_gets_the_missing_steps_again(
    clickhouse: ClickHouse, known: Series, urls: tuple[str, str], postgres: Postgres, kept: int
) -> None:
    migrate_clickhouse(*urls, quiet, series=known)
    name = urls[1].rpartition("/")[2]
    clickhouse.query(f"DROP DATABASE {name}")
    older = replace(known, steps=known.steps[:kept])
    execute(postgres, "CREATE TABLE aside AS TABLE schema_ledger")
    execute(postgres, "DELETE FROM schema_ledger WHERE store = 'clickhouse'")
    migrate_clickhouse(*urls, quiet, series=older)
    execute(postgres, "TRUNCATE schema_ledger")
    execute(postgres, "INSERT INTO schema_ledger SELECT * FROM aside")

    said: list[str] = []
    assert migrate_clickhouse(*urls, said.append, series=known) == 3 - kept
    assert "it was emptied" in said[0] or "applying again" in said[0]
    assert clickhouse.query("DESCRIBE walks", name).splitlines()[1].startswith("length\tUInt32")
    assert column(postgres, STATES) == ["finished"] * 3


@pytest.mark.integration
def test_verb_without_clickhouse_has_nothing_to_do(service: Service) -> None:
    code, answer, _ = migrate(service, "", "clickhouse")
    assert (code, answer) == (0, {"store": "clickhouse", "applied": 0})


@pytest.mark.integration
def test_status_tells_each_state_of_clickhouse_by_its_exit_code(
    service: Service, clickhouse: ClickHouse, empty_clickhouse_url: str, postgres: Postgres
) -> None:
    url, name = empty_clickhouse_url, empty_clickhouse_url.rpartition("/")[2]

    def status() -> tuple[int, str]:
        code, answer, _ = migrate(service, url, "status", "--check")
        assert answer is None or [item["store"] for item in answer] == ["postgres", "clickhouse"]
        return code, answer[1]["state"] if answer else ""

    assert status() == (75, "behind")
    assert migrate(service, url, "clickhouse")[:2] == (0, {"store": "clickhouse", "applied": 1})
    assert status() == (0, "current")
    with clickhouse.failing("unavailable"):
        assert status() == (75, "")
    clickhouse.query(f"DROP DATABASE {name}")
    assert status() == (1, "disagrees")
    assert migrate(service, url, "clickhouse")[0] == 0
    assert status() == (0, "current")
    execute(postgres, "DELETE FROM schema_ledger WHERE store = 'clickhouse'")
    assert status() == (1, "disagrees")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("url", "code"),
    [("clickhouse://h/d", 78), ("http://u:canary@h:8123", 78), ("http://u:canary@127.0.0.1:1/d", 75)],
)
def test_verb_says_what_is_wrong_with_the_address(service: Service, url: str, code: int) -> None:
    found, _, said = migrate(service, url, "clickhouse")
    assert found == code
    assert "CLICKHOUSE_URL" in said or "ClickHouse" in said
    assert "canary" not in said

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clickhouse.running import ClickHouse
from tests.integration.migrate import clickhouse_steps
from tests.processes import wait_for
from tests.seed import column
from worker_app.migrate.clickhouse import migrate_clickhouse
from worker_app.store.postgres import Postgres

STAMP = "INSERT INTO schema_steps"
GAPS = {  # where the job stands when it is killed -> what the front does with which statement, {} of the step
    "started": ("drop", "{}"),
    "executed": ("lose", "{}"),
    "unstamped": ("drop", STAMP),
    "stamped": ("lose", STAMP),
}


def kill_at(gap: str, number: int, *, front: ClickHouse, urls: tuple[str, str], folder: Path) -> None:
    """Run the job as a process and kill it -9 in this gap of step `number`."""
    kind, matching = GAPS[gap]
    statement = list(clickhouse_steps.STATEMENTS.values())[number - 1]
    after = number - 1 if matching == STAMP else 0
    matching = matching.format(statement)
    command = [sys.executable, "-m", "tests.integration.migrate.clickhouse_steps", *urls, str(folder)]
    with front.failing(kind, matching=matching, seconds=20.0, after=after):  # type: ignore[arg-type]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: len([said for said in front.asked() if matching in said]) > after, f"{gap} of {number}")
        finally:
            job.send_signal(signal.SIGKILL)
            job.wait(10)


@pytest.mark.integration
@pytest.mark.parametrize("gap", list(GAPS))
@pytest.mark.parametrize("number", [1, 2, 3])
def test_killed_job_is_simply_run_again(
    clickhouse: ClickHouse,
    empty_clickhouse_url: str,
    postgres: Postgres,
    database_url: str,
    tmp_path: Path,
    gap: str,
    number: int,
) -> None:
    known = clickhouse_steps.written(tmp_path)
    name = empty_clickhouse_url.rpartition("/")[2]
    kill_at(gap, number, front=clickhouse, urls=(database_url, empty_clickhouse_url), folder=tmp_path)
    states = "SELECT state FROM schema_ledger WHERE store = 'clickhouse' ORDER BY number"
    assert column(postgres, states) == ["finished"] * (number - 1) + ["started"]
    stamped = int(clickhouse.query("SELECT uniqExact(number) FROM schema_steps", name))
    assert stamped == (number if gap == "stamped" else number - 1)
    if number > 1:
        clickhouse.query("INSERT INTO walks (a) VALUES (1), (2)", name)

    said: list[str] = []
    applied = migrate_clickhouse(database_url, empty_clickhouse_url, said.append, series=known)

    assert said == [f"applying {step.name}" for step in known.steps[number - 1 :]]
    assert applied == len(said)
    assert column(postgres, states) == ["finished"] * 3
    assert (
        clickhouse.query("SELECT groupArray(number) FROM (SELECT * FROM schema_steps FINAL ORDER BY number)", name)
        == "[1,2,3]"
    )
    assert clickhouse.query("DESCRIBE hops", name).startswith("b\tString")
    if number > 1:
        assert clickhouse.query("SELECT a, length FROM walks ORDER BY a", name) == "1\t7\n2\t7"
    assert migrate_clickhouse(database_url, empty_clickhouse_url, said.append, series=known) == 0

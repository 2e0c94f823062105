"""Steps of a test, and the job as a process of its own: `python -m tests.integration.migrate.clickhouse_steps URL URL FOLDER`.

The first address is that of the ledger, the second that of the ClickHouse to change.
"""

import sys
from pathlib import Path

from worker_app import errors
from worker_app.cli.exits import exit_code
from worker_app.migrate import steps
from worker_app.migrate.clickhouse import migrate_clickhouse
from worker_app.migrate.steps import Series

STATEMENTS = {
    "0001_walks": "CREATE TABLE IF NOT EXISTS walks (a UInt32) ENGINE = MergeTree ORDER BY a",
    "0002_walks_length": "ALTER TABLE walks ADD COLUMN IF NOT EXISTS length UInt32 DEFAULT 7",
    "0003_hops": "CREATE TABLE IF NOT EXISTS hops (b String) ENGINE = MergeTree ORDER BY b",
}


def written(folder: Path, **changes: str) -> Series:
    """The steps as files in `folder`, with `changes` in place of a statement or beside them."""
    for name, statement in {**STATEMENTS, **changes}.items():
        (folder / f"{name}.sql").write_text(statement)
    return series(folder)


def series(folder: Path) -> Series:
    """The steps that lie in `folder`; older programs may run on each."""
    return steps.read("clickhouse", folder, ".sql", dict.fromkeys(range(1, 10), 1))


def main(database_url: str, url: str, folder: str) -> int:
    """The job's exit code."""
    try:
        migrate_clickhouse(database_url, url, lambda _: None, series=series(Path(folder)))
    except errors.DevHopsError as error:
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

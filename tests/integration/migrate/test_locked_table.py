"""M4: a migration that has to wait for a table lets readers pass, says who is in its way, and goes through in the end."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.integration.migrate import revisions
from tests.integration.migrate.waits import DEADLINE_SECONDS, session
from tests.seed import column
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

# What a reader may take at most: the job's lock timeout of 2 s, and as much again for a busy machine.
READER_TIMEOUT = "4s"


class Reader:
    """Reads a table again and again in another thread; a read that takes too long is a fault."""

    def __init__(self, url: str) -> None:
        self.reads = 0
        self.faults: list[DBAPIError] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(DEADLINE_SECONDS)

    def _read(self) -> None:
        with session(self._url) as connection:
            connection.execute(text(f"SET statement_timeout = '{READER_TIMEOUT}'"))
            while not self._over.wait(0.05):
                try:
                    connection.execute(text("SELECT count(*) FROM orgs"))
                    self.reads += 1
                except DBAPIError as error:
                    self.faults.append(error)


def test_long_read_delays_the_migration_and_no_other_reader(
    database_url: str, postgres: Postgres, tmp_path: Path
) -> None:
    wanted = revisions.series(tmp_path / "r", revisions.sql("ALTER TABLE orgs ADD COLUMN extra text"))
    said: list[str] = []
    let_go = threading.Event()

    def report(line: str) -> None:
        said.append(line)
        if "try 1 of 10" in line:
            let_go.set()

    with session(database_url) as long_read, Reader(database_url) as reader:
        long_read.execute(text("BEGIN"))
        pid = long_read.execute(text("SELECT pg_backend_pid() FROM orgs UNION SELECT pg_backend_pid()")).scalar_one()
        job = threading.Thread(target=migrate_postgres, args=(database_url, report), kwargs={"series": wanted})
        job.start()
        assert let_go.wait(DEADLINE_SECONDS)
        before = reader.reads
        long_read.execute(text("COMMIT"))
        job.join(DEADLINE_SECONDS)
    refused = next(line for line in said if "try 1 of 10" in line)
    assert f"pid {pid} (no name, idle in transaction, transaction open for" in refused
    assert "SELECT" not in refused
    assert before > 0
    assert reader.faults == []
    assert column(postgres, "SELECT version_num FROM alembic_version") == [f"{revisions.NEXT:04}"]

"""What sessions of a test's database do, seen from another one, and the lines of a job that runs as a process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection
from sqlalchemy.pool import NullPool

from tests.processes import wait_for

CHECKOUT = Path(__file__).parents[3]
DEADLINE_SECONDS = 20.0


class Job:
    """A migration job with the revisions of a folder, as a process that ends with the `with` block; its lines lie in a file."""

    def __init__(self, url: str, folder: Path, log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "tests.integration.migrate.job", url, str(folder)]
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, cwd=CHECKOUT, stdout=out, stderr=out)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def text(self) -> str:
        """What it has said."""
        return self._log.read_text()

    def wait_for(self, part: str) -> None:
        """Wait until it has said `part`."""
        wait_for(lambda: part in self.text, f"the job says {part!r}", DEADLINE_SECONDS)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(timeout=DEADLINE_SECONDS)

    def kill(self) -> None:
        """As the kernel would."""
        self.process.kill()
        self.process.wait(timeout=DEADLINE_SECONDS)


@contextmanager
def session(url: str) -> Iterator[Connection]:
    """A session of its own in autocommit."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection


def wait_until_running(watcher: Connection, query: str) -> None:
    """Wait until another session of the database runs a statement that begins with `query`."""
    look = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' "
        "AND pid <> pg_backend_pid() AND query LIKE :query"
    )
    wait_for(
        lambda: watcher.execute(look, {"query": f"{query}%"}).scalar_one() > 0,
        f"a session runs {query}",
        DEADLINE_SECONDS,
    )

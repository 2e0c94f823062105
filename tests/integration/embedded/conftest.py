"""What the tests of the embedded stores share: stores that leave nothing behind, and an owner that is killed."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from worker_app.embedded.postgres import EmbeddedPostgres

PASSWORD = "p@ss 'w\\ord/:"
MakePostgres = Callable[..., EmbeddedPostgres]
Ask = Callable[[EmbeddedPostgres, str], str]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has to lend Postgres an account")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, which tmp_path is not."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def run_and_die() -> Callable[[str], str]:
    """Run Python code in a process that is killed after its last line, and return what it printed."""

    def run(code: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-c", f"{code}\nimport os, sys\nsys.stdout.flush()\nos.kill(os.getpid(), 9)"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert ended.returncode == -9, ended.stderr
        return ended.stdout.strip()

    return run


@pytest.fixture
def make_postgres(tmp_path: Path) -> Iterator[MakePostgres]:
    """Makes a Postgres, in one folder of the test unless told otherwise; its data is removed at the end."""
    made: list[EmbeddedPostgres] = []

    def make(
        folder: Path = tmp_path / "up",
        *,
        password: str = PASSWORD,
        port: int | None = None,
        durable: bool = False,
        package: Path | None = None,
    ) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(folder, password=password, port=port, durable=durable, package=package))
        return made[-1]

    yield make
    for postgres in made:
        postgres.delete_data()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a stopped Postgres, for tests that leave the data whole: initdb is what takes time."""
    folder = tmp_path_factory.mktemp("shared") / "up"
    postgres = EmbeddedPostgres(folder, password=PASSWORD, durable=False)
    postgres.start()
    postgres.stop()
    yield folder
    postgres.delete_data()


@pytest.fixture
def reopen(shared: Path) -> Iterator[MakePostgres]:
    """Makes a Postgres on the shared folder; it is stopped at the end."""
    made: list[EmbeddedPostgres] = []

    def make(*, password: str = PASSWORD, port: int | None = None, durable: bool = False) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(shared, password=password, port=port, durable=durable))
        return made[-1]

    yield make
    for postgres in made:
        postgres.stop()


@pytest.fixture
def ask() -> Ask:
    """Runs one statement in a connection of its own; gives the first value as text, empty when there is none."""

    def run(postgres: EmbeddedPostgres, sql: str) -> str:
        with closing(psycopg2.connect(postgres.dsn.replace("+psycopg2", ""))) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(sql)
                row = cursor.fetchone() if cursor.description else None
                return "" if row is None or row[0] is None else str(row[0])

    return run

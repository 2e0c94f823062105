"""A sync of real commits that stands still after its first page until the test lets it go on."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from tests.containers import IMAGE, docker, wait_for
from tests.image.stage import HARDENED, WRITABLE, Stage
from tests.seed import Seed, manual_run, seed

PAGE = 1000  # commits that one page of git holds
PAGES = 4
FIRST_SECOND = 1_700_000_000
KEY = 4711  # of the advisory lock behind which further pages wait
REPOSITORY = f"{WRITABLE}/source.git"
GIT = {"GIT_ALLOW_FILE": "true", "GIT_MIRRORS_DIR": f"{WRITABLE}/mirrors"}
BARRIER = f"""
CREATE FUNCTION wait_for_the_test() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM commits) >= {PAGE} THEN PERFORM pg_advisory_xact_lock_shared({KEY}); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER wait_for_the_test BEFORE INSERT ON commits FOR EACH STATEMENT EXECUTE FUNCTION wait_for_the_test()
"""


def history(commits: int) -> bytes:
    """A stream for `git fast-import`: empty commits on main, a minute apart."""
    who = "Builder <builder@example.org>"
    return b"".join(
        f"commit refs/heads/main\ncommitter {who} {FIRST_SECOND + 60 * number} +0000\ndata 1\nx\n".encode()
        for number in range(commits)
    )


@dataclass(frozen=True, slots=True)
class SlowSync:
    """The sync and the volume with its repository, which every worker of it mounts."""

    stage: Stage
    volume: str
    made: Seed

    @property
    def options(self) -> tuple[str, ...]:
        """What a container needs beside the usual: the repository, and room for its mirror."""
        return (*HARDENED, f"--volume={self.volume}:{WRITABLE}")

    def ask(self) -> UUID:
        """Ask for a run."""
        return manual_run(self.stage.postgres, self.made)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within the block no page after the first is written."""
        with self.stage.postgres.transaction() as tx:
            tx.execute(text(f"SELECT pg_advisory_xact_lock({KEY})"))
            tx.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            yield

    def wait_for_the_first_page(self) -> None:
        """Return once a page is written, the cursor behind it, and the next page waits."""
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = :key AND NOT granted"
        wait_for(lambda: self.stage.column(waiting, key=KEY) == [1], "the second page waits")

    def commits(self) -> int:
        """Commits that are stored."""
        return int(str(self.stage.column("SELECT count(*) FROM commits")[0]))

    def batch(self, column: str) -> object:
        """A column of its one batch of commits."""
        (value,) = self.stage.column(f"SELECT {column} FROM sync_batches WHERE dataset = 'commits'")
        return value

    def wait_for_its_end(self) -> None:
        """Return once the run is over."""
        states = "SELECT state FROM sync_runs WHERE kind = 'sync'"
        wait_for(lambda: self.stage.column(states) == ["succeeded"], f"succeeded, not {self.stage.column(states)}")


@contextmanager
def slow_sync(stage: Stage) -> Iterator[SlowSync]:
    """A repository in a volume of its own, and a source that reads it."""
    volume = docker("volume", "create", "--label", stage.yard.label).strip()
    try:
        script = f"git init -q --bare -b main {REPOSITORY} && git -C {REPOSITORY} fast-import --quiet"
        mount = ("--volume", f"{volume}:{WRITABLE}", "--network", "none")
        command = [
            "docker",
            "run",
            "--rm",
            "--interactive",
            *mount,
            "--label",
            stage.yard.label,
            IMAGE,
            "sh",
            "-c",
            script,
        ]
        subprocess.run(command, input=history(PAGE * PAGES), check=True, capture_output=True, timeout=60)
        stage.stores.statement(BARRIER, f"test_{stage.number}")
        yield SlowSync(stage, volume, seed(stage.postgres, path=REPOSITORY))
    finally:
        if names := [container.name for container in stage.started]:
            docker("rm", "--force", "--volumes", *names)
            stage.started.clear()
        docker("volume", "rm", volume)

"""The tutorial, command by command, as a newcomer types it: three terminals, one home folder, nothing else."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import wait_for
from tests.repositories import Repository, generate
from worker_app.embedded.folder import Folder
from worker_app.embedded.stores import Stores

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(300)]
COMMITS = 50
START_SECONDS = 120.0


def blocks(page: Path) -> list[str]:
    """What a page tells its reader to type, in order."""
    return re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Desk:
    """A newcomer's place: the checkout, and a home with a repository in `src/rocket`."""

    checkout: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}

    def type(self, block: str) -> str:
        """What the commands of a block print, in a terminal where the environment of section 2 is active."""
        script = f"set -e\n. .venv/bin/activate\n{block}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.checkout, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def terminal(self, name: str, block: str) -> Iterator[Path]:
        """A terminal in which a block goes on running: gives what it shows; Ctrl-C at the end has to end it."""
        shown = self.home / f"{name}.log"
        with shown.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", block],
                cwd=self.checkout,
                env=self.environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            yield shown
            os.killpg(process.pid, signal.SIGINT)
            process.wait(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=30)


@pytest.fixture
def desk(checkout: Path, tmp_path: Path) -> Iterator[Desk]:
    if not (checkout / ".venv/bin/dev-hops").exists():
        pytest.skip("the tutorial needs `make install` in this checkout")
    generate(tmp_path / "src/rocket", commits=COMMITS)
    made = Desk(checkout, tmp_path)
    yield made
    folder = tmp_path / ".local/share/dev-hops"
    subprocess.run(
        [str(checkout / ".venv/bin/dev-hops"), "down", "--dir", str(folder)],
        env=made.environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    Stores(Folder(folder)).delete_data()


def consumers(desk: Desk, block: str) -> int:
    """How many workers consume the queue of git, by the table that the page's commands draw."""
    (line,) = [line for line in desk.type(block.splitlines()[0]).splitlines() if line.strip().startswith("sync.git ")]
    return int(line.split()[-1])


def test_every_command_of_the_tutorial_does_what_the_page_says(desk: Desk) -> None:
    start, look, read, numbers, again, schedule, second, both = blocks(desk.checkout / "docs/tutorial/first-sync.md")
    with desk.terminal("first", start) as shown:
        wait_for(lambda: "Ctrl-C stops everything" in shown.read_text(), "everything runs", START_SECONDS)
        assert "metrics" in desk.type(look)
        assert "succeeded" in desk.type(read)
        assert "COMMITS" in desk.type(numbers)
        Repository(desk.home / "src/rocket").commit()
        assert "succeeded" in desk.type(again)
        assert "H/15" in desk.type(schedule)
        assert consumers(desk, both) == 1
        with desk.terminal("third", second):
            wait_for(lambda: consumers(desk, both) == 2, "the second worker is there", START_SECONDS)
            assert "succeeded" in desk.type(both)
        assert consumers(desk, both) == 1
    assert desk.type("dev-hops status || true")

import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import psutil
import pytest

from tests import repositories
from worker_app import errors, records
from worker_app.providers import git, git_command

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ROOT = Path(__file__).parents[3]


@pytest.fixture
def reader(tmp_path: Path) -> git.GitReader:
    return git.GitReader(tmp_path / "mirrors", allow_file=True, page_size=10)


def mirror_of(reader: git.GitReader) -> Path:
    return reader.mirrors / str(UUID(int=1)) / f"{UUID(int=2)}.git"


def git_children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.name().startswith("git")]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "app"
    repositories.generate(path, commits=1000)
    return path


@pytest.fixture
def half_read(long: Path, reader: git.GitReader) -> Iterator[Generator[records.Page, None, None]]:
    """The pages of a history so long that git waits for us in the middle of it."""
    source = repositories.source_of(long)
    walk = reader.begin(source, records.Cursor(), NOW)
    pages = replace(reader, silence_timeout_seconds=0.2).read(source, walk, None)
    next(pages)
    assert len(git_children()) == 1
    yield pages
    assert git_children() == []


def test_closing_the_iterator_ends_git(half_read: Generator[records.Page, None, None]) -> None:
    half_read.close()


def test_time_that_the_caller_takes_is_no_silence(half_read: Generator[records.Page, None, None]) -> None:
    time.sleep(0.4)

    assert sum(len(page.records) for page in half_read) == 990


def test_git_that_falls_silent_is_ended(
    half_read: Generator[records.Page, None, None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_command, "TERMINATE_SECONDS", 0.1)  # a stopped process hears no SIGTERM
    git_children()[0].suspend()

    with pytest.raises(errors.TransientError, match=r"git log was stopped: it said nothing for 0\.2 s"):
        list(half_read)


def test_git_that_is_killed_is_no_fault_of_the_mirror(
    half_read: Generator[records.Page, None, None], reader: git.GitReader
) -> None:
    git_children()[0].send_signal(signal.SIGKILL)

    with pytest.raises(errors.TransientError, match="git log ended with status -9"):
        list(half_read)

    assert mirror_of(reader).exists()


GEVENT_PROGRAM = """
from gevent import monkey
monkey.patch_all()
import fcntl, sys, time
from datetime import UTC, datetime
from pathlib import Path
import gevent
from tests import repositories
from worker_app import records
from worker_app.providers import git

gaps, last = [], time.monotonic()
def tick():
    global last
    while True:
        gevent.sleep(0.01)
        now = time.monotonic()
        gaps.append(now - last)
        last = now

ticker = gevent.spawn(tick)
gevent.sleep(0)
path, mirrors = Path(sys.argv[1]), Path(sys.argv[2])
reader = git.GitReader(mirrors, allow_file=True, lock_timeout_seconds=5)
source = repositories.source_of(path)
walk = reader.begin(source, records.Cursor(), datetime.now(UTC))
pages = reader.read(source, walk, None)
count = sum(len(page.records) for page in pages) - 1
half = git.GitReader(mirrors, allow_file=True, page_size=10).read(source, walk, None)
next(half)
half.close()
with next(mirrors.glob("*/*.lock")).open() as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    gevent.spawn_later(0.1, fcntl.flock, lock, fcntl.LOCK_UN)
    assert reader.begin(source, records.Cursor(), walk.started_at) == walk
ticker.kill()
print(count, len(gaps), max(gaps))
"""


def test_other_greenlets_go_on_while_git_is_read_or_waited_for(tmp_path: Path) -> None:
    repositories.generate(tmp_path / "app", commits=4000, merge_every=5, branches=2)

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", GEVENT_PROGRAM, tmp_path / "app", tmp_path / "mirrors"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=25,
    )

    assert done.returncode == 0, done.stderr
    count, ticks, longest_gap = done.stdout.split()
    assert int(count) == 4000
    assert int(ticks) > 10
    assert float(longest_gap) < 0.5

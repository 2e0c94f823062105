import fcntl
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from uuid import UUID

import pytest

from tests import repositories
from tests.repositories import Repository
from worker_app import errors, records
from worker_app.providers import git

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "app")


@pytest.fixture
def reader(tmp_path: Path) -> git.GitReader:
    return git.GitReader(tmp_path / "mirrors", allow_file=True, page_size=10)


def mirror_of(reader: git.GitReader) -> Path:
    return reader.mirrors / str(UUID(int=1)) / f"{UUID(int=2)}.git"


def begin(reader: git.GitReader, path: Path, tips: dict[str, str] | None = None) -> records.Walk:
    return reader.begin(repositories.source_of(path), records.Cursor(tips=tips or {}), NOW)


def read(reader: git.GitReader, path: Path, walk: records.Walk) -> set[str]:
    pages = reader.read(repositories.source_of(path), walk, None)
    return {record.ext_id for page in pages for record in page.records if isinstance(record, records.Commit)}


@pytest.mark.parametrize(
    "lock", ["refs/heads/main.lock", "packed-refs.lock", "HEAD.lock", "config.lock", "shallow.lock"]
)
def test_stale_lock_of_a_killed_git_is_no_obstacle(repository: Repository, reader: git.GitReader, lock: str) -> None:
    old = repository.commit({b"a": b"1\n"})
    begin(reader, repository.path)
    (mirror_of(reader) / lock).parent.mkdir(parents=True, exist_ok=True)
    (mirror_of(reader) / lock).touch()
    new = repository.commit({b"a": b"2\n"})

    walk = begin(reader, repository.path, {"refs/heads/main": old})

    assert read(reader, repository.path, walk) == {new}


def damage_head(mirror: Path) -> None:
    (mirror / "HEAD").unlink()


def damage_packs(mirror: Path) -> None:
    for file in mirror.glob("objects/??/*"):
        file.unlink()  # a link of the source's own file, which must not be written to
        file.write_bytes(b"garbage")


def remove_objects(mirror: Path) -> None:
    shutil.rmtree(mirror / "objects")


@pytest.mark.parametrize("damage", [damage_head, damage_packs, remove_objects])
def test_damaged_mirror_is_made_anew(
    repository: Repository, reader: git.GitReader, caplog: pytest.LogCaptureFixture, damage: object
) -> None:
    assert callable(damage)
    old = repository.commit({b"a": b"1\n"})
    begin(reader, repository.path)
    damage(mirror_of(reader))
    new = repository.commit({b"a": b"2\n"})

    with caplog.at_level(logging.WARNING):
        walk = begin(reader, repository.path, {"refs/heads/main": old})

    assert read(reader, repository.path, walk) == {new}
    assert [record.getMessage() for record in caplog.records] == ["git_mirror_discarded"]


def test_damage_found_while_reading_is_healed_by_the_next_try(repository: Repository, reader: git.GitReader) -> None:
    shas = {repository.commit({b"a": b"%d\n" % n}) for n in range(3)}
    walk = begin(reader, repository.path)
    blob = repository.sha("main:a")
    torn = mirror_of(reader) / "objects" / blob[:2] / blob[2:]
    torn.unlink()

    with pytest.raises(errors.TransientError, match="git log"):
        read(reader, repository.path, walk)

    assert read(reader, repository.path, walk) == shas


def test_what_a_kill_left_behind_is_cleared(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b"a": b"1\n"})
    for suffix in (".new", ".old"):
        mirror_of(reader).with_suffix(suffix).mkdir(parents=True)
        (mirror_of(reader).with_suffix(suffix) / "HEAD").write_text("half")

    assert read(reader, repository.path, begin(reader, repository.path)) == {sha}

    torn = mirror_of(reader) / "objects" / "pack" / "tmp_pack_AbCd"
    torn.touch()
    begin(reader, repository.path)
    assert not torn.exists()


@contextmanager
def taken(reader: git.GitReader) -> Iterator[Callable[[], None]]:
    """The mirror is in the hands of another, who lets go at the end or when this is called."""
    with mirror_of(reader).with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(lock, fcntl.LOCK_UN)


def test_two_do_not_fetch_at_once(repository: Repository, reader: git.GitReader) -> None:
    repository.commit({b"a": b"1\n"})
    begin(reader, repository.path)

    with taken(reader), pytest.raises(errors.TransientError, match="another process is fetching"):
        begin(replace(reader, lock_timeout_seconds=0.1), repository.path)

    begin(reader, repository.path)


def test_mirror_that_is_busy_is_waited_for(repository: Repository, reader: git.GitReader) -> None:
    repository.commit({b"a": b"1\n"})
    begin(reader, repository.path)
    sha = repository.commit({b"a": b"2\n"})

    with taken(reader) as release:
        other = Timer(0.1, release)
        other.start()
        walk = begin(reader, repository.path)
        other.join()

    assert walk.until == {"refs/heads/main": sha}


def test_damage_is_left_to_another_who_is_at_the_mirror(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b"a": b"1\n"})
    walk = begin(reader, repository.path)
    tree = repository.sha("main^{tree}")
    (mirror_of(reader) / "objects" / tree[:2] / tree[2:]).unlink()

    with taken(reader), pytest.raises(errors.TransientError, match="another process is fetching"):
        read(reader, repository.path, walk)

    assert (mirror_of(reader) / "objects" / sha[:2] / sha[2:]).exists()

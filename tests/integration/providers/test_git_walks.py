import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

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
    return git.GitReader(tmp_path / "mirrors", allow_file=True, page_size=2)


def begin(reader: git.GitReader, repository: Repository, tips: dict[str, str] | None = None) -> records.Walk:
    return reader.begin(repositories.source_of(repository.path), records.Cursor(tips=tips or {}), NOW)


def read(
    reader: git.GitReader, repository: Repository, walk: records.Walk, position: str | None = None
) -> Iterator[records.Page]:
    return reader.read(repositories.source_of(repository.path), walk, position)


def shas(pages: Iterable[records.Page], kind: type[records.Commit | records.UnreachableCommit]) -> list[str]:
    return [record.ext_id for page in pages for record in page.records if isinstance(record, kind)]


def chain(repository: Repository, count: int, *, branch: str = "main", start: int = 0) -> list[str]:
    return [repository.commit({b"f%d" % n: b"1\n"}, branch=branch, at=n) for n in range(start, start + count)]


def test_second_walk_reads_only_what_is_new(repository: Repository, reader: git.GitReader) -> None:
    chain(repository, 3)
    tips = dict(begin(reader, repository).until)
    new = chain(repository, 2, start=3)

    walk = begin(reader, repository, tips)
    pages = list(read(reader, repository, walk))

    assert (walk.since, walk.total, walk.is_full) == (tips, 2, False)
    assert set(shas(pages, records.Commit)) == set(new)
    assert shas(pages, records.UnreachableCommit) == []


def test_nothing_new_is_one_page_that_describes_the_repository(repository: Repository, reader: git.GitReader) -> None:
    chain(repository, 3)
    tips = dict(begin(reader, repository).until)

    walk = begin(reader, repository, tips)

    assert walk.total == 0
    assert list(read(reader, repository, walk)) == [
        records.Page((records.Repository(str(repository.path), "app", "main"),), None)
    ]


def test_late_merge_of_an_old_branch_is_new(repository: Repository, reader: git.GitReader) -> None:
    base = chain(repository, 1, start=1000)[0]
    tips = dict(begin(reader, repository).until)
    repository.set_branch("old", base)
    old = chain(repository, 3, branch="old")
    merge = repository.merge("main", "old", at=2000)

    pages = list(read(reader, repository, begin(reader, repository, tips)))

    assert set(shas(pages, records.Commit)) == {*old, merge}


def test_forced_push_names_the_lost_commits(repository: Repository, reader: git.GitReader) -> None:
    old = chain(repository, 5)
    tips = dict(begin(reader, repository).until)
    repository.set_branch("main", old[1])
    new = chain(repository, 2, start=10)

    walk = begin(reader, repository, tips)
    pages = list(read(reader, repository, walk))

    assert not walk.is_full
    assert set(shas(pages, records.Commit)) == set(new)
    assert set(shas(pages, records.UnreachableCommit)) == set(old[2:])
    assert {record.repo_ext_id for page in pages for record in page.records if hasattr(record, "repo_ext_id")} == {
        str(repository.path)
    }


def test_deleted_branch_names_what_no_other_ref_holds(repository: Repository, reader: git.GitReader) -> None:
    main = chain(repository, 2)
    repository.set_branch("side", main[1])
    side = chain(repository, 4, branch="side", start=10)
    repository.tag("kept", side[1])
    tips = dict(begin(reader, repository).until)
    repository.delete_branch("side")

    pages = list(read(reader, repository, begin(reader, repository, tips)))

    assert set(shas(pages, records.UnreachableCommit)) == set(side[2:])
    assert shas(pages, records.Commit) == []


def test_last_branch_deleted_leaves_everything_unreachable(repository: Repository, reader: git.GitReader) -> None:
    every = chain(repository, 3)
    tips = dict(begin(reader, repository).until)
    repository.delete_branch("main")

    walk = begin(reader, repository, tips)
    pages = list(read(reader, repository, walk))

    assert (walk.state, walk.total) == ("empty", 0)
    assert set(shas(pages, records.UnreachableCommit)) == set(every)


def test_branch_that_takes_the_place_of_a_folder_of_branches(repository: Repository, reader: git.GitReader) -> None:
    first = chain(repository, 1)[0]
    repository.set_branch("topic/one", first)
    begin(reader, repository)
    repository.delete_branch("topic/one")
    repository.set_branch("topic", first)

    assert begin(reader, repository).until == {"refs/heads/main": first, "refs/heads/topic": first}


def test_lost_tip_makes_the_walk_full(tmp_path: Path, repository: Repository, reader: git.GitReader) -> None:
    old = chain(repository, 3)
    tips = dict(begin(reader, repository).until)
    repository.set_branch("main", old[0])
    new = chain(repository, 2, start=10)
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    other_pod = git.GitReader(tmp_path / "other", allow_file=True)

    walk = begin(other_pod, repository, tips)
    pages = list(read(other_pod, repository, walk))

    assert (walk.is_full, walk.since, walk.total) == (True, {}, 3)
    assert set(shas(pages, records.Commit)) == {old[0], *new}
    assert shas(pages, records.UnreachableCommit) == []


def positions(pages: Iterable[records.Page]) -> list[str]:
    return [page.next for page in pages if page.next is not None]


def test_resume_at_every_boundary_misses_nothing(repository: Repository, reader: git.GitReader) -> None:
    old = chain(repository, 6)
    tips = dict(begin(reader, repository).until)
    repository.set_branch("main", old[0])
    repository.set_branch("side", old[0])
    side = chain(repository, 3, branch="side", start=20)
    new = [*chain(repository, 3, start=10), *side, repository.merge("main", "side", at=100)]
    walk = begin(reader, repository, tips)
    whole = list(read(reader, repository, walk))

    assert set(shas(whole, records.Commit)) == set(new)
    assert set(shas(whole, records.UnreachableCommit)) == set(old[1:])
    assert len(positions(whole)) >= 5
    for number, position in enumerate(positions(whole), start=1):
        rest = list(read(reader, repository, walk, position))
        assert [*whole[:number], *rest] == whole


def test_resume_reads_anew_where_the_order_is_another(
    repository: Repository, reader: git.GitReader, caplog: pytest.LogCaptureFixture
) -> None:
    every = chain(repository, 7)
    walk = begin(reader, repository)
    position = f"reachable:4:{every[0]}"

    with caplog.at_level(logging.WARNING):
        pages = list(read(reader, repository, walk, position))

    assert shas(pages, records.Commit) == every[::-1]
    assert isinstance(pages[0].records[0], records.Repository)
    assert [record.getMessage() for record in caplog.records] == ["git_walk_restarted"]


@pytest.mark.parametrize("position", ["reachable:99:", "unreachable:99:", "unreachable:1:"])
def test_resume_beyond_the_end_reads_anew(repository: Repository, reader: git.GitReader, position: str) -> None:
    every = chain(repository, 3)
    walk = begin(reader, repository)

    pages = list(read(reader, repository, walk, position + every[0]))

    assert shas(pages, records.Commit) == every[::-1]


def test_walk_goes_on_elsewhere_while_the_source_moves(
    tmp_path: Path, repository: Repository, reader: git.GitReader
) -> None:
    every = chain(repository, 5)
    walk = begin(reader, repository)
    first = next(read(reader, repository, walk))
    chain(repository, 2, start=5)
    other_pod = git.GitReader(tmp_path / "other", allow_file=True, page_size=2)

    rest = list(read(other_pod, repository, walk, first.next))

    assert shas([first, *rest], records.Commit) == every[::-1]


def test_walk_whose_end_is_gone_is_lost(tmp_path: Path, repository: Repository, reader: git.GitReader) -> None:
    every = chain(repository, 3)
    walk = begin(reader, repository)
    repository.set_branch("main", every[0])
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    other_pod = git.GitReader(tmp_path / "other", allow_file=True)

    with pytest.raises(errors.WalkLost, match="starts anew"):
        next(read(other_pod, repository, walk))
    assert shas(read(reader, repository, walk), records.Commit) == every[::-1]


def test_walk_of_an_empty_source_can_be_read_elsewhere(
    tmp_path: Path, repository: Repository, reader: git.GitReader
) -> None:
    walk = begin(reader, repository)
    other_pod = git.GitReader(tmp_path / "other", allow_file=True)

    (page,) = read(other_pod, repository, walk)

    assert page.next is None


def test_refs_with_one_sha_are_asked_for_once(repository: Repository, reader: git.GitReader) -> None:
    (sha,) = chain(repository, 1)
    lines = b"".join(b"create refs/tags/t%d %s\n" % (n, sha.encode()) for n in range(3000))
    repository.git("update-ref", "--stdin", standard_input=lines)

    walk = begin(reader, repository)

    assert len(walk.until) == 3001
    assert shas(read(reader, repository, walk), records.Commit) == [sha]


def test_pages_are_as_long_as_asked_for(repository: Repository, reader: git.GitReader) -> None:
    chain(repository, 4)
    walk = begin(reader, repository)

    def lengths(page_size: int) -> list[int]:
        return [len(page.records) for page in read(replace(reader, page_size=page_size), repository, walk)]

    assert lengths(1) == [2, 1, 1, 1, 0]
    assert lengths(4) == [5, 0]
    assert lengths(5) == [5]

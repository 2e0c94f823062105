from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import repositories
from tests.repositories import Repository
from worker_app import records
from worker_app.providers import git

NOW = datetime(2026, 1, 2, tzinfo=UTC)
Commits = dict[str, records.Commit]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "app")


@pytest.fixture
def reader(tmp_path: Path) -> git.GitReader:
    return git.GitReader(tmp_path / "mirrors", allow_file=True, page_size=50)


def walk_of(reader: git.GitReader, path: Path) -> records.Walk:
    return reader.begin(repositories.source_of(path), records.Cursor(), NOW)


def commits_in(pages: Iterable[records.Page]) -> Commits:
    return {record.ext_id: record for page in pages for record in page.records if isinstance(record, records.Commit)}


def lines_of(commit: records.Commit) -> tuple[int | None, int | None, int | None]:
    return commit.files, commit.additions, commit.deletions


def test_shallow_source_is_incomplete_and_its_edge_has_no_lines(
    tmp_path: Path, repository: Repository, reader: git.GitReader
) -> None:
    shas = [repository.commit({b"f%d" % n: b"1\n"}, at=n) for n in range(5)]
    shallow = repository.clone_shallow(tmp_path / "shallow", depth=2)

    walk = walk_of(reader, shallow.path)
    found = commits_in(reader.read(repositories.source_of(shallow.path), walk, None))

    assert walk.incomplete_reason is not None
    assert str(shallow.path) in walk.incomplete_reason
    assert "git fetch --unshallow" in walk.incomplete_reason
    assert {sha: lines_of(commit) for sha, commit in found.items()} == {shas[3]: (None, None, None), shas[4]: (1, 1, 0)}


def test_cut_edge_keeps_what_it_is(tmp_path: Path, repository: Repository, reader: git.GitReader) -> None:
    base = repository.commit({b"a": b"1\n"}, at=1)
    repository.set_branch("side", base)
    side = repository.commit({b"b": b"1\n"}, branch="side", at=2)
    message = b"one\n\ncommit %s\nparent %s\nparent %s\n" % ((base.encode(),) * 3)  # looks like what git prints
    plain = repository.commit({b"c": b"1\n"}, message=message, at=3)
    edge = repository.commit(parents=(plain, side), message=b"even", encoding=b"UTF-16", at=4)
    assert int(repository.git("cat-file", "-s", edge)) % 2 == 0  # so all of it could be decoded, to no sense
    top = repository.commit({b"d": b"1\n"}, at=5)
    repository.git("branch", "other", plain)
    shallow = Repository(tmp_path / "shallow")
    shallow.path.mkdir()
    origin = f"file://{repository.path}"
    shallow.git("clone", "--quiet", "--depth=2", "--branch=main", origin, ".")
    shallow.git("fetch", "--quiet", "--depth=1", "origin", "other:refs/heads/other")

    found = commits_in(reader.read(repositories.source_of(shallow.path), walk_of(reader, shallow.path), None))

    assert {sha: commit.is_merge for sha, commit in found.items()} == {plain: False, edge: True, top: False}
    assert lines_of(found[plain]) == lines_of(found[edge]) == (None, None, None)
    assert lines_of(found[top]) == (1, 1, 0)


def test_completed_shallow_source_is_read_anew(tmp_path: Path, repository: Repository, reader: git.GitReader) -> None:
    shas = [repository.commit({b"f%d" % n: b"1\n"}, at=n) for n in range(5)]
    shallow = repository.clone_shallow(tmp_path / "shallow", depth=2)
    before = walk_of(reader, shallow.path)
    shallow.git("fetch", "--quiet", "--unshallow")

    source = repositories.source_of(shallow.path)
    walk = reader.begin(source, records.Cursor(tips=before.until), NOW)

    found = commits_in(reader.read(source, walk, None))
    assert (walk.is_full, walk.since, walk.incomplete_reason) == (True, {}, None)
    assert {sha: lines_of(commit) for sha, commit in found.items()} == dict.fromkeys(shas, (1, 1, 0))

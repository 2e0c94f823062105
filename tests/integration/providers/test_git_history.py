import hashlib
import tracemalloc
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


def pages_of(reader: git.GitReader, path: Path) -> list[records.Page]:
    return list(reader.read(repositories.source_of(path), walk_of(reader, path), None))


def commits_in(pages: Iterable[records.Page]) -> Commits:
    return {record.ext_id: record for page in pages for record in page.records if isinstance(record, records.Commit)}


def lines_of(commit: records.Commit) -> tuple[int | None, int | None, int | None]:
    return commit.files, commit.additions, commit.deletions


def email_hash(email: bytes, *, org_id: int = 1) -> bytes:
    return hashlib.sha256(org_id.to_bytes(16, "big") + email).digest()


def test_linear_history_is_read_newest_first(repository: Repository, reader: git.GitReader) -> None:
    first = repository.commit({b"a": b"1\n2\n"}, at=100)
    second = repository.commit({b"a": b"1\n3\n4\n", b"b": b"x\n"}, at=200)

    walk = walk_of(reader, repository.path)
    (page,) = reader.read(repositories.source_of(repository.path), walk, None)

    assert walk.until == {"refs/heads/main": second}
    assert (walk.total, walk.is_full, walk.state, walk.incomplete_reason) == (2, True, "active", None)
    assert walk.started_at == NOW
    described, newer, older = page.records
    assert described == records.Repository(str(repository.path), "app", "main")
    assert newer == records.Commit(
        ext_id=second,
        repo_ext_id=str(repository.path),
        author_ext_id=None,
        author_email_hash=email_hash(b"ada@example.org"),
        authored_at=datetime(1970, 1, 1, 0, 3, 20, tzinfo=UTC),
        committed_at=datetime(1970, 1, 1, 0, 3, 20, tzinfo=UTC),
        is_merge=False,
        files=2,
        additions=3,
        deletions=1,
    )
    assert isinstance(older, records.Commit)
    assert (older.ext_id, *lines_of(older)) == (first, 1, 2, 0)
    assert page.next is None
    assert page.complete


def test_counts_and_sums_equal_those_of_git(tmp_path: Path, reader: git.GitReader) -> None:
    path = tmp_path / "generated"
    repositories.generate(path, commits=600, branches=4, merge_every=7, seed=3)

    pages = pages_of(reader, path)

    found = commits_in(pages)
    every = repositories.run_git(path, "rev-list", "--branches", "--tags").decode().split()
    merges = repositories.run_git(path, "rev-list", "--branches", "--merges").decode().split()
    lines = repositories.run_git(path, "log", "--branches", "--numstat", "--no-renames", "--format=").split(b"\n")
    numbers = [line.split(b"\t") for line in lines if line]
    assert set(found) == set(every)
    assert len(every) == 600
    assert {sha for sha, commit in found.items() if commit.is_merge} == set(merges)
    assert len(merges) > 50
    assert sum(commit.additions or 0 for commit in found.values()) == sum(int(added) for added, _, _ in numbers)
    assert sum(commit.deletions or 0 for commit in found.values()) == sum(int(deleted) for _, deleted, _ in numbers)
    assert sum(commit.files or 0 for commit in found.values()) == len(numbers)
    assert [len(page.records) for page in pages[:2]] == [51, 50]  # the first one also holds the repository


def test_merge_has_no_lines(repository: Repository, reader: git.GitReader) -> None:
    base = repository.commit({b"a": b"1\n"})
    repository.set_branch("side", base)
    repository.commit({b"b": b"1\n"}, branch="side")
    repository.commit({b"c": b"1\n"})
    merge = repository.merge("main", "side")

    found = commits_in(pages_of(reader, repository.path))

    assert found[merge].is_merge
    assert lines_of(found[merge]) == (None, None, None)
    assert [commit.is_merge for commit in found.values()].count(True) == 1


def test_commit_without_a_change_has_zero_lines(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({})

    assert lines_of(commits_in(pages_of(reader, repository.path))[sha]) == (0, 0, 0)


def test_empty_repository_is_one_page_and_a_state(repository: Repository, reader: git.GitReader) -> None:
    walk = walk_of(reader, repository.path)
    (page,) = reader.read(repositories.source_of(repository.path), walk, None)

    assert (walk.state, walk.total, walk.until) == ("empty", 0, {})
    assert page == records.Page((records.Repository(str(repository.path), "app", None),), None)


def test_tags_lead_to_commits_and_nothing_else(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b"a": b"1\n"})
    gone = repository.commit({b"a": b"2\n"})
    repository.tag("light", gone)
    repository.tag("annotated", gone, is_annotated=True)
    repository.tag("nested", repository.sha("refs/tags/annotated"), is_annotated=True)
    repository.tag("on-blob", repository.sha(f"{sha}:a"))
    repository.tag("on-tree", repository.sha(f"{sha}^{{tree}}"), is_annotated=True)
    repository.set_branch("main", sha)

    walk = walk_of(reader, repository.path)

    tags = {f"refs/tags/{name}": gone for name in ("light", "annotated", "nested")}
    assert walk.until == {"refs/heads/main": sha, **tags}
    assert set(commits_in(pages_of(reader, repository.path))) == {sha, gone}


def test_other_refs_are_not_read(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b"a": b"1\n"})
    hidden = repository.commit({b"a": b"2\n"})
    repository.git("update-ref", "refs/pull/1/head", hidden)
    repository.set_branch("main", sha)

    assert set(commits_in(pages_of(reader, repository.path))) == {sha}


def test_default_branch_is_that_of_the_remote(repository: Repository, reader: git.GitReader) -> None:
    repository.commit({b"a": b"1\n"}, branch="master")
    repository.commit({b"a": b"1\n"}, branch="trunk/new")
    repository.git("symbolic-ref", "HEAD", "refs/heads/trunk/new")

    assert pages_of(reader, repository.path)[0].records[0] == records.Repository(
        str(repository.path), "app", "trunk/new"
    )


def test_detached_head_names_no_default_branch(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b"a": b"1\n"}, branch="master")
    repository.git("update-ref", "--no-deref", "HEAD", sha)

    assert pages_of(reader, repository.path)[0].records[0] == records.Repository(str(repository.path), "app", None)


def test_binary_file_counts_as_a_file_without_lines(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b"logo.png": b"\0\1\2", b"a": b"1\n"})

    assert lines_of(commits_in(pages_of(reader, repository.path))[sha]) == (2, 1, 0)


def test_rename_counts_both_files(repository: Repository, reader: git.GitReader) -> None:
    repository.commit({b"old": b"1\n2\n3\n"})
    sha = repository.commit({b"old": None, b"new": b"1\n2\n3\n"})

    assert lines_of(commits_in(pages_of(reader, repository.path))[sha]) == (2, 3, 3)


def test_odd_path_is_one_file(repository: Repository, reader: git.GitReader) -> None:
    names = [b"tab\there", b"line\nbreak", b"\x1e" + b"a" * 40, b"\x1f\x1e\x1f", b'quote"and\\', b"\xff\xfe"]
    names += ["snow ☃".encode(), b" ", b"-\t-\tx", b"1\t2\ty", b"\n"]
    first = repository.commit(dict.fromkeys(names, b"1\n"))
    single = {repository.commit({name: b"2\n3\n"}) for name in names}

    found = commits_in(pages_of(reader, repository.path))

    assert lines_of(found.pop(first)) == (len(names), len(names), 0)
    assert {sha: lines_of(commit) for sha, commit in found.items()} == dict.fromkeys(single, (1, 2, 1))


def test_author_that_is_no_utf8_is_counted_and_hashed_as_it_is(repository: Repository, reader: git.GitReader) -> None:
    broken = repository.commit({b"a": b"1\n"}, author=b"J\xf6rg <J\xf6rg@Example.org>", message=b"gr\xfc\xdfe")
    plain = repository.commit({b"a": b"2\n"}, author=b"J\xf6rg <joerg@example.org>")

    pages = pages_of(reader, repository.path)

    assert commits_in(pages)[broken].author_email_hash == email_hash(b"j\xf6rg@example.org")
    assert commits_in(pages)[plain].author_email_hash == email_hash(b"joerg@example.org")
    assert sum(page.replaced_bytes for page in pages) == 1


@pytest.mark.parametrize(
    ("encoding", "right"),
    [(b"ISO-8859-1", "é@x".encode()), (b"UTF-8", b"\xe9@x"), (b"UTF-16", b"\xe9@x"), (b"no-such-encoding", b"\xe9@x")],
)
def test_declared_encoding_is_decoded_where_that_works(
    repository: Repository, reader: git.GitReader, encoding: bytes, right: bytes
) -> None:
    sha = repository.commit({b"a": b"1\n"}, author=b"A <\xe9@x>", message=b"\xe9", encoding=encoding)

    assert commits_in(pages_of(reader, repository.path))[sha].author_email_hash == email_hash(right)


def test_utf8_email_is_no_replacement(repository: Repository, reader: git.GitReader) -> None:
    repository.commit({b"a": b"1\n"}, author="Ä <ä@example.org>".encode())

    assert [page.replaced_bytes for page in pages_of(reader, repository.path)] == [0]


def test_email_is_the_same_however_it_is_written(repository: Repository, reader: git.GitReader) -> None:
    shas = [repository.commit({}, author=author, at=at) for at, author in enumerate([b"A <x@Y.z>", b"B < X@y.Z >"])]

    found = commits_in(pages_of(reader, repository.path))

    assert {found[sha].author_email_hash for sha in shas} == {email_hash(b"x@y.z")}


def test_email_hash_differs_between_organisations(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({})
    source = repositories.source_of(repository.path, org_id=7)

    walk = reader.begin(source, records.Cursor(), NOW)

    found = commits_in(reader.read(source, walk, None))
    assert found[sha].author_email_hash == email_hash(b"ada@example.org", org_id=7)


def test_missing_email_has_no_hash(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({}, author=b"Nobody <>")

    assert commits_in(pages_of(reader, repository.path))[sha].author_email_hash is None


def test_email_with_separators_stays_one_field(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({}, author=b"A <a\x1fb\x1ec@x>")

    assert commits_in(pages_of(reader, repository.path))[sha].author_email_hash == email_hash(b"a\x1fb\x1ec@x")


def test_mailmap_of_the_source_is_not_applied(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b".mailmap": b"Other <other@example.org> <ada@example.org>\n"})

    assert commits_in(pages_of(reader, repository.path))[sha].author_email_hash == email_hash(b"ada@example.org")


def test_absurd_time_is_clamped(repository: Repository, reader: git.GitReader) -> None:
    first, last = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    right = {b"0": first, b"4102444800": datetime(2100, 1, 1, tzinfo=UTC), b"253402300799": last}
    right |= dict.fromkeys([b"253402300800", b"18446744073709551615", b"9" * 5000], last)
    right |= dict.fromkeys([b"-86400", b"", b"yesterday"], first)
    tree = repository.git("mktree").encode()
    expected = {}
    for number, (at, moment) in enumerate(right.items()):
        person = b"A <a@x> %s +0000" % at
        content = b"tree %s\nauthor %s\ncommitter %s\n\nm\n" % (tree, person, person)
        expected[repository.write_object("commit", content)] = moment
        repository.set_branch(f"b{number}", [*expected][-1])

    found = commits_in(pages_of(reader, repository.path))

    assert {sha: commit.authored_at for sha, commit in found.items()} == expected
    assert {sha: commit.committed_at for sha, commit in found.items()} == expected


def test_commit_without_an_author_is_read(repository: Repository, reader: git.GitReader) -> None:
    tree = repository.git("mktree").encode()
    sha = repository.write_object("commit", b"tree %s\nauthor nobody at all\ncommitter broken <a@x\n\nm\n" % tree)
    repository.set_branch("main", sha)

    found = commits_in(pages_of(reader, repository.path))[sha]

    assert found.author_email_hash is None
    assert found.authored_at == datetime(1970, 1, 1, tzinfo=UTC)


def test_huge_commit_costs_no_memory(tmp_path: Path, repository: Repository, reader: git.GitReader) -> None:
    blob = repository.write_object("blob", b"1\n").encode()
    names = (b"M 100644 %s d%d/%s%d\n" % (blob, n // 500, b"a-long-name-" * 9, n) for n in range(10_000))
    person = b"A <a@x> 1 +0000"
    head = b"commit refs/heads/main\nauthor %s\ncommitter %s\ndata 0\n" % (person, person)
    repository.import_stream(head + b"".join(names))
    walk = walk_of(reader, repository.path)

    tracemalloc.start()
    found = commits_in(reader.read(repositories.source_of(repository.path), walk, None))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [lines_of(commit) for commit in found.values()] == [(10_000, 10_000, 0)]
    assert peak_bytes < 600_000  # the names alone are 1.1 MB

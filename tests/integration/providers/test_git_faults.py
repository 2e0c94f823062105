import multiprocessing
import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID

import psutil
import pytest

from tests import repositories
from tests.repositories import Repository
from worker_app import errors, records
from worker_app.providers import git

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away, or become somebody else")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "app")


@pytest.fixture
def reader(tmp_path: Path) -> git.GitReader:
    return git.GitReader(tmp_path / "mirrors", allow_file=True, page_size=10)


def named(name: str) -> records.Source:
    return records.Source(UUID(int=1), UUID(int=2), "git", "host", name, "host/name")


def mirror_of(reader: git.GitReader) -> Path:
    return reader.mirrors / str(UUID(int=1)) / f"{UUID(int=2)}.git"


def begin(reader: git.GitReader, path: Path, tips: dict[str, str] | None = None) -> records.Walk:
    return reader.begin(repositories.source_of(path), records.Cursor(tips=tips or {}), NOW)


def read(reader: git.GitReader, path: Path, walk: records.Walk) -> set[str]:
    pages = reader.read(repositories.source_of(path), walk, None)
    return {record.ext_id for page in pages for record in page.records if isinstance(record, records.Commit)}


def git_children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.name().startswith("git")]


def refusal(reader: git.GitReader, name: str) -> str:
    with pytest.raises(errors.SourceUnavailable) as caught:
        reader.begin(named(name), records.Cursor(), NOW)
    assert caught.value.state == "inaccessible"
    return str(caught.value)


def test_missing_path_is_named_with_the_remedy(reader: git.GitReader) -> None:
    text = refusal(reader, "/no/such/place")

    assert "/no/such/place does not exist" in text
    assert "correct the path" in text


def test_path_that_went_missing_is_inaccessible(repository: Repository, reader: git.GitReader) -> None:
    repository.commit({b"a": b"1\n"})
    begin(reader, repository.path)
    shutil.rmtree(repository.path)

    assert "does not exist" in refusal(reader, str(repository.path))


def test_folder_that_is_no_repository(tmp_path: Path, reader: git.GitReader) -> None:
    assert f"{tmp_path} is no git repository" in refusal(reader, str(tmp_path))


def test_file_that_is_no_repository(tmp_path: Path, reader: git.GitReader) -> None:
    (tmp_path / "file").write_text("")

    assert "is no git repository" in refusal(reader, str(tmp_path / "file"))


def test_subfolder_is_refused_and_the_top_named(repository: Repository, reader: git.GitReader) -> None:
    (repository.path / "sub" / "deep").mkdir(parents=True)

    assert f"name {repository.path}, whose folder it is" in refusal(reader, str(repository.path / "sub" / "deep"))


def test_partial_clone_is_refused(tmp_path: Path, repository: Repository, reader: git.GitReader) -> None:
    repository.commit({b"a": b"1\n"})
    repository.git("config", "uploadpack.allowFilter", "true")
    origin = f"file://{repository.path}"
    repository.git("clone", "--quiet", "--filter=blob:none", "--no-checkout", origin, str(tmp_path / "partial"))

    assert "is a partial clone" in refusal(reader, str(tmp_path / "partial"))


def test_damaged_source_is_named_with_the_remedy(repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b"a": b"1\n"})
    torn = repository.path / ".git" / "objects" / sha[:2] / sha[2:]
    torn.unlink()
    torn.write_bytes(b"garbage")

    text = refusal(reader, str(repository.path))

    assert str(repository.path) in text
    assert "run `git fsck` there" in text


def read_as_nobody(mirrors: Path, path: Path, answer: Connection) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        git.GitReader(mirrors, allow_file=True).begin(named(str(path)), records.Cursor(), NOW)
        answer.send("it was read")
    except errors.SourceUnavailable as refused:
        answer.send(str(refused))


@needs_root
@pytest.mark.parametrize(
    "closed", [".", ".git", ".git/objects", ".git/HEAD", ".git/refs/heads", ".git/objects/pack", "an object"]
)
def test_unreadable_path_is_named_with_the_remedy(closed: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "mirrors").mkdir()
        os.chown(folder / "mirrors", NOBODY, NOBODY)
        repository = Repository.create(folder / "app")
        sha = repository.commit({b"f%d" % n: b"%d\n" % n for n in range(200 if closed != "an object" else 1)})
        closed = closed.replace("an object", f".git/objects/{sha[:2]}/{sha[2:]}")
        (repository.path / closed).chmod(0o700 if (repository.path / closed).is_dir() else 0o600)
        here, there = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(
            target=read_as_nobody, args=(folder / "mirrors", repository.path, there)
        )
        child.start()
        assert here.poll(10)
        text = here.recv()
        child.join()

        assert str(repository.path) in text
        assert "read" in text
        assert "user of the worker" in text


@needs_root
@pytest.mark.parametrize("form", ["plain", "bare", "worktree"])
def test_repository_of_another_user_is_read(tmp_path: Path, reader: git.GitReader, form: str) -> None:
    repository = Repository.create(tmp_path / 'odd "name" \\', is_bare=form == "bare")
    sha = repository.commit({b"a": b"1\n"})
    path = repository.path
    if form == "worktree":
        path = tmp_path / "tree"
        repository.git("worktree", "add", "--quiet", "--detach", str(path), "main")
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", repository.path, path], check=True)

    assert read(reader, path, begin(reader, path)) == {sha}


@pytest.mark.parametrize("form", ["bare", "worktree", "the .git folder", "link", "file address", "shared objects"])
def test_every_form_of_a_local_repository_is_read(tmp_path: Path, reader: git.GitReader, form: str) -> None:
    repository = Repository.create(tmp_path / "app", is_bare=form == "bare")
    sha = repository.commit({b"a": b"1\n"})
    name = str(repository.path)
    if form == "worktree":
        name = str(tmp_path / "tree")
        repository.git("worktree", "add", "--quiet", "--detach", name, "main")
    elif form == "the .git folder":
        name += "/.git"
    elif form == "link":
        (tmp_path / "link").symlink_to(repository.path)
        name = str(tmp_path / "link")
    elif form == "file address":
        name = f"file://{name}"
    elif form == "shared objects":
        repository.git("clone", "--quiet", "--shared", ".", str(tmp_path / "shared"))
        name = str(tmp_path / "shared")

    source = named(name)
    pages = reader.read(source, reader.begin(source, records.Cursor(), NOW), None)

    assert [record.ext_id for page in pages for record in page.records] == ["host/name", sha]
    assert not (mirror_of(reader) / "objects" / "info" / "alternates").exists()


def test_source_that_cannot_be_linked_is_fetched(tmp_path: Path, repository: Repository, reader: git.GitReader) -> None:
    sha = repository.commit({b"a": b"1\n"})
    repository.tag("v1", sha, is_annotated=True)
    objects = repository.path / ".git" / "objects"
    (objects / sha[:2]).rename(tmp_path / "elsewhere")
    (objects / sha[:2]).symlink_to(tmp_path / "elsewhere")

    walk = begin(reader, repository.path)

    assert walk.until == {"refs/heads/main": sha, "refs/tags/v1": sha}
    assert read(reader, repository.path, walk) == {sha}
    assert not (mirror_of(reader) / "config").read_text().count("remote")  # what a clone would have written


def test_source_runs_nothing_of_its_own(tmp_path: Path, repository: Repository, reader: git.GitReader) -> None:
    repository.commit({b"a": b"1\n"})
    for name in ("uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand"):
        repository.git("config", name, f"touch {tmp_path}/ran; exit 1;")

    begin(reader, repository.path)

    assert not (tmp_path / "ran").exists()


def test_environment_of_the_worker_does_not_reach_git(
    tmp_path: Path, repository: Repository, reader: git.GitReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = repository.commit({b"a": b"1\n"})
    (tmp_path / ".gitconfig").write_text("[log]\n\tshowSignature = true\n[core]\n\tbare = nonsense\n")
    for name, value in {
        "HOME": str(tmp_path),
        "GIT_DIR": "/nowhere",
        "GIT_TRACE": "1",
        "GIT_CONFIG_COUNT": "x",
    }.items():
        monkeypatch.setenv(name, value)

    assert read(reader, repository.path, begin(reader, repository.path)) == {sha}


def test_path_is_refused_where_files_are_not_allowed(repository: Repository, reader: git.GitReader) -> None:
    assert "which only `dev-hops up --git` may read" in refusal(replace(reader, allow_file=False), str(repository.path))


@pytest.mark.parametrize(
    "name", ["ext::sh -c touch% /tmp/x", "git://h/a/b", "http://h/a/b", "ftp://h/a", "-u", "--upload-pack=x", "fd::7"]
)
def test_other_protocol_and_option_are_refused_before_anything_runs(reader: git.GitReader, name: str) -> None:
    refusal(reader, name)

    assert not reader.mirrors.exists()


def test_host_that_does_not_answer_is_tried_again(reader: git.GitReader) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(errors.TransientError, match=r"127\.0\.0\.1") as caught:
        reader.begin(named(f"https://user:sesame@127.0.0.1:{port}/a/b.git"), records.Cursor(), NOW)

    assert "sesame" not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_host_that_stays_silent_is_given_up(reader: git.GitReader) -> None:
    impatient = replace(reader, silence_timeout_seconds=0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = named(f"https://127.0.0.1:{silent.getsockname()[1]}/a/b")
        with pytest.raises(errors.TransientError, match=r"not done in 0\.3 s"):
            impatient.begin(source, records.Cursor(), NOW)

    assert git_children() == []

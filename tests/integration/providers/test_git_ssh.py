import logging
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from tests.git_servers import KeyPair, SshHost, ssh_host
from tests.integration.providers import git_secrecy
from tests.repositories import Repository
from worker_app import errors, records, settings
from worker_app.credentials.kinds import GitSsh
from worker_app.providers import git, git_identity
from worker_app.secret import Secret

NOBODY = 65534


@pytest.fixture
def key() -> KeyPair:
    return KeyPair.generate()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "served" / "acme" / "api.git", is_bare=True)


@pytest.fixture
def host(tmp_path: Path, key: KeyPair, repository: Repository) -> Iterator[SshHost]:
    with ssh_host(tmp_path / "served", host_folder(tmp_path), key) as running:
        yield running


@pytest.fixture
def reader(tmp_path: Path, key: KeyPair, host: SshHost) -> git.GitReader:
    return git.GitReader(tmp_path / "mirrors", credential_for(key, host.known_hosts))


def host_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "host"
    folder.mkdir()
    return folder


def credential_for(key: KeyPair, known_hosts: str) -> GitSsh:
    return GitSsh("127.0.0.1", Secret(key.private), known_hosts)


def api(host: SshHost) -> records.Source:
    return git_secrecy.source_at(host.url("acme/api.git"))


def refused(reader: git.GitReader, host: SshHost) -> str:
    with pytest.raises(errors.CredentialRefused) as caught:
        reader.begin(api(host), records.Cursor(), git_secrecy.NOW)
    return str(caught.value)


def test_source_is_read_with_its_key(repository: Repository, reader: git.GitReader, host: SshHost) -> None:
    sha = repository.commit({b"a": b"1\n"})

    assert git_secrecy.read_all(reader, api(host)) == {sha}
    assert "right key" in host.seen()


def read_as_nobody(reader: git.GitReader, url: str, answer: Connection) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    answer.send(git_secrecy.read_all(reader, git_secrecy.source_at(url)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_user_without_any_right_reads_with_a_key(repository: Repository, key: KeyPair, host: SshHost) -> None:
    sha = repository.commit({b"a": b"1\n"})
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chown(name, NOBODY, NOBODY)
        reader = git.GitReader(Path(name) / "mirrors", credential_for(key, host.known_hosts))
        here, there = multiprocessing.Pipe(duplex=False)
        arguments = (reader, host.url("acme/api.git"), there)
        child = multiprocessing.get_context("fork").Process(target=read_as_nobody, args=arguments)
        child.start()
        assert here.poll(20)
        assert here.recv() == {sha}
        child.join(20)


def test_key_that_the_host_does_not_take_is_refused_at_once(reader: git.GitReader, host: SshHost) -> None:
    wrong = replace(reader, credential=credential_for(KeyPair.generate(), host.known_hosts))

    assert "does not take the credential" in (text := refused(wrong, host))
    assert "--replace" in text
    assert host.seen() == ["wrong key"]


def test_broken_key_is_refused(reader: git.GitReader, host: SshHost) -> None:
    broken = KeyPair("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----", "")

    assert "--replace" in refused(replace(reader, credential=credential_for(broken, host.known_hosts)), host)


def test_host_that_is_not_known_learns_nothing(reader: git.GitReader, key: KeyPair, host: SshHost) -> None:
    other = "elsewhere.example " + KeyPair.generate().public

    text = refused(replace(reader, credential=credential_for(key, other)), host)

    assert "is not among" in text
    assert "ssh-keyscan -p" in text
    assert host.seen() == []


def test_host_whose_key_changed_learns_nothing(reader: git.GitReader, key: KeyPair, host: SshHost) -> None:
    changed = f"[127.0.0.1]:{host.port} {KeyPair.generate().public}"

    text = refused(replace(reader, credential=credential_for(key, changed)), host)

    assert "shows another key than" in text
    assert "--known-hosts" in text
    assert host.seen() == []


def test_key_that_reads_no_such_repository_is_not_to_blame(reader: git.GitReader, host: SshHost) -> None:
    with pytest.raises(errors.SourceUnavailable, match="not appear to be a git repository"):
        reader.begin(git_secrecy.source_at(host.url("acme/none.git")), records.Cursor(), git_secrecy.NOW)


def test_host_that_does_not_answer_is_tried_again(tmp_path: Path, key: KeyPair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    reader = git.GitReader(tmp_path / "mirrors", credential_for(key, f"[127.0.0.1]:{port} {key.public}"))

    with pytest.raises(errors.TransientError, match=r"127\.0\.0\.1.*tried again"):
        reader.begin(git_secrecy.source_at(f"ssh://git@127.0.0.1:{port}/a/b"), records.Cursor(), git_secrecy.NOW)


def test_source_without_a_key_is_refused_before_anything_runs(reader: git.GitReader, host: SshHost) -> None:
    with pytest.raises(errors.SourceUnavailable, match="add a git_ssh"):
        replace(reader, credential=None).begin(api(host), records.Cursor(), git_secrecy.NOW)

    assert host.seen() == []


def test_worker_without_ssh_says_what_to_install(
    tmp_path: Path, reader: git.GitReader, host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(errors.SettingsError, match="install openssh-client"):
        reader.begin(api(host), records.Cursor(), git_secrecy.NOW)


def test_machine_without_memory_files_is_told_so(
    reader: git.GitReader, host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.memfd_create")

    with pytest.raises(errors.SettingsError, match="needs a worker on Linux"):
        reader.begin(api(host), records.Cursor(), git_secrecy.NOW)


def test_what_the_worker_itself_could_sign_in_with_is_not_used(
    tmp_path: Path, reader: git.GitReader, key: KeyPair, host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_socket, own = tmp_path / "agent", tmp_path / "own"
    own.write_text(key.private)
    own.chmod(0o600)
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(agent_socket)], stdout=subprocess.DEVNULL) as agent:
        try:
            assert git_secrecy.comes_true(agent_socket.exists)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(agent_socket))
            monkeypatch.setenv("GIT_SSH_COMMAND", f"ssh -i {own}")
            subprocess.run(["ssh-add", "-q", str(own)], check=True, stderr=subprocess.DEVNULL)

            refused(replace(reader, credential=credential_for(KeyPair.generate(), host.known_hosts)), host)
        finally:
            agent.kill()

    assert host.seen() == ["wrong key"]


def test_secret_is_nowhere_while_git_waits_nor_after(
    tmp_path: Path, key: KeyPair, repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wanted, before = git_secrecy.forms(key.private), open_descriptors()
    with ssh_host(tmp_path / "served", host_folder(tmp_path), key, holds=True) as host:
        reader = git.GitReader(tmp_path / "mirrors", credential_for(key, host.known_hosts), silence_timeout_seconds=3)
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(reader.begin, api(host), records.Cursor(), git_secrecy.NOW)
            assert git_secrecy.comes_true(host.is_asked)  # the key was taken, git waits for an answer
            running = git_secrecy.git_processes()
            names = {process.name() for process in running}
            seen = [*git_secrecy.public_texts(running), *git_secrecy.file_texts(tmp_path / "mirrors")]
            fault = ended.exception(timeout=20)

    assert isinstance(fault, errors.TransientError)
    assert "not done in 3 s" in str(fault)
    assert {"git", "ssh"} <= names
    assert git_secrecy.hits(iter(seen), wanted) == []
    assert git_secrecy.git_processes() == []
    assert open_descriptors() == before
    assert git_secrecy.hits(git_secrecy.file_texts(tmp_path / "mirrors"), wanted) == []
    assert git_secrecy.hits(iter([f"{caplog.text}{fault!r}{reader!r}".encode()]), wanted) == []


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # the one that lists is among them each time


WORKER = """
import sys
from pathlib import Path
from tests.integration.providers import git_secrecy
from worker_app import records
from worker_app.credentials.kinds import GitSsh
from worker_app.providers import git
from worker_app.secret import Secret
mirrors, url = sys.argv[1:]
key, known_hosts = sys.stdin.read().split("|")
reader = git.GitReader(Path(mirrors), GitSsh("127.0.0.1", Secret(key), known_hosts))
reader.begin(git_secrecy.source_at(url), records.Cursor(), git_secrecy.NOW)
"""


@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_worker_that_is_killed_leaves_no_key_behind(
    tmp_path: Path, key: KeyPair, repository: Repository, pool: str
) -> None:
    patch = "import gevent.monkey\ngevent.monkey.patch_all()\n" if pool == "gevent" else ""
    with ssh_host(tmp_path / "served", host_folder(tmp_path), key, holds=True) as host:
        command = [sys.executable, "-c", patch + WORKER, str(tmp_path / "mirrors"), host.url("acme/api.git")]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as worker:
            assert worker.stdin is not None
            worker.stdin.write(f"{key.private}|{host.known_hosts}".encode())
            worker.stdin.close()
            assert git_secrecy.comes_true(host.is_asked, within_seconds=20)
            left = git_secrecy.git_processes(worker.pid)
            worker.send_signal(signal.SIGKILL)

        assert {"git", "ssh"} <= {process.name() for process in left}
    # What it started ends with the conversation, and the key was nowhere else.
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []
    assert git_secrecy.hits(git_secrecy.file_texts(tmp_path / "mirrors"), git_secrecy.forms(key.private)) == []


def test_credentials_check_reads_the_source(repository: Repository, key: KeyPair, host: SshHost) -> None:
    repository.commit({b"a": b"1\n"})
    chosen = settings.load({"DEV_HOPS_DIR": "/nonexistent"})

    found = git_identity.identity(credential_for(key, host.known_hosts), api(host), chosen)

    assert found.account is None
    assert "1 branches and 0 tags" in found.notes[0]
    with pytest.raises(errors.CredentialRefused):
        git_identity.identity(credential_for(KeyPair.generate(), host.known_hosts), api(host), chosen)

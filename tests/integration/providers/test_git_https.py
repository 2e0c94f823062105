import base64
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.git_servers import UNAUTHORIZED, HttpHost, run_backend
from tests.integration.providers import git_secrecy
from tests.integration.providers.certificates import own_certificate
from tests.repositories import Repository
from tests.web_server import Seen, WebServer, Written
from worker_app import errors, records, settings
from worker_app.credentials.kinds import GitHttps, GitHubToken, GitSsh
from worker_app.providers import git, git_identity, git_secrets
from worker_app.secret import Secret

CANARY = "canary%pass/w:ord é 4711"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "served" / "acme" / "api.git", is_bare=True)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HttpHost]:
    made = HttpHost(tmp_path / "served", {"reader": CANARY})
    made.is_open.set()
    yield made
    made.is_open.set()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return own_certificate(tmp_path)


@pytest.fixture
def server(host: HttpHost, certificate: tuple[Path, Path]) -> Iterator[WebServer]:
    with WebServer(host.respond, certificate[0]).running() as running:
        yield running
        host.is_open.set()


@pytest.fixture
def reader(tmp_path: Path, server: WebServer, certificate: tuple[Path, Path]) -> git.GitReader:
    return git.GitReader(tmp_path / "mirrors", credential_for(server), authorities=certificate[1])


def credential_for(server: WebServer, password: str = CANARY, user: str = "reader") -> GitHttps:
    return GitHttps(f"127.0.0.1:{server.port}", user, Secret(password))


def api(server: WebServer) -> records.Source:
    return git_secrecy.source_at(f"{server.url}/acme/api.git")


def test_source_is_read_with_its_credential(
    repository: Repository, reader: git.GitReader, server: WebServer, host: HttpHost
) -> None:
    sha = repository.commit({b"a": b"1\n"})

    assert git_secrecy.read_all(reader, api(server)) == {sha}
    assert {user for user, _ in host.signed} == {"reader"}


@pytest.mark.parametrize("user", ["ada@example.org", "an o'brien", "x%2fy"])
def test_user_of_any_form_signs_in(
    repository: Repository, reader: git.GitReader, server: WebServer, host: HttpHost, user: str
) -> None:
    sha = repository.commit({b"a": b"1\n"})
    host.passwords[user] = "sesame 4711"

    known = replace(reader, credential=credential_for(server, "sesame 4711", user))

    assert git_secrecy.read_all(known, api(server)) == {sha}


def test_wrong_password_is_refused_at_once(
    repository: Repository, reader: git.GitReader, server: WebServer, host: HttpHost
) -> None:
    wrong = replace(reader, credential=credential_for(server, "not-" + CANARY))

    with pytest.raises(errors.CredentialRefused, match=r"does not take the credential.*--replace") as caught:
        wrong.begin(api(server), records.Cursor(), git_secrecy.NOW)

    assert host.refused == ["reader"]  # shown once
    assert CANARY not in str(caught.value)


def test_credential_that_reads_no_such_repository_is_not_to_blame(reader: git.GitReader, server: WebServer) -> None:
    with pytest.raises(errors.SourceUnavailable, match="not found"):
        reader.begin(api(server), records.Cursor(), git_secrecy.NOW)


def test_source_without_a_credential_is_told_to_get_one(
    repository: Repository, reader: git.GitReader, server: WebServer
) -> None:
    with pytest.raises(errors.SourceUnavailable, match="--credential"):
        replace(reader, credential=None).begin(api(server), records.Cursor(), git_secrecy.NOW)


def test_secret_is_nowhere_while_git_waits_nor_after(
    tmp_path: Path,
    repository: Repository,
    reader: git.GitReader,
    server: WebServer,
    host: HttpHost,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    sha = repository.commit({b"a": b"1\n"})
    wanted = git_secrecy.forms(CANARY, "reader")
    host.is_open.clear()
    found = set[str]()
    thread = threading.Thread(target=lambda: found.update(git_secrecy.read_all(reader, api(server))))
    thread.start()
    assert host.is_asked.wait(20)  # git has been told, and waits for the server

    running = git_secrecy.git_processes()
    seen = [*git_secrecy.public_texts(running), *git_secrecy.file_texts(tmp_path)]
    host.is_open.set()
    thread.join(20)

    assert len(running) >= 2
    assert len(seen) > 10
    assert git_secrecy.hits(iter(seen), wanted) == []
    assert found == {sha}
    assert git_secrecy.hits(git_secrecy.file_texts(tmp_path), wanted) == []
    assert CANARY not in caplog.text


def test_what_the_worker_itself_could_sign_in_with_is_not_used(
    tmp_path: Path, repository: Repository, reader: git.GitReader, server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine 127.0.0.1 login reader password sesame\n")
    (home / ".netrc").chmod(0o600)
    (home / ".git-credentials").write_text(f"https://reader:sesame@127.0.0.1:{server.port}\n")
    (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    askpass = home / "askpass"
    askpass.write_text("#!/bin/sh\necho reader\n")
    askpass.chmod(0o755)
    for name, value in {"HOME": str(home), "GITHUB_TOKEN": "sesame", "GIT_ASKPASS": str(askpass)}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(errors.SourceUnavailable):
        replace(reader, credential=None).begin(api(server), records.Cursor(), git_secrecy.NOW)

    assert server.seen
    assert [seen.headers["Authorization"] for seen in server.seen if "Authorization" in seen.headers] == []


@pytest.mark.parametrize("when", ["at first", "signed in"])
def test_redirect_takes_no_credential_to_another_host(
    tmp_path: Path, repository: Repository, certificate: tuple[Path, Path], when: str
) -> None:
    repository.commit({b"a": b"1\n"})

    def lead_away(seen: Seen) -> Written:
        if when == "signed in" and "Authorization" not in seen.headers:
            return UNAUTHORIZED
        return Written(302, b"", {"Location": f"{other.url}{seen.target}"})

    with (
        WebServer(lambda seen: run_backend(tmp_path / "served", seen), certificate[0]).running() as other,
        WebServer(lead_away, certificate[0]).running() as first,
    ):
        reader = git.GitReader(tmp_path / "mirrors", credential_for(first), authorities=certificate[1])
        with pytest.raises(errors.SourceUnavailable, match="leads elsewhere"):
            reader.begin(api(first), records.Cursor(), git_secrecy.NOW)

    assert other.seen == []


@pytest.mark.parametrize(
    "question",
    [
        "Username for 'https://other.example': ",
        "Username for 'https://git.example.evil': ",
        "Username for 'http://git.example': ",
        "Username for 'https://x@git.example': ",
        "Password for 'https://reader@other.example': ",
        "Password for 'https://evil.example/@git.example': ",
        "Password for 'https://reader@git.example:444': ",
        "Enter passphrase for key: ",
        "",
    ],
)
def test_askpass_answers_for_its_own_host_alone(question: str) -> None:
    assert asked([question], "git.example") == [""]


def test_askpass_tells_each_line_once() -> None:
    user, password = "Username for 'https://git.example': ", "Password for 'https://reader@git.example': "

    assert asked([user, password, password], "git.example") == ["reader\n", f"{CANARY}\n", ""]


def asked(questions: list[str], host: str) -> list[str]:
    access = git_secrets.Access(GitHttps(host, "reader", Secret(CANARY)))
    with access.lent() as loan:
        return [
            subprocess.run(
                [loan.variables["GIT_ASKPASS"], question],
                env=dict(loan.variables),
                pass_fds=loan.descriptors,
                capture_output=True,
                text=True,
                check=False,
                timeout=10,
            ).stdout
            for question in questions
        ]


def test_host_that_repeats_what_it_was_told_is_not_quoted(
    tmp_path: Path, certificate: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    def echo(seen: Seen) -> Written:
        given = seen.headers.get("Authorization")
        if given is None:
            return UNAUTHORIZED
        text = f"{given}\nyou said {base64.b64decode(given.removeprefix('Basic ')).decode()}\n{CANARY}"
        return Written(403, text.encode(), {"Content-Type": "text/plain"})

    with WebServer(echo, certificate[0]).running() as server:
        reader = git.GitReader(tmp_path / "mirrors", credential_for(server), authorities=certificate[1])
        with pytest.raises(errors.SourceUnavailable) as caught:
            reader.begin(api(server), records.Cursor(), git_secrecy.NOW)

    told = f"{caught.value} {caught.value.__cause__!r} {vars(caught.value.__cause__)} {caplog.text}".encode()
    assert b"remote: " in told
    assert git_secrecy.hits(iter([told]), git_secrecy.forms(CANARY, "reader")) == []


@pytest.mark.parametrize(
    ("credential", "word"),
    [
        (GitHttps("git.example", "reader", Secret(CANARY)), "its credential is for git.example"),
        (GitSsh("127.0.0.1", Secret(CANARY), "known"), "a git_ssh is no use"),
        (GitHubToken("127.0.0.1", Secret(CANARY)), "a github_token is no use"),
    ],
)
def test_credential_of_another_host_or_kind_is_refused_before_anything_runs(
    reader: git.GitReader, server: WebServer, credential: GitHttps | GitSsh | GitHubToken, word: str
) -> None:
    with pytest.raises(errors.CredentialRefused, match=word):
        replace(reader, credential=credential).begin(api(server), records.Cursor(), git_secrecy.NOW)

    assert server.seen == []
    assert not reader.mirrors.exists()


@pytest.mark.parametrize("password", ["two\nlines", "x" * 5000])
def test_password_that_askpass_cannot_tell_is_refused(reader: git.GitReader, server: WebServer, password: str) -> None:
    with pytest.raises(errors.CredentialMalformed, match="add it anew") as caught:
        replace(reader, credential=credential_for(server, password)).begin(
            api(server), records.Cursor(), git_secrecy.NOW
        )

    assert password not in str(caught.value)


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # the one that lists is among them each time


@pytest.mark.parametrize("end", ["success", "refusal", "deadline", "drain"])
def test_nothing_is_left_behind(
    tmp_path: Path, repository: Repository, reader: git.GitReader, server: WebServer, host: HttpHost, end: str
) -> None:
    repository.commit({b"a": b"1\n"})
    git_secrecy.read_all(reader, api(server))  # whatever is made once is there now
    before = open_descriptors()

    if end == "success":
        git_secrecy.read_all(reader, api(server))
    elif end == "drain":
        walk = reader.begin(api(server), records.Cursor(), git_secrecy.NOW)
        with closing(reader.read(api(server), walk, None)) as pages:
            next(pages)
    else:
        (host.is_open if end == "deadline" else host.passwords).clear()
        with pytest.raises(errors.DevHopsError):
            replace(reader, silence_timeout_seconds=0.5).begin(api(server), records.Cursor(), git_secrecy.NOW)
        host.is_open.set()

    server._server.close_connections()  # those that git kept alive
    assert git_secrecy.comes_true(lambda: open_descriptors() == before)
    assert git_secrecy.git_processes() == []


def test_credentials_check_reads_the_source(
    tmp_path: Path,
    repository: Repository,
    server: WebServer,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    repository.tag("v1", repository.commit({b"a": b"1\n"}), is_annotated=True)
    chosen = settings.load({"PROVIDER_CA_BUNDLE": str(certificate[1]), "DEV_HOPS_DIR": "/nonexistent"})

    found = git_identity.identity(credential_for(server), api(server), chosen)

    assert (found.account, found.scopes, found.missing) == ("reader", None, ())
    assert "1 branches and 1 tags" in found.notes[0]
    with pytest.raises(errors.CredentialRefused):
        git_identity.identity(credential_for(server, "wrong-password"), api(server), chosen)
    assert list((tmp_path / "temporary").iterdir()) == []


CROWD = """
import gevent.monkey
gevent.monkey.patch_all()
import sys
from dataclasses import replace
from pathlib import Path
import gevent
from tests.integration.providers import git_secrecy
from worker_app.credentials.kinds import GitHttps
from worker_app.providers import git
from worker_app.secret import Secret
mirrors, authorities, url, host, count = sys.argv[1:]
def read(number):
    credential = GitHttps(host, f"user-{number}", Secret(f"password-{number}"))
    reader = git.GitReader(Path(mirrors), credential, authorities=Path(authorities))
    return len(git_secrecy.read_all(reader, git_secrecy.source_at(f"{url}/team-{number}/api.git", number=number)))
jobs = [gevent.spawn(read, number) for number in range(int(count))]
gevent.joinall(jobs, timeout=25, raise_error=True)
print(sum(job.value for job in jobs))
"""


def test_greenlets_never_sign_in_as_one_another(
    tmp_path: Path, certificate: tuple[Path, Path], host: HttpHost, server: WebServer
) -> None:
    count = 12
    host.passwords = {f"user-{number}": f"password-{number}" for number in range(count)}
    for number in range(count):
        path = tmp_path / "served" / f"team-{number}" / "api.git"
        Repository.create(path, is_bare=True).commit({b"a": b"%d\n" % number})
    arguments = [str(tmp_path / "mirrors"), str(certificate[1]), server.url, f"127.0.0.1:{server.port}", str(count)]

    done = subprocess.run([sys.executable, "-c", CROWD, *arguments], capture_output=True, text=True, timeout=28)

    assert (done.stdout, done.stderr) == (f"{count}\n", "")
    assert host.refused == []
    assert {(user.split("-")[1], target.split("/")[1].split("-")[1]) for user, target in host.signed} == {
        (str(number), str(number)) for number in range(count)
    }

"""Real git servers on loopback that ask who is there: git's own CGI program behind https, and ssh in a process of its own."""

import base64
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests import repositories
from tests.web_server import Seen, Written

SSH_PROGRAM = Path(__file__).with_name("git_ssh_server.py")
UNAUTHORIZED = Written(401, b"who is there?", {"WWW-Authenticate": 'Basic realm="git"', "Content-Type": "text/plain"})


@dataclass
class HttpHost:
    """Answers for a `WebServer`: the bare repositories in `folder`, for those who are in `passwords`."""

    folder: Path
    passwords: dict[str, str]  # user -> password
    is_open: Event = field(default_factory=Event)  # unset, a request that is signed in waits
    is_asked: Event = field(default_factory=Event)  # a request that is signed in has come
    signed: list[tuple[str, str]] = field(default_factory=list)  # user and target of what was let in
    refused: list[str] = field(default_factory=list)  # users that were not

    def respond(self, seen: Seen) -> Written:
        """The reply to one request of git."""
        given = seen.headers.get("Authorization", "")
        if not given:
            return UNAUTHORIZED
        user, _, password = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")
        if self.passwords.get(user) != password:
            self.refused.append(user)
            return UNAUTHORIZED
        self.signed.append((user, seen.target))
        self.is_asked.set()
        self.is_open.wait(20)
        return run_backend(self.folder, seen)


def run_backend(folder: Path, seen: Seen) -> Written:
    """What `git http-backend` answers for the repositories in `folder`."""
    parts = urlsplit(seen.target)
    variables = {
        **repositories.ENVIRONMENT,
        "GIT_PROJECT_ROOT": str(folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "REQUEST_METHOD": seen.method,
        "CONTENT_TYPE": seen.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(seen.body)),
        "HTTP_CONTENT_ENCODING": seen.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": seen.headers.get("Git-Protocol", ""),
    }
    command = [repositories.GIT, "http-backend"]
    done = subprocess.run(command, env=variables, input=seen.body, capture_output=True, check=False, timeout=20)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
    status = int(headers.pop("Status", "200").split()[0])
    return Written(status, body, headers)


@dataclass(frozen=True)
class KeyPair:
    """A key as OpenSSH writes it."""

    private: str
    public: str  # kind and key, one line

    @classmethod
    def generate(cls) -> "KeyPair":
        """A new Ed25519 key."""
        key = Ed25519PrivateKey.generate()
        form, nothing = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, form, nothing).decode()
        line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return cls(private, line.decode())


@dataclass(frozen=True)
class SshHost:
    """A running ssh server."""

    port: int
    host_key: KeyPair
    log: Path  # a line for each key that was shown and each command that was asked for

    @property
    def known_hosts(self) -> str:
        """The line by which the server proves itself."""
        return f"[127.0.0.1]:{self.port} {self.host_key.public}\n"

    def url(self, name: str) -> str:
        """The clone address of a repository in its folder."""
        return f"ssh://git@127.0.0.1:{self.port}/{name}"

    def seen(self) -> list[str]:
        """What the server has been asked so far."""
        return self.log.read_text().splitlines()

    def is_asked(self) -> bool:
        """Whether somebody was let in and asked for a command."""
        return any(line.startswith("git-upload-pack ") for line in self.seen())


@contextmanager
def ssh_host(folder: Path, work: Path, user_key: KeyPair, *, holds: bool = False) -> Iterator[SshHost]:
    """Serve the bare repositories in `folder` for `user_key`; with `holds` no command is ever answered."""
    host_key, log = KeyPair.generate(), work / "ssh.log"
    (work / "host").write_text(host_key.private)
    (work / "user.pub").write_text(user_key.public + "\n")
    log.touch()
    command = [
        sys.executable,
        str(SSH_PROGRAM),
        str(folder),
        str(work / "host"),
        str(work / "user.pub"),
        str(log),
    ]
    command += ["holds"] if holds else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={"PATH": os.defpath}) as process:
        assert process.stdout is not None
        try:
            assert select.select([process.stdout], [], [], 20)[0]
            yield SshHost(int(process.stdout.readline()), host_key, log)
        finally:
            process.kill()

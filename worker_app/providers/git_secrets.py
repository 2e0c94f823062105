"""Lends git a credential for one conversation, over descriptors that only its own processes inherit and that end with them.

No argument, address, variable, configuration or file holds a secret, so none outlives git, however the worker ends. Only the
conversation with the remote gets the loan; a git that reads the mirror gets nothing. See docs/explanation/credentials.md.
"""

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from worker_app import errors
from worker_app.credentials.kinds import Credential, GitHttps, GitSsh
from worker_app.providers import git_ssh
from worker_app.providers.git_address import Address
from worker_app.providers.git_command import NOTHING, Loan

ASKPASS = Path(__file__).with_name("git_askpass.sh")
# protocol of an address -> what signs in over it
KINDS: dict[str, type[GitHttps] | type[GitSsh]] = {"https": GitHttps, "ssh": GitSsh}


@dataclass(frozen=True, slots=True)
class Access:
    """How git signs in at one remote."""

    credential: GitHttps | GitSsh | None = None  # None: as anybody may

    @contextmanager
    def lent(self) -> Iterator[Loan]:
        """What one command of git is given, for the time of the block. Raises CredentialRefused, SettingsError."""
        match self.credential:
            case GitHttps() as credential:
                with _askpass(credential) as loan:
                    yield loan
            case GitSsh() as credential:
                with git_ssh.lent(credential) as loan:
                    yield loan
            case None:
                yield NOTHING


def access(credential: Credential | None, address: Address) -> Access:
    """How `credential` signs in at `address`, before anything runs.

    Raises CredentialRefused for one of another host or kind, SourceUnavailable where the address cannot be read without one.
    """
    fault = misfit(address, credential.kind if credential else None)
    if credential is None:
        if fault:
            raise errors.SourceUnavailable(fault)
        return Access()
    if fault or not isinstance(credential, GitHttps | GitSsh):
        raise errors.CredentialRefused(str(fault))
    if credential.host != address.host:
        raise errors.CredentialRefused(
            f"{address.url} is on {address.host} and its credential is for {credential.host}; {_remedy(address.protocol)}"
        )
    return Access(credential)


def misfit(address: Address, kind: str | None) -> str | None:
    """Why `address` cannot be read with this kind of credential, or with none, and the remedy; None where it can."""
    fitting = KINDS.get(address.protocol)
    if kind is None:
        return f"{address.url} is read over ssh, by a key; {_remedy('ssh')}" if fitting is GitSsh else None
    if fitting is None:
        return f"{address.url} is read without a credential; leave it out"
    if kind != fitting.kind:
        return (
            f"{address.url} is read over {address.protocol}, to which a {kind} is no use; {_remedy(address.protocol)}"
        )
    return None


def _remedy(protocol: str) -> str:
    return (
        f"add a {KINDS[protocol].kind} for this host with `dev-hops credentials add`, and name it in `dev-hops sources add … "
        "--credential`"
    )


@contextmanager
def _askpass(credential: GitHttps) -> Iterator[Loan]:
    if not os.access(ASKPASS, os.X_OK):
        raise errors.SettingsError(f"{ASKPASS} may not be run, so git cannot be told a password; install dev-hops anew")
    lines = _lines(credential)
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            pipe.write(lines)
        yield Loan(_https_variables(credential.host, reading), (reading,))
    finally:
        os.close(reading)


def _lines(credential: GitHttps) -> bytes:
    """The answers to git's two questions. A new pipe holds this much at once, so writing it never waits."""
    answers = (credential.user, credential.password.reveal())
    lines = "".join(f"{answer}\n" for answer in answers).encode()
    if not all(map(str.isprintable, answers)) or len(lines) > select.PIPE_BUF:
        raise errors.CredentialMalformed(
            f"the git_https for {credential.host} has a user or a password that holds a line break or another control "
            f"character, or is longer than {select.PIPE_BUF} bytes; add it anew"
        )
    return lines


def _https_variables(host: str, descriptor: int) -> dict[str, str]:
    return {
        "GIT_ASKPASS": str(ASKPASS),
        "DEV_HOPS_ASKPASS_HOST": host,
        "DEV_HOPS_ASKPASS_PIPE": f"/dev/fd/{descriptor}",
        # Whether a password follows a redirect differs between versions of libcurl, so none is followed.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.followRedirects",
        "GIT_CONFIG_VALUE_0": "false",
    }

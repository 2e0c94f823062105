"""What a credential of git reads at one source: asked by one `git ls-remote`, since git knows neither accounts nor scopes."""

import tempfile
from pathlib import Path

from worker_app.credentials.kinds import GitHttps, GitSsh
from worker_app.providers import git_address, git_environment, git_faults, git_secrets
from worker_app.providers.git_command import Git, GitFailed
from worker_app.providers.identity import Identity
from worker_app.records import Source
from worker_app.settings import Settings

DEADLINE_SECONDS = 60.0


def identity(credential: GitHttps | GitSsh, source: Source, settings: Settings) -> Identity:
    """Whether `credential` reads `source`. Leaves nothing behind.

    Raises CredentialRefused when the remote does not take it, SourceUnavailable when there is no such repository, TransientError
    when the remote is away, SettingsError when git or ssh is missing.
    """
    address = git_address.parse(source.external_name)
    access = git_secrets.access(credential, address)
    with tempfile.TemporaryDirectory() as home:
        git = _git(address, Path(home), settings.provider_ca_bundle)
        try:
            with access.lent() as loan:
                answer = git.run("ls-remote", "--", address.url, within_seconds=DEADLINE_SECONDS, loan=loan)
        except GitFailed as failure:
            raise git_faults.verdict(address, failure, is_remote=True, is_signed=True) or failure from None
    account = credential.user if isinstance(credential, GitHttps) else None
    return Identity(account, notes=(f"reads {address.url}, which has {_told(answer)}; git tells no scopes",))


def _git(address: git_address.Address, home: Path, authorities: Path | None) -> Git:
    program, config = git_environment.find_program(), home / "config"
    git_environment.write_config(config, trusted=())
    variables = git_environment.variables(
        program, home=home, config=config, protocol=address.protocol, authorities=authorities
    )
    return Git(program, home / "none.git", variables)


def _told(answer: bytes) -> str:
    names = [line.partition(b"\t")[2] for line in answer.splitlines()]
    branches = sum(name.startswith(b"refs/heads/") for name in names)
    tags = sum(name.startswith(b"refs/tags/") and not name.endswith(b"^{}") for name in names)
    return f"{branches} branches and {tags} tags"

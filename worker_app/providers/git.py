"""Reads commits from plain git: a bare mirror of the source is fetched, then what is new since the last walk is listed.

The door of the provider: it lays out mirrors on disk and says who is at fault; the steps are in the `git_*` modules beside
it. Keeps no state between calls and knows no store.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from worker_app import errors, records
from worker_app.credentials.kinds import Credential
from worker_app.providers import git_address, git_environment, git_secrets, git_walk
from worker_app.providers.git_command import Git, GitFailed
from worker_app.providers.git_mirror import Mirror


def identity(external_name: str) -> tuple[str, str]:
    """The host and the `ext_id` of a clone address or a path. Raises UsageError for what is neither."""
    address = git_address.parse(external_name)
    return address.host, address.ext_id


def public_address(external_name: str) -> str:
    """What is stored and shown of a clone address or a path. Raises UsageError for one that holds a user or a password."""
    address = git_address.parse(external_name)
    if address.protocol == "https" and "@" in external_name:
        raise errors.UsageError(
            f"external_name {address.url!r} was given with a user or a password: it would be shown to everyone who lists "
            "sources; give the address alone, and the password to `dev-hops credentials add`"
        )
    return address.url if address.protocol == "file" else external_name


def check_kind(external_name: str, kind: str | None) -> None:
    """Raises UsageError where a source cannot be read with this kind of credential, or with none."""
    if fault := git_secrets.misfit(git_address.parse(external_name), kind):
        raise errors.UsageError(fault)


@dataclass(frozen=True, slots=True)
class GitReader:
    """Implements `records.Reader` for the dataset commits. Mirrors stand at `mirrors`/<org_id>/<source_id>.git."""

    mirrors: Path
    credential: Credential | None = None  # None: as anybody may
    authorities: Path | None = field(default=None, kw_only=True)  # PEM, in place of the public ones
    allow_file: bool = field(default=False, kw_only=True)  # read paths of this machine too
    page_size: int = field(default=1000, kw_only=True)  # commits
    fetch_timeout_seconds: float = field(default=600, kw_only=True)
    silence_timeout_seconds: float = field(default=60, kw_only=True)  # of git in a list, of a remote at first
    lock_timeout_seconds: float = field(default=30, kw_only=True)  # for another process that fetches the same source
    program: str = field(default_factory=git_environment.find_program, kw_only=True)

    def begin(self, source: records.Source, cursor: records.Cursor, now: datetime) -> records.Walk:
        """Fetch the source and freeze what a walk from `cursor` has to read.

        Raises SourceUnavailable or CredentialRefused when a person has to act, TransientError when the remote or the mirror is
        at fault, or another process keeps the mirror for longer than `lock_timeout_seconds`.
        """
        mirror = self._mirror(source)
        with mirror.locked():
            return mirror.with_fresh_start(lambda: git_walk.freeze(mirror, cursor, now))

    def read(
        self, source: records.Source, walk: records.Walk, position: str | None
    ) -> Generator[records.Page, None, None]:
        """Yield the commits of `walk` after `position`, then those that nothing leads to any more; newest first.

        The first page of a walk also holds the Repository. The last page may be empty. Closing the iterator ends git.
        Raises WalkLost when a commit that frames the walk is neither here nor at the source, TransientError for other faults.
        """
        mirror = self._mirror(source)
        git_walk.require(mirror, walk)
        after = git_walk.Position.parse(position) if position else None
        try:
            yield from git_walk.Listing(mirror, source, walk).pages(after, size=self.page_size)
        except GitFailed as failure:
            if failure.status > 0:  # a signal would say nothing about the mirror
                with mirror.locked(
                    may_wait=False
                ):  # whoever is at it now finds the fault too; its new mirror must stay
                    mirror.discard(failure)
            raise

    def _mirror(self, source: records.Source) -> Mirror:
        try:
            address = git_address.parse(source.external_name)
        except errors.UsageError as fault:
            raise errors.SourceUnavailable(str(fault)) from fault
        if address.protocol == "file" and not self.allow_file:
            text = f"{address.url} is a path of this machine, which only `dev-hops up --git` may read"
            raise errors.SourceUnavailable(text)
        access = git_secrets.access(self.credential, address)
        folder = self.mirrors.absolute() / str(source.org_id) / f"{source.id}.git"
        home = folder.parents[1] / ".home"
        for needed in (home, folder.parent):
            needed.mkdir(parents=True, exist_ok=True)
        config = folder.with_suffix(".config")
        variables = git_environment.variables(
            self.program, home=home, config=config, protocol=address.protocol, authorities=self.authorities
        )
        return Mirror(
            address,
            Git(self.program, folder, variables),
            silence_seconds=self.silence_timeout_seconds,
            work_seconds=self.fetch_timeout_seconds,
            lock_seconds=self.lock_timeout_seconds,
            access=access,
        )

"""The mirror: a bare clone of one source, brought up to date, healed, and asked what it holds.

A mirror is a cache. It only gains objects, so a frozen walk stays readable; in doubt it is thrown away and fetched anew.
One at a time changes it, under its lock; reading takes none. Knows no record.
"""

import fcntl
import logging
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TypeVar

from worker_app import errors
from worker_app.providers import git_environment, git_faults, git_folder
from worker_app.providers.git_address import Address
from worker_app.providers.git_command import Git, GitFailed
from worker_app.providers.git_secrets import Access

logger = logging.getLogger(__name__)
T = TypeVar("T")

LOCK_POLL_SECONDS = 0.2  # gevent patches sleep, but a flock that waits would stop every greenlet of the process
NO_BRANCH = "refs/none"  # where the mirror's HEAD points when the remote has no default branch
REFSPECS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
FETCH = "fetch --quiet --prune --force --no-tags --no-write-fetch-head --no-auto-maintenance --no-recurse-submodules"


@dataclass(frozen=True, slots=True)
class Mirror:
    """The bare clone of one source. What changes it is called under `locked`."""

    address: Address
    git: Git
    silence_seconds: float  # of git in a list, of the remote before its first answer
    work_seconds: float  # for a fetch, and for a command that reads the mirror alone
    lock_seconds: float  # for another process to end its change
    access: Access  # to the remote

    @contextmanager
    def locked(self, *, may_wait: bool = True) -> Iterator[None]:
        """Keep others from changing the mirror.

        Raises TransientError when another holds it for longer than `lock_seconds`, without `may_wait` when another does at all.
        """
        ends_at = time.monotonic() + (self.lock_seconds if may_wait else 0)
        with self.git.folder.with_suffix(".lock").open("ab") as lock:
            while not _is_taken(lock):
                if time.monotonic() >= ends_at:
                    raise errors.TransientError(f"another process is fetching {self.address.url}; it is tried again")
                time.sleep(LOCK_POLL_SECONDS)
            yield

    def with_fresh_start(self, action: Callable[[], T]) -> T:
        """Do `action`; where git fails on a mirror that was there before, once more on a new one."""
        if self.git.folder.exists():
            try:
                return action()
            except GitFailed as failure:
                self.discard(failure)
        with self._judged(is_remote=True):
            return action()

    def discard(self, failure: GitFailed) -> None:
        """Throw the mirror away; the next fetch makes a new one."""
        logger.warning("git_mirror_discarded", extra={"folder": str(self.git.folder), "reason": str(failure)})
        old = self.git.folder.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):
            self.git.folder.rename(old)
        shutil.rmtree(old, ignore_errors=True)

    def refresh(self) -> None:
        """Bring branches and tags up to date.

        Raises SourceUnavailable, CredentialRefused, SettingsError, TransientError; GitFailed accuses the mirror.
        """
        path = Path(self.address.url) if self.address.protocol == "file" else None
        if path:
            git_folder.check(path)
        config = Path(self.git.environment["GIT_CONFIG_GLOBAL"])
        git_environment.write_config(config, trusted=git_folder.trusted(path) if path else ())
        head = self._ask_head()
        if self.git.folder.exists():
            self._fetch(self.git)
            self.git.run("symbolic-ref", "HEAD", head, within_seconds=self.work_seconds)
            return
        # Fetched aside and renamed when it is whole: a kill never leaves half a mirror.
        new = replace(self.git, folder=self.git.folder.with_suffix(".new"))
        if new.folder.exists():
            shutil.rmtree(new.folder)
        if not (path and self._copy(new)):
            new.run("init", "--quiet", "--bare", "--template=", within_seconds=self.work_seconds)
            self._fetch(new)
        new.run("symbolic-ref", "HEAD", head, within_seconds=self.work_seconds)
        new.folder.rename(self.git.folder)

    def _copy(self, new: Git) -> bool:
        # A clone of a path links the objects instead of sending them: 0.1 s instead of 11 s for 100,000 commits.
        command = ("clone", "--quiet", "--bare", "--template=", "--dissociate", "--", self.address.url, str(new.folder))
        try:
            new.run(*command, within_seconds=self.work_seconds)
        except GitFailed:
            return False
        return True

    def _ask_head(self) -> str:
        command = ("ls-remote", "--symref", "--", self.address.url, "HEAD")
        with self._judged(is_remote=True), self.access.lent() as loan:
            answer = self.git.run(*command, within_seconds=self.silence_seconds, loan=loan)
        lines = (line.removeprefix("ref: ").split("\t") for line in answer.decode(errors="replace").splitlines())
        return next((name for name, *of in lines if of == ["HEAD"] and name.startswith("refs/heads/")), NO_BRANCH)

    def _fetch(self, git: Git) -> None:
        for torn in git.folder.glob("objects/pack/tmp_*"):  # what a killed fetch leaves may be as large as the source
            torn.unlink(missing_ok=True)
        # A mirror that is cut asks for the rest, which a source that was completed since then has.
        depth = "--unshallow" if _edges(git.folder) else "--update-shallow"
        command = (*FETCH.split(), depth, "--", self.address.url, *REFSPECS)
        with self._judged(is_remote=False), self.access.lent() as loan:
            git.run(*command, within_seconds=self.work_seconds, loan=loan)

    @contextmanager
    def _judged(self, *, is_remote: bool) -> Iterator[None]:
        try:
            yield
        except GitFailed as failure:
            is_signed = self.access.credential is not None
            verdict = git_faults.verdict(self.address, failure, is_remote=is_remote, is_signed=is_signed)
            if verdict is None:
                raise
            raise verdict from failure

    def edges(self) -> frozenset[str]:
        """The commits whose parents are missing, because the source is a shallow clone."""
        return _edges(self.git.folder)

    def refs(self) -> dict[str, str]:
        """Every branch and tag, and the object it names."""
        lines = self._run("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
        # A name is kept apart from its like even where it is no text.
        pairs = (line.decode(errors="backslashreplace").split(" ", 1) for line in lines)
        return {name: sha for sha, name in pairs}

    def commits(self, shas: Iterable[str]) -> list[str | None]:
        """The commit that each object is or, as a tag, leads to; None for what is missing or leads to none."""
        wanted = [f"{sha}^{{commit}}" for sha in shas]
        found = self._run("cat-file", "--batch-check=%(objectname)", "--buffer", lines=wanted) if wanted else []
        return [None if line.endswith(b" missing") else line.decode("ascii") for line in found]

    def has(self, shas: Iterable[str]) -> bool:
        """Whether all these commits are here; False for a mirror that cannot be read at all."""
        try:
            return self.git.folder.exists() and all(self.commits(shas))
        except GitFailed:
            return False

    def count(self, until: Iterable[str], since: Iterable[str]) -> int:
        """How many commits `until` leads to and `since` does not."""
        return int(self._run("rev-list", "--count", "--stdin", lines=_range(until, since))[0]) if until else 0

    def listed(
        self, command: str, until: Iterable[str], since: Iterable[str] = (), *, skip: int = 0
    ) -> Generator[bytes, None, None]:
        """What `command` prints of the commits that `until` leads to and `since` does not, after the first `skip`.

        The order is the same every time. Raises as `Git.stream` does; closing it ends git.
        """
        lines = _range(until, since)
        return self.git.stream(*command.split(), f"--skip={skip}", lines=lines, silence_seconds=self.silence_seconds)

    def default_branch(self) -> str | None:
        """The short name of the branch that the remote's HEAD named at the last fetch."""
        head = self._run("symbolic-ref", "HEAD")[0].decode(errors="replace")
        return head.removeprefix("refs/heads/") if head.startswith("refs/heads/") else None

    def _run(self, *arguments: str, lines: Iterable[str] = ()) -> list[bytes]:
        return self.git.run(*arguments, lines=lines, within_seconds=self.work_seconds).split(b"\n")[:-1]


def _is_taken(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _edges(folder: Path) -> frozenset[str]:
    shallow = folder / "shallow"
    return frozenset(shallow.read_text().split()) if shallow.exists() else frozenset()


def _range(until: Iterable[str], since: Iterable[str]) -> list[str]:
    # Sorted, so that git lists the same walk in the same order every time. `--not` is no line of --stdin before git 2.42.
    return [*sorted(set(until)), *(f"^{sha}" for sha in sorted(set(since)))]

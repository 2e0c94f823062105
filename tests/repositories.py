"""Builds real git repositories for tests and benches, through `git fast-import`.

Everything is deterministic: the same arguments give the same shas. Nothing of the user's configuration takes part.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from uuid import UUID

from worker_app import records
from worker_app.providers import git

FIRST_SECOND = 1_700_000_000  # 2023-11-14T22:13:20Z, the time of the first commit
GIT = shutil.which("git") or "git"
LINE_BYTES = 16
POOL = b"".join(b"line %010d\n" % number for number in range(60_000))


ENVIRONMENT = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    # Most of the time of a commit would be its wait for the disk, and no test outlives a power cut.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.fsync",
    "GIT_CONFIG_VALUE_0": "none",
    **{f"GIT_{role}_NAME": "Builder" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "builder@example.org" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_DATE": f"{FIRST_SECOND} +0000" for role in ("AUTHOR", "COMMITTER")},
}


def run_git(path: Path, *arguments: str, standard_input: bytes = b"") -> bytes:
    """The output of git in `path`. Raises CalledProcessError with git's own words in `stderr`."""
    command = [GIT, "-c", "safe.directory=*", *arguments]
    done = subprocess.run(command, cwd=path, env=ENVIRONMENT, input=standard_input, capture_output=True, check=True)
    return done.stdout


@dataclass(frozen=True, slots=True)
class Repository:
    """One git repository that a test changes step by step."""

    path: Path

    @classmethod
    def create(cls, path: Path, *, is_bare: bool = False) -> "Repository":
        """Make an empty repository whose HEAD names the branch main."""
        path.mkdir(parents=True, exist_ok=True)
        run_git(path, "init", "--quiet", "--template=", "--initial-branch=main", *(["--bare"] if is_bare else []))
        return cls(path)

    def git(self, *arguments: str, standard_input: bytes = b"") -> str:
        """The output of git here, without the newline at its end."""
        return run_git(self.path, *arguments, standard_input=standard_input).decode(errors="replace").rstrip("\n")

    def commit(
        self,
        files: Mapping[bytes, bytes | None] | None = None,
        *,
        branch: str = "main",
        author: bytes = b"Ada <ada@example.org>",
        message: bytes = b"change",
        at: bytes | int = FIRST_SECOND,
        parents: tuple[str, ...] | None = None,
        encoding: bytes | None = None,
    ) -> str:
        """Add a commit to `branch` and return its sha; a file that is None is deleted.

        `author` is written as it stands, `at` in seconds of the epoch. Without `parents` it follows the branch.
        """
        ref = f"refs/heads/{branch}"
        if parents is None:
            tip = self.git("for-each-ref", "--format=%(objectname)", ref)
            parents = (tip,) if tip else ()
        when = at if isinstance(at, bytes) else b"%d" % at
        lines = [b"reset %s\n" % ref.encode(), b"commit %s\nmark :1\n" % ref.encode()]
        lines += [b"%s %s %s +0000\n" % (role, author, when) for role in (b"author", b"committer")]
        lines += [b"encoding %s\n" % encoding] if encoding else []
        lines += [b"data %d\n%s\n" % (len(message), message)]
        lines += [b"%s %s\n" % (b"merge" if number else b"from", sha.encode()) for number, sha in enumerate(parents)]
        lines += [_change(name, content) for name, content in (files or {}).items()]
        return self.import_stream(b"".join([*lines, b"\nget-mark :1\n"]))

    def merge(self, branch: str, other: str, *, at: int = FIRST_SECOND) -> str:
        """Merge `other` into `branch` as one commit that keeps the files of `branch`, and return its sha."""
        return self.commit(branch=branch, at=at, parents=(self.sha(branch), self.sha(other)))

    def import_stream(self, stream: bytes) -> str:
        """Hand a stream to `git fast-import`, which may move any ref anywhere, and return what the stream asked for."""
        return self.git("fast-import", "--quiet", "--force", "--date-format=raw-permissive", standard_input=stream)

    def write_object(self, kind: str, content: bytes) -> str:
        """Store an object as it is, however wrong, and return its sha."""
        return self.git("hash-object", "-t", kind, "-w", "--literally", "--stdin", standard_input=content)

    def sha(self, name: str) -> str:
        """The sha of the object that a ref or an expression names."""
        return self.git("rev-parse", "--verify", name)

    def set_branch(self, branch: str, sha: str) -> None:
        """Make `branch` point at `sha`, wherever it was before."""
        self.git("update-ref", f"refs/heads/{branch}", sha)

    def delete_branch(self, branch: str) -> None:
        """Remove a branch and keep its objects."""
        self.git("update-ref", "-d", f"refs/heads/{branch}")

    def tag(self, name: str, target: str, *, is_annotated: bool = False) -> None:
        """Tag any object: a commit, another tag, a tree, a blob."""
        self.git("tag", *(["--annotate", "--message=a tag"] if is_annotated else []), name, target)

    def clone_shallow(self, path: Path, *, depth: int) -> "Repository":
        """Clone to `path` with only the last `depth` commits of the default branch."""
        run_git(self.path, "clone", "--quiet", f"--depth={depth}", f"file://{self.path}", str(path))
        return Repository(path)


def _change(name: bytes, content: bytes | None) -> bytes:
    path = b'"%s"' % b"".join(b"\\%03o" % byte for byte in name)
    if content is None:
        return b"D %s\n" % path
    return b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(content), content)


def source_of(path: Path, *, org_id: int = 1) -> records.Source:
    """The source that a repository at `path` is for an organisation."""
    host, ext_id = git.identity(str(path))
    return records.Source(UUID(int=org_id), UUID(int=2), "git", host, str(path), ext_id)


def generate(
    path: Path,
    *,
    commits: int,
    branches: int = 1,
    merge_every: int = 0,
    authors: int = 20,
    files: int = 400,
    files_per_commit: int = 3,
    seed: int = 1,
) -> None:
    """Make a bare repository at `path` with exactly `commits` commits, one minute apart, on main and `branches` - 1 others.

    A commit changes 1 to 2 * `files_per_commit` - 1 of `files` files by a few lines. Every `merge_every`-th commit
    (0: none) merges another branch into main. 100,000 commits take about 10 s and 53 MB.
    """
    repository = Repository.create(path, is_bare=True)
    plan = _Plan(commits, branches, merge_every, authors, files, files_per_commit)
    command = [GIT, "fast-import", "--quiet"]
    with subprocess.Popen(command, cwd=repository.path, env=ENVIRONMENT, stdin=subprocess.PIPE) as importer:
        assert importer.stdin is not None
        pieces = _commits(plan, random.Random(seed))
        while block := b"".join(islice(pieces, 10_000)):
            importer.stdin.write(block)
    if importer.returncode:
        raise subprocess.CalledProcessError(importer.returncode, command)


@dataclass(frozen=True, slots=True)
class _Plan:
    commits: int
    branches: int
    merge_every: int
    authors: int
    files: int
    files_per_commit: int


def _commits(plan: _Plan, chance: random.Random) -> Iterator[bytes]:
    names = [b"folder-%02d/file-%04d.txt" % (n % 20, n) for n in range(plan.files)]
    starts = [chance.randrange(1000) for _ in names]
    branches = [b"refs/heads/main", *(b"refs/heads/branch-%d" % n for n in range(1, plan.branches))]
    begun: set[bytes] = set()
    for number in range(plan.commits):
        is_merge = bool(plan.merge_every) and number % plan.merge_every == plan.merge_every - 1 and len(begun) > 1
        branch = branches[0] if is_merge or number == 0 else chance.choice(branches)
        author = chance.randrange(plan.authors)
        person = b"Author %d <author-%d@example.org> %d +0000" % (author, author, FIRST_SECOND + 60 * number)
        yield b"commit %s\nauthor %s\ncommitter %s\ndata 7\nchange\n\n" % (branch, person, person)
        if branch not in begun and begun:
            yield b"from %s\n" % branches[0]
        if is_merge:
            yield b"merge %s\n" % chance.choice(sorted(begun - {branches[0]}))
        begun.add(branch)
        for index in {chance.randrange(plan.files) for _ in range(chance.randrange(1, 2 * plan.files_per_commit))}:
            yield _content(names[index], starts, index, chance)


def _content(name: bytes, starts: list[int], index: int, chance: random.Random) -> bytes:
    """A file is a window of 20 lines that glides over a pool: a step of n lines removes n at its head and adds n."""
    starts[index] = (starts[index] + chance.randrange(1, 8)) % 59_000
    content = POOL[starts[index] * LINE_BYTES : (starts[index] + 20) * LINE_BYTES]
    return b"M 100644 inline %s\ndata %d\n%s\n" % (name, len(content), content)

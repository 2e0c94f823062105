"""A source that is a path of this machine: looked at before git is, so that a refusal names the path and the remedy.

Reads names and permissions only. What cannot be seen from here, such as a torn object, is left to git.
"""

import os
from pathlib import Path

from worker_app import errors


def check(path: Path) -> None:
    """Refuse a path that git could not read, or not read all of. Raises SourceUnavailable with what to do about it.

    Refs that git may not read it leaves out without a word, so they are looked at one by one.
    """
    try:
        path.stat()
        folder = contents(path)
        has_all = all((folder / name).exists() for name in ("HEAD", "objects", "refs"))
        places = [
            folder / name for name in ("", "HEAD", "packed-refs", "objects", "objects/pack", "refs/heads", "refs/tags")
        ]
        places += [place for kind in places[-2:] for place in kind.rglob("*")]
        is_partial = any(folder.glob("objects/pack/*.promisor"))
        is_closed = any(place.exists() and not os.access(place, os.R_OK) for place in places)
    except PermissionError as fault:
        raise errors.SourceUnavailable(_unreadable(path)) from fault
    except OSError as fault:
        text = f"the path {path} does not exist on this machine; correct the path, or mount it where the worker runs"
        raise errors.SourceUnavailable(text) from fault
    if is_closed:
        raise errors.SourceUnavailable(_unreadable(path))
    if not has_all:
        raise errors.SourceUnavailable(f"the path {path} is no git repository; {_nearest(path)}")
    if is_partial:
        text = f"the path {path} is a partial clone (--filter), in which lines cannot be counted; name a full clone"
        raise errors.SourceUnavailable(text)


def contents(path: Path) -> Path:
    """Where the objects and refs of a checkout, a linked worktree or a bare repository are."""
    inner = path / ".git"
    if inner.is_dir():
        return inner
    if not inner.is_file():
        return path
    linked = path / inner.read_text(errors="replace").removeprefix("gitdir:").strip()
    common = linked / "commondir"
    return linked / common.read_text().strip() if common.exists() else linked


def trusted(path: Path) -> list[Path]:
    """Every name under which git may ask whether the repository at `path` is safe to read."""
    return [path, path / ".git", contents(path).resolve()]


def _unreadable(path: Path) -> str:
    return f"the path {path} is not readable for the user of the worker (uid {os.geteuid()}); grant it read access"


def _nearest(path: Path) -> str:
    above = next((folder for folder in path.parents if (folder / ".git").exists()), None)
    return f"name {above}, whose folder it is" if above else "name the top folder of a clone, or a bare repository"

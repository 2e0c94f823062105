"""The program of the commit before the newest revision, in a folder of its own, on databases that this program migrates.

`-p tests_new_schema` in the old tree is `new_schema.py` of here: it puts this program's job in place of the old one's.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
REVISIONS = "worker_app/migrations/postgres/versions"
PLUGIN = "tests_new_schema"


def commit_before(revision: Path) -> str | None:
    """The newest commit whose tree lacks this revision's file; None in a checkout without that history."""
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        return None
    name = revision.name
    for commit in _git("log", "--format=%H", "-n", "200").split():
        if f"{REVISIONS}/{name}" not in _git("ls-tree", "--name-only", commit, f"{REVISIONS}/").splitlines():
            return commit
    return None


def unpack(commit: str, folder: Path) -> None:
    """The tree of `commit`, and the plugin beside it."""
    done = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    shutil.copy(Path(__file__).with_name("new_schema.py"), folder / f"{PLUGIN}.py")


def run_tests(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The old tree's pytest; the folder stands first on the path, so that its code is what is imported."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-n", "0", *arguments]
    environment = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "PYTHONPATH": str(folder),
        "NEW_CHECKOUT": str(CHECKOUT),
        "LANG": "C.UTF-8",
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return done.stdout

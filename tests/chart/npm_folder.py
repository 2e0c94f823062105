"""Folders of npm packages that tests need, kept in `.cache/npm`: what a lock file pins, with the digest of each package."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "npm"
LOCKS = Path(__file__).parent / "npm"
FLAGS = ("--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", "--silent")
TIMEOUT_SECONDS = 300


class NotInstalled(Exception):
    """npm is missing, or it could not bring what the lock file names."""


def installed(name: str) -> Path:
    """The `node_modules` of what `npm/NAME/package-lock.json` pins. Raises NotInstalled with the reason."""
    lock = LOCKS / name / "package-lock.json"
    folder = CACHE / f"chart-{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        _install(lock.parent, folder)
    return folder / "node_modules"


def _install(pinned: Path, folder: Path) -> None:
    """Put the packages into `folder`, all at once: who finds it finds it whole."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        unfinished = Path(scratch) / "packages"
        shutil.copytree(pinned, unfinished)
        _run_npm(unfinished)
        _move(unfinished, folder)


def _run_npm(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("there is no npm on PATH")
    command = [npm, "ci", *FLAGS]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True)
    except subprocess.CalledProcessError as failed:
        raise NotInstalled(f"npm ci failed: {str(failed.stderr).strip()[-500:]}") from failed
    except subprocess.TimeoutExpired as late:
        raise NotInstalled(f"npm ci has not ended in {TIMEOUT_SECONDS} s") from late


def _move(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.replace(folder)
    except OSError:  # another process was there first
        if not folder.exists():
            raise

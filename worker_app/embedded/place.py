"""Where the data of Postgres lies: in the folder, or outside it where the server's account cannot get in.

A folder of root is closed to the account that Postgres has to run as, and modes of folders that others made are not ours
to change. The data then goes to a folder of its own with a fresh name, and a link in the folder leads to it: no link, no
old data.
"""

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from worker_app.embedded import process
from worker_app.embedded.account import Account
from worker_app.embedded.folder import EmbeddedStoreError

logger = logging.getLogger(__name__)

OUTSIDE = (Path("/var/lib"), Path("/var/tmp"))  # noqa: S108 - only mkdtemp makes names there
MAKING = "making"
# Lies in a place until what was to be made there is whole.

_PREFIX = "dev-hops-"
_LINKED_FROM = "linked-from"


def find(link: Path) -> Path | None:
    """The resolved place that `link` is or leads to; None when there is none yet."""
    return link.resolve() if link.is_dir() else None


def make(link: Path, account: Account | None, *, outside: Sequence[Path] = OUTSIDE) -> Path:
    """Make an empty place at `link`, or one that `link` leads to, which the account can enter.

    Raises EmbeddedStoreError when no folder can be made for it.
    """
    if link.is_symlink():
        logger.warning("embedded.data_missing link=%s target=%s; beginning with empty data", link, link.readlink())
        link.unlink()
    link.mkdir(mode=0o700)
    if account is not None:
        _open_for(link, account)
        if not may_enter(account, link):
            link.rmdir()
            _report_unlinked(link, outside)
            link.symlink_to(_make_outside(link, account, outside))
    (link / MAKING).touch(mode=0o600)
    return link.resolve()


def may_enter(account: Account, folder: Path) -> bool:
    """Whether the account can get to the folder; asked of the kernel, which knows about access lists too."""
    return process.run(["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)], account=account).returncode == 0


def delete(link: Path) -> None:
    """Remove the place and the link to it; nothing happens when there is none."""
    place = find(link)
    if place is not None:
        shutil.rmtree(place)
    link.unlink(missing_ok=True)


def _make_outside(link: Path, account: Account, outside: Sequence[Path]) -> Path:
    for base in outside:
        with contextlib.suppress(OSError):
            place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
            _open_for(place, account)
            if may_enter(account, place):
                (place / _LINKED_FROM).write_text(str(link))
                return place
            place.rmdir()
    raise EmbeddedStoreError(
        f"no folder for Postgres that user {account.name} can enter: tried the one named and "
        f"{' and '.join(map(str, outside))}; name a folder whose parents others may enter (mode o+x)"
    )


def _open_for(place: Path, account: Account) -> None:
    # The account may pass through; only root may add or rename, since root's copy of the programs lies here as well.
    os.chown(place, -1, account.gid)
    place.chmod(0o710)


def _report_unlinked(link: Path, outside: Sequence[Path]) -> None:
    for base in outside:
        for note in base.glob(f"{_PREFIX}*/{_LINKED_FROM}"):
            # Anyone may put files below /var/tmp, and reading theirs could block.
            if note.lstat().st_uid == os.geteuid() and note.read_text() == str(link):
                logger.warning(
                    "embedded.data_unlinked path=%s; not used any more, remove it if nothing links to it", note.parent
                )

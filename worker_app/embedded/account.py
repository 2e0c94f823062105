"""Which user Postgres runs as: it refuses root, so root lends it an unprivileged account.

Only a caller that is root has an account at all; everyone else runs the server as themselves.
"""

import contextlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from worker_app.embedded.folder import EmbeddedStoreError

_FALLBACKS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged user of this machine that children of root run as."""

    name: str
    uid: int
    gid: int


def choose(run_as: str | None) -> Account | None:
    """The account for new data: the first that exists of `run_as`, `postgres` and `nobody`; None when not root.

    Raises EmbeddedStoreError when none of them exists.
    """
    if os.geteuid() != 0:
        return None
    for name in (run_as, *_FALLBACKS):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name or "")
            if entry.pw_uid != 0:
                return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedStoreError(
        "Postgres refuses to run as root and this machine has no user `postgres` or `nobody`; "
        "add one (useradd --system postgres), or start as an ordinary user"
    )


def owner(data: Path) -> Account | None:
    """The account that existing data belongs to, which alone can run it; None when the caller runs it as itself.

    Raises EmbeddedStoreError when the data belongs to someone the caller cannot act as.
    """
    status = data.stat()
    if status.st_uid == os.geteuid() != 0:
        return None
    try:
        name = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        name = str(status.st_uid)
    if os.geteuid() != 0 or status.st_uid == 0:
        raise EmbeddedStoreError(f"{data} belongs to user {name}; start as that user, or name another folder")
    return Account(name, status.st_uid, status.st_gid)

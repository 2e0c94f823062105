"""Memory of a process and of the programs it starts, read from /proc by another process."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Memory:
    """The peaks of one worker process and of the git programs it starts, in bytes, as seen so far."""

    pid: int
    peak: int = 0
    git_peak: int = 0  # of the largest git process
    together_peak: int = 0  # of the worker and its git processes at one moment; pages that they share count twice

    def look(self) -> None:
        """Read /proc once. A process that has ended meanwhile changes nothing."""
        own = _status(self.pid)
        found = [_status(pid) for pid in _descendants(self.pid)]
        # Between fork and exec a child still has the worker's name and memory.
        children = [status for status in found if status.get("Name", "").startswith("git")]
        self.peak = max(self.peak, _bytes(own, "VmHWM"))
        self.git_peak = max([self.git_peak, *(_bytes(status, "VmHWM") for status in children)])
        self.together_peak = max(self.together_peak, sum(_bytes(status, "VmRSS") for status in (own, *children)))


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _bytes(status: dict[str, str], name: str) -> int:
    return int(status.get(name, "0 kB").split()[0]) * 1024


def _descendants(pid: int) -> Iterator[int]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in map(int, children.read_text(encoding="ascii").split()):
                yield child
                yield from _descendants(child)

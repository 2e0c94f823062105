"""What a process takes while it waits, seen from outside: memory, processor time, and its connections to the stores.

The figures are of the process and all of its children, in MB of 10^6 bytes.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

import psutil

MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a process."""

    rss_mb: float  # resident; pages that processes share count in each of them
    own_mb: float  # of them: what nobody shares, which is what a further process of the kind costs
    cpu_seconds: float  # since it began
    threads: int

    @classmethod
    def at(cls, pid: int) -> Self:
        """Raises psutil.NoSuchProcess for one that has ended, psutil.AccessDenied for one of somebody else."""
        found = list(_with_children(pid))
        memory = [item.memory_full_info() for item in found]
        times = [item.cpu_times() for item in found]
        return cls(
            rss_mb=sum(item.rss for item in memory) / MB,
            own_mb=sum(item.uss for item in memory) / MB,
            cpu_seconds=sum(item.user + item.system for item in times),
            threads=sum(item.num_threads() for item in found),
        )


def local_ports(pid: int, remote_port: int) -> frozenset[int]:
    """The ports from which a process is connected to a port, for example a store's."""
    connections = (item for top in _with_children(pid) for item in top.net_connections(kind="tcp"))
    own = ((item.laddr, item.raddr) for item in connections if item.status == psutil.CONN_ESTABLISHED)
    return frozenset(here.port for here, there in own if there.port == remote_port)


def _with_children(pid: int) -> Iterator[psutil.Process]:
    top = psutil.Process(pid)
    yield top
    with contextlib.suppress(psutil.NoSuchProcess):
        yield from top.children(recursive=True)

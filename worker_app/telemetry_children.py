"""Telemetry of children: what the processes of a prefork worker have counted, told by their parent as one worker's.

Each process writes its numbers to files of its own in one folder. The client library chooses that where it is imported, by
PROMETHEUS_MULTIPROC_DIR, so it has to stand in the environment before the program starts: `dev-hops worker` sees to it. A
child that is renewed leaves its files; what it has counted is added to one file for all the dead, and the rest is dropped.
Page: https://prometheus.github.io/client_python/multiprocess/
"""

import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from worker_app import telemetry

VARIABLE = telemetry.FOLDER_OF_CHILDREN
PREFIX = "dev-hops-telemetry-"
FILE = re.compile(r"(?P<kind>.+)_(?P<pid>[0-9]+)\.db")
NOBODY = 0  # the pid that the dead share
FOLDS: dict[str, Callable[[float, float], float]] = {  # kind of a file -> what becomes of two values
    "counter": float.__add__,
    "histogram": float.__add__,
    "gauge_max": max,
}
_TURN = threading.RLock()  # nobody reads while another one folds


def new_folder() -> Path:
    """A folder of this worker alone, beside other temporary files. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=PREFIX))


def clear(folder: Path) -> None:
    """Forget what an earlier worker has left in `folder`, and make it if it is not there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in _files(folder):
        path.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """Remove the folder of a worker that ends, where `new_folder` has made it."""
    if folder.name.startswith(PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def registry(folder: Path) -> CollectorRegistry:
    """The numbers of this process and its children, by the names that belong to a worker."""
    found = CollectorRegistry()
    found.register(_Children(folder))
    ProcessCollector(registry=found)  # of the parent
    return found


class _Children(Collector):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = {metric.name for metric in telemetry.WORKER.collect()}

    def collect(self) -> Iterator[Metric]:
        """One look; a gauge that another kind of process sets is none of a worker's."""
        with _TURN:
            fold_dead(self._folder)
            begun = [str(path) for path in _files(self._folder) if not _is_empty(path)]
            found = list(MultiProcessCollector.merge(begun))  # type: ignore[no-untyped-call]
        return (metric for metric in found if metric.name in self._names)


def fold_dead(folder: Path) -> None:
    """Add up what processes that are no more have counted, so that renewed children do not fill the folder.

    Also for where nobody reads the numbers; any thread of the parent may call it.
    """
    with _TURN:
        for path in _files(folder):
            kind, pid = _parts(path)
            if pid == NOBODY or _is_alive(pid):
                continue
            if kind in FOLDS:
                if not _is_empty(path):
                    _fold(path, folder / f"{kind}_{NOBODY}.db", FOLDS[kind])
                path.unlink(missing_ok=True)
            else:
                mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]


def _fold(source: Path, target: Path, join: Callable[[float, float], float]) -> None:
    kept = MmapedDict(str(target))  # type: ignore[no-untyped-call]
    for key, value, timestamp, _ in MmapedDict.read_all_values_from_file(str(source)):  # type: ignore[no-untyped-call]
        before, _ = kept.read_value(key)  # type: ignore[no-untyped-call]
        kept.write_value(key, join(before, value), timestamp)  # type: ignore[no-untyped-call]
    kept.close()  # type: ignore[no-untyped-call]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.db") if FILE.fullmatch(path.name)]


def _parts(path: Path) -> tuple[str, int]:
    found = FILE.fullmatch(path.name)
    return (found["kind"], int(found["pid"])) if found else ("", NOBODY)


def _is_empty(path: Path) -> bool:
    """Whether its process has only just made the file, or was killed then: the client library cannot read such a one."""
    return path.stat().st_size == 0


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

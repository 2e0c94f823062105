"""One process of each role on stores of its own, started one after the other, all of them waiting for work that does not come."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from bench.idle_look import Look
from bench.service import BenchError, note
from worker_app.embedded.folder import Folder
from worker_app.embedded.ports import free_port
from worker_app.embedded.process import last_lines
from worker_app.embedded.stores import StoreAddresses, Stores
from worker_app.migrate.postgres import migrate_postgres

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.01
DEV_HOPS: Final = Path(sys.executable).parent / "dev-hops"


def _worker(fleet: str, slots: int, name: str = "") -> dict[str, str]:
    return {"CELERY_POOL": "gevent", "CELERY_CONCURRENCY": str(slots), "DEV_HOPS_FLEET": fleet, "WORKER_NAME": name}


@dataclass(frozen=True, slots=True)
class Kind:
    """One line of the report: a role as the chart runs it."""

    name: str
    role: str  # the first argument of dev-hops
    changes: Mapping[str, str]  # of its environment
    path: str = ""  # that answers 200 once it serves; a worker and beat leave a file


KINDS: Final = (
    Kind("worker, 20 slots", "worker", _worker("worker", 20)),
    Kind("worker, 4 slots", "worker", _worker("worker", 4, "small")),
    Kind("worker-ingest, 1 slot", "worker", _worker("worker-ingest", 1)),
    Kind("worker-heavy, 4 slots", "worker", _worker("worker-heavy", 4)),
    Kind("beat", "beat", {}),
    Kind("api", "api", {"API_HOST": "127.0.0.1", "API_TOKEN": "idle"}, "readyz"),
    Kind("flower", "flower", {"FLOWER_HOST": "127.0.0.1", "FLOWER_BASIC_AUTH": "idle:idle"}, "healthcheck"),
)


@dataclass(frozen=True, slots=True)
class Started:
    """A process that serves."""

    kind: Kind
    process: "subprocess.Popen[bytes]"
    start_seconds: float  # from its command to its first sign that it takes work
    start_cpu_seconds: float  # that it took meanwhile; unlike the time, the same on a busy machine


@contextlib.contextmanager
def stores(path: Path) -> Iterator[StoreAddresses]:
    """Migrated stores that keep nothing."""
    made = Stores(Folder(path / "up"), durable=False)
    try:
        addresses = made.start()
        migrate_postgres(addresses.database_url, note)
        yield addresses
    finally:
        made.stop()
        made.delete_data()


@contextlib.contextmanager
def fleet(path: Path, addresses: StoreAddresses) -> Iterator[list[Started]]:
    """One process of each kind, all of them serving. Raises BenchError with the log of one that ends or is too slow."""
    found: list[Started] = []
    try:
        for number, kind in enumerate(KINDS):
            found.append(_start(path / str(number), kind, addresses))
        yield found
    finally:
        for started in found:
            _stop(started.process)


def _start(folder: Path, kind: Kind, addresses: StoreAddresses) -> Started:
    folder.mkdir(parents=True)
    port = str(free_port())
    environment = {  # all of it: nothing of this machine's settings comes through
        "PATH": f"{DEV_HOPS.parent}:{os.defpath}",
        "HOME": str(folder),
        "DATABASE_URL": addresses.database_url,
        "REDIS_URL": addresses.redis_url,
        "METRICS_HOST": "127.0.0.1",
        "METRICS_PORT": str(free_port()),  # as deployed: telemetry is served, and costs
        "API_PORT": port,
        "FLOWER_PORT": port,
        "RUN_DIR": str(folder / "run"),
        "GIT_MIRRORS_DIR": str(folder / "mirrors"),
        **kind.changes,
    }
    with (folder / "log").open("wb") as log:
        began = time.monotonic()
        process = subprocess.Popen(
            [DEV_HOPS, kind.role], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait(kind, process, folder, f"http://127.0.0.1:{port}/{kind.path}")
    except BaseException:
        _stop(process)
        raise
    passed = time.monotonic() - began
    return Started(kind, process, passed, Look.at(process.pid).cpu_seconds)


def _wait(kind: Kind, process: "subprocess.Popen[bytes]", folder: Path, url: str) -> None:
    signs = (folder / "run" / "worker.ready", folder / "run" / "beat.alive")
    deadline = time.monotonic() + START_SECONDS
    while not (_answers(url) if kind.path else any(sign.exists() for sign in signs)):
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"{kind.name} does not serve; the end of its log:\n{last_lines(folder / 'log')}")
        time.sleep(LOOK_SECONDS)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """As its supervisor would, and by force when that takes too long."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_SECONDS)

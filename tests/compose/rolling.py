"""A rolling update under load, by the steps of docs/howto/upgrade-without-downtime.md, and what became of the load."""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from tests.compose import made_up
from tests.compose.ledger import Ledger
from tests.compose.project import Project
from tests.containers import Container, docker, wait_for

WORKERS = 2
LEASE = {"BATCH_LEASE_SECONDS": "120"}  # longer than a busy machine holds a worker up: none is taken over for that
SOURCES = 20  # of each organisation
LOOK_SECONDS = 0.1
GRACE_SECONDS = 330.0  # stop_grace_period of a worker, and some more
UNDER_WAY = 0.2  # of the batches are done when the update begins
PER_SOURCE = made_up.PAGES * made_up.PER_PAGE
COUNTED = (
    "from urllib.request import urlopen; print(sum(float(line.split()[-1]) "
    "for line in urlopen('http://127.0.0.1:9464/metrics', timeout=5).read().decode().splitlines() "
    "if line.startswith('dev_hops_sync_batches_total') and 'result=\"succeeded\"' in line))"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was seen; seconds."""

    batches: int
    seconds: float
    running_at_the_stop: int
    drain_seconds: float  # until the last old worker was gone
    by_old: int  # batches that an old worker had ended just before it was told to stop
    by_new: int  # at least: a worker that renews itself counts anew

    def __str__(self) -> str:
        return (
            f"{self.batches} batches in {self.seconds:.0f} s through a rolling update, {self.by_old} by the old workers until "
            f"they were stopped, when {self.running_at_the_stop} were running; they drained in {self.drain_seconds:.1f} s; "
            "0 lost, 0 double"
        )


def update_under_load(fleet: Project, old: str, new: str, *, batches: int, most_open: int, seconds: float) -> Figures:
    """Old workers, a load, new workers beside them, the old ones drained, the rest replaced. Fails for a lost or double effect.

    The load is at least `batches`, goes on until the old workers are gone, and has `seconds` for its end.
    """
    fleet.up("--scale", f"worker={WORKERS}", DEV_HOPS_IMAGE=old)
    retired = fleet.containers("worker")
    with fleet.database() as postgres:
        ledger = Ledger.on(postgres, commits=PER_SOURCE)
        began = time.monotonic()
        with _fed(ledger, batches, most_open):
            wait_for(lambda: ledger.progress().done >= UNDER_WAY * batches, "the load is under way", seconds, 0.2)
            fleet.compose("rm", "--force", "migrate", DEV_HOPS_IMAGE=new)
            fleet.up("--no-recreate", "--scale", f"worker={2 * WORKERS}", "worker", DEV_HOPS_IMAGE=new)
            replacing = {worker.name for worker in fleet.containers("worker")} - {worker.name for worker in retired}
            by_old, running = sum(map(_counted, retired)), ledger.progress().running
            drain_seconds = _retire(retired)
        fleet.up("--scale", f"worker={WORKERS}", DEV_HOPS_IMAGE=new)
        wait_for(ledger.is_settled, "all is done", seconds, 0.5)
        took, seen = time.monotonic() - began, ledger.progress()
        ledger.check()
        assert seen.attempts == 0, "a drain spends no attempt"
    workers = fleet.containers("worker")
    assert {worker.name for worker in workers} == replacing, "the last step touched the new workers"
    assert [_release(worker) for worker in workers] == ["new"] * WORKERS
    found = Figures(ledger.batches, took, running, drain_seconds, by_old, sum(map(_counted, workers)))
    sys.stdout.write(f"\n{found}\n")
    assert min(found.by_old, found.by_new, found.running_at_the_stop) > 0
    return found


@contextmanager
def _fed(ledger: Ledger, batches: int, most_open: int) -> Iterator[None]:
    """Keep `most_open` batches waiting as long as the block lasts and fewer than `batches` were asked for."""
    is_over = Event()

    def feed() -> None:
        while ledger.batches < batches or not is_over.is_set():
            if ledger.batches - ledger.progress().done < most_open:
                ledger.add(1, sources=SOURCES)
            else:
                time.sleep(LOOK_SECONDS)

    with ThreadPoolExecutor(1) as pool:
        feeding = pool.submit(feed)
        try:
            yield
        finally:
            is_over.set()
        feeding.result()


def _retire(workers: list[Container]) -> float:
    names, began = [worker.name for worker in workers], time.monotonic()
    docker("stop", *names, timeout=GRACE_SECONDS)
    took = time.monotonic() - began
    for worker in workers:
        assert (worker.state["ExitCode"], worker.state["OOMKilled"]) == (0, False), worker.logs()[-3000:]
    docker("rm", *names)
    return took


def _counted(worker: Container) -> int:
    return int(float(worker.exec("python3", "-c", COUNTED)))


def _release(worker: Container) -> str:
    return worker.exec("printenv", "RELEASE").strip()

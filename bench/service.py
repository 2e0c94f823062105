"""The real service under measurement: stores, one `worker` and one `worker-heavy`, in a folder that goes at the end."""

import contextlib
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from uuid import UUID, uuid4

import psutil

from bench.memory import Memory
from worker_app import settings
from worker_app.cli import roles
from worker_app.embedded import process
from worker_app.embedded.folder import Folder, running_process
from worker_app.embedded.stores import StoreAddresses, Stores
from worker_app.embedded.supervisor import Role, Supervisor
from worker_app.migrate.postgres import migrate_postgres
from worker_app.records import Source
from worker_app.store import runs
from worker_app.store.postgres import Postgres
from worker_app.store.runs import RunView

LOOK_SECONDS = 0.1  # between two looks at /proc; VmHWM keeps a peak between them
ASK_SECONDS = 0.5  # between two looks at the database, so that looking costs nothing that shows
FLEETS = (("worker", "20,2"), ("worker-heavy", ""))  # name, autoscale
NONE: Mapping[str, str] = MappingProxyType({})


class BenchError(Exception):
    """The measurement cannot be finished; the message says why."""


def note(text: str) -> None:
    """One line of progress, with the time."""
    print(f"{datetime.now(UTC):%H:%M:%S}  {text}", file=sys.stderr, flush=True)


class Service:
    """The service under measurement, all of it in one folder. `stop` leaves nothing behind.

    `changes` go into the environment of each worker.
    """

    def __init__(self, path: Path, changes: Mapping[str, str] = NONE) -> None:
        self.folder = Folder(path)
        self._changes = changes
        self.stores = Stores(self.folder, durable=True)
        self.supervisor = Supervisor(self.folder, self.stores, note)
        self.opened: Postgres | None = None
        self.memory: dict[str, Memory] = {}  # by fleet

    @property
    def postgres(self) -> Postgres:
        """The migrated database, once `start` has returned."""
        assert self.opened is not None
        return self.opened

    def start(self) -> None:
        """Start and migrate the stores, then the workers, and wait until both take work. Raises EmbeddedStoreError."""
        self.folder.try_lock()
        addresses = self.supervisor.start_stores()
        migrate_postgres(addresses.database_url, note)
        self.opened = Postgres(addresses.database_url, pool_size=2, application_name="dev-hops-bench")
        self.supervisor.start_roles([self._role(*fleet, addresses) for fleet in FLEETS], {})
        self.memory = {name: Memory(record.pid) for name, record in self._workers().items()}
        self.look()

    def stop(self) -> None:
        """Stop everything and remove the data, also where it lies outside the folder. Idempotent."""
        try:
            if self.opened is not None:
                self.opened.close()
            self.supervisor.stop()
        finally:
            self.stores.delete_data()
            self.folder.unlock()

    def _role(self, fleet: str, autoscale: str, addresses: StoreAddresses) -> Role:
        run_dir = self.folder.path / "run" / fleet
        changes = {
            "DATABASE_URL": addresses.database_url,
            "REDIS_URL": addresses.redis_url,
            "DEV_HOPS_FLEET": fleet,
            "CELERY_POOL": "gevent",
            "CELERY_AUTOSCALE": autoscale,
            "CELERY_QUEUES": "",
            "METRICS_PORT": "0",
            "OUTBOX_POLL_SECONDS": "1",
            "GIT_ALLOW_FILE": "true",
            "GIT_MIRRORS_DIR": str(self.folder.path / "mirrors"),
            "RUN_DIR": str(run_dir),
            **self._changes,
        }
        environment = settings.own_environment({}, changes)
        argv = roles.worker_argv(settings.load(environment))
        return Role(fleet, argv, environment, None, (run_dir / "worker.ready").exists)

    def _workers(self) -> dict[str, psutil.Process]:
        state = self.folder.read_state()
        fleets = dict(FLEETS)
        records = [item for item in state.processes if item.name in fleets] if state else []
        found = {item.name: running_process(item.pid, item.create_time) for item in records}
        for name in fleets:
            if found.get(name) is None:
                log = self.folder.log / f"{name}.log"
                raise BenchError(f"{name} has ended; the end of its log:\n{process.last_lines(log)}")
        return {name: worker for name, worker in found.items() if worker is not None}

    def look(self) -> None:
        """Look at the memory of each worker."""
        for memory in self.memory.values():
            memory.look()

    def cpu_seconds(self) -> float:
        """What the `worker` process and the programs it started have computed so far."""
        times = self._workers()["worker"].cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)

    def sync(self, source: Source) -> RunView:
        """Ask for a run of the source and wait until it is closed. The caller has set a deadline."""
        with self.postgres.transaction() as tx:
            run_id = runs.add_manual(tx, source.org_id, source.provider, source.id, uuid4())
        return self.closed(run_id)

    def closed(self, run_id: UUID) -> RunView:
        """The run, once it is closed; the memory is looked at meanwhile. Raises BenchError when a worker ends."""
        view: RunView | None = None
        next_ask = 0.0
        while view is None or view.finished_at is None:
            self.look()
            if time.monotonic() >= next_ask:
                self._workers()
                view = self._view(run_id)
                next_ask = time.monotonic() + ASK_SECONDS
            time.sleep(LOOK_SECONDS)
        note(f"{view.kind} run {view.state}: {view.records} records" + (f", {view.error}" if view.error else ""))
        return view

    def _view(self, run_id: UUID) -> RunView | None:
        with self.postgres.transaction() as tx:
            return next(iter(runs.views(tx, run_id=run_id)), None)


@contextlib.contextmanager
def running(path: Path, changes: Mapping[str, str] = NONE) -> Iterator[Service]:
    """A started service, stopped and removed at the end whatever happens."""
    service = Service(path, changes)
    try:
        service.start()
        yield service
    finally:
        _leave_me_alone()
        note("stopping")
        service.stop()


def _leave_me_alone() -> None:
    """From here on only the end is left to do, each step with its own deadline."""
    signal.alarm(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

"""A store is killed under load: Postgres, which then forgets its last commits, and Redis, which then forgets everything.

Rows 13 and 14 of the crash table for real. Postgres answers a commit here before it is written, so that `kill -9` of all its
processes at once takes back up to half a second of commits, as a failover does. Redis keeps nothing on disk.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.chaos.dispatch import audit, judge, points
from tests.chaos.dispatch.fleet import Fleet
from tests.chaos.dispatch.load import Load
from tests.seed import execute
from worker_app.embedded.folder import Folder
from worker_app.embedded.stores import Stores
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store.postgres import Postgres

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
TIMES = 5
JOBS = 40  # that are under way when a store is killed
VISIBILITY_SECONDS = (
    2  # what waits for a message that Postgres forgot to have sent is armed again after twice this time
)
UNDER_WAY = 0.5  # of the runs are over, the others somewhere


class OwnStores:
    """Stores that no other test uses, and what works on them."""

    def __init__(self, folder: Path, store: str) -> None:
        self.stores = Stores(Folder(folder / "up"), durable=store == "postgres")
        self.addresses = self.stores.start()
        migrate_postgres(self.addresses.database_url, lambda _: None)
        self.postgres = Postgres(self.addresses.database_url, pool_size=4)
        execute(self.postgres, "ALTER ROLE CURRENT_USER SET synchronous_commit = off")
        audit.install(self.postgres)
        self.load = Load(self.postgres)

    def kill(self, store: str) -> None:
        """End all processes of a store at the same moment and start it again at its address."""
        parent = psutil.Process((self.stores.postgres if store == "postgres" else self.stores.valkey).pid)
        every = [parent, *parent.children(recursive=True)]
        for process in every:
            os.kill(process.pid, signal.SIGSTOP)  # none may see another one die and write something down
        for process in every:
            os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs(every, timeout=10)
        assert not parent.is_running()
        assert self.stores.start() == self.addresses
        self.postgres.engine.dispose()


@contextmanager
def own_stores(folder: Path, store: str) -> Iterator[OwnStores]:
    own = OwnStores(folder, store)
    try:
        yield own
    finally:
        own.postgres.close()
        own.stores.stop()
        own.stores.delete_data()


@pytest.mark.parametrize("store", ["postgres", "valkey"])
def test_store_killed_under_load_loses_and_doubles_nothing(tmp_path: Path, store: str) -> None:
    with own_stores(tmp_path, store) as own:
        load, addresses = own.load, own.addresses
        orgs = [load.organisation(f"org-{number}", sources=30) for number in range(6)]
        fleet = Fleet(tmp_path, addresses.database_url, addresses.redis_url, visibility_seconds=VISIBILITY_SECONDS)
        with fleet.running():
            for _ in range(TIMES):
                load.some(orgs, JOBS)
                begun = judge.open_runs(load)

                def is_under_way(most: float = UNDER_WAY * begun) -> bool:
                    return judge.open_runs(load) < most

                fleet.until(is_under_way, "half of the runs are over", 60)
                own.kill(store)

            try:
                fleet.until(lambda: judge.is_settled(load), "everything is done", 90)
            except AssertionError as error:
                raise AssertionError(judge.story(load, fleet)) from error
            judge.check_slots(load)
            judge.check_runs(load)
            judge.check_batches(load)
            raised = [line for line in fleet.lines("faults") if line.startswith("raised") and "LeaseLost" not in line]
            assert raised == []
            judge.say(f"{store}: {TIMES} kills, {len(load.slots)} slots, lease {points.LEASE_SECONDS} s")

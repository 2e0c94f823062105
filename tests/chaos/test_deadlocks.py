"""Dispatcher, finisher, edits and deletion on the same rows for a minute: locks are taken in one order, so nobody deadlocks."""

import random
import threading
import time
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tests.seed import Seed, column, execute, schedule, seed
from worker_app import errors
from worker_app.jobs import BatchEnd, BatchState
from worker_app.store import batches
from worker_app.store.postgres import Postgres
from worker_app.sync import control, dispatch, finish, orders, plan, promote, rescue

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

SECONDS = 60.0
CAP = 4


class Crowd:
    """Threads that each do one kind of thing again and again; counts what they did and keeps what went wrong."""

    def __init__(self, postgres: Postgres, made: list[Seed]) -> None:
        self.postgres = postgres
        self.made = made
        self.done: dict[str, int] = {}
        self.faults: list[str] = []

    def work(self, act: Callable[[], object], until: float) -> None:
        name = act.__name__
        while time.monotonic() < until:
            try:
                act()
                self.done[name] = self.done.get(name, 0) + 1
            except errors.Conflict:
                continue
            except errors.StoreAway as error:
                if "deadlock" in str(error):
                    self.faults.append(f"{name}: {error}")
            except errors.DevHopsError:
                continue

    def tick(self) -> None:
        dispatch.tick(self.postgres, "test")

    def age(self) -> None:
        """Jobs are due again, and what they left behind is forgotten."""
        free = "(SELECT {key} FROM {table} WHERE {which} ORDER BY {key} FOR UPDATE SKIP LOCKED)"
        jobs = free.format(key="id", table="scheduled_jobs", which="random() < 0.5")
        closed = free.format(key="id", table="sync_runs", which="finished_at IS NOT NULL")
        sent = free.format(key="id", table="task_outbox", which="claimed_until IS NULL")
        execute(
            self.postgres, f"UPDATE scheduled_jobs SET next_run_at = now() - interval '6 minutes' WHERE id IN {jobs}"
        )
        execute(self.postgres, f"DELETE FROM sync_runs WHERE id IN {closed}")
        execute(self.postgres, f"DELETE FROM task_outbox WHERE id IN {sent}")
        execute(self.postgres, "DELETE FROM schedule_occurrences WHERE random() < 0.5")

    def edit(self) -> None:
        every = column(self.postgres, "SELECT id FROM scheduled_jobs ORDER BY random() LIMIT 1")
        if every:
            found = orders.find(self.postgres, str(every[0]))
            orders.resume(self.postgres, orders.pause(self.postgres, found))

    def move(self) -> None:
        """Every step of a run that is open."""
        for run_id in self._ids("SELECT id FROM sync_runs WHERE state = 'queued' ORDER BY random() LIMIT 5"):
            plan.run(self.postgres, run_id, lease_seconds=60, cap=CAP, max_batches=100)
        for batch_id in self._ids("SELECT id FROM sync_batches WHERE state = 'queued' ORDER BY random() LIMIT 10"):
            with self.postgres.transaction() as tx:
                taken = batches.claim(tx, batch_id, uuid4(), lease_seconds=60, cap=CAP)
            if taken is not None:
                state = random.choice((BatchState.SUCCEEDED, BatchState.FAILED))
                with self.postgres.transaction() as tx:
                    batches.close(tx, taken.id, taken.owner, BatchEnd(state, is_complete=True))
        for run_id in self._ids("SELECT id FROM sync_runs WHERE state = 'finishing' ORDER BY random() LIMIT 5"):
            finish.run(self.postgres, run_id, lease_seconds=60)

    def control(self) -> None:
        for run_id in self._ids("SELECT id FROM sync_runs WHERE kind = 'sync' ORDER BY random() LIMIT 2"):
            random.choice((control.cancel, control.retry))(self.postgres, run_id, cap=CAP)
        promote.waiting_slots(self.postgres)

    def delete(self) -> None:
        """An organisation goes, in the order of the locks: jobs, runs and batches, outbox; and comes back with new jobs."""
        made = random.choice(self.made)
        with self.postgres.transaction() as tx:
            for table in ("scheduled_jobs", "sync_runs", "task_outbox"):
                tx.execute(
                    text(
                        f"DELETE FROM {table} WHERE id IN "
                        f"(SELECT id FROM {table} WHERE org_id = :org ORDER BY id FOR UPDATE)"
                    ),
                    {"org": made.org.id},
                )
        for overlap in ("skip", "buffer_one", "cancel_other"):
            schedule(self.postgres, made, overlap=overlap)

    def _ids(self, query: str) -> list[UUID]:
        return [item for item in column(self.postgres, query) if isinstance(item, UUID)]


def test_dispatcher_finisher_edits_and_deletion_never_deadlock(postgres: Postgres, redis_client: object) -> None:
    made = [seed(postgres, f"o{number}") for number in range(4)]
    for item in made:
        for overlap in ("skip", "buffer_one", "cancel_other", "skip", "buffer_one"):
            schedule(postgres, item, overlap=overlap)
    crowd = Crowd(postgres, made)

    def sweep() -> None:
        rescue.sweep(postgres, redis_client, cap=CAP, visibility_timeout_seconds=3600)  # type: ignore[arg-type]

    until = time.monotonic() + SECONDS
    acts = [crowd.tick, crowd.tick, crowd.age, crowd.edit, crowd.move, crowd.move, crowd.control, crowd.delete, sweep]
    threads = [threading.Thread(target=crowd.work, args=(act, until)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=SECONDS + 60)
    assert crowd.faults == []
    assert set(crowd.done) == {"tick", "age", "edit", "move", "control", "delete", "sweep"}
    assert column(postgres, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [0]

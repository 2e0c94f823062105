"""Rescue: what a dead process left is found and goes on. It does not count on the broker to deliver anything again.

Every step is its own short transaction that skips what others hold, so it may run anywhere, at any time, several times.
"""

from dataclasses import asdict, dataclass
from uuid import UUID, uuid4

import redis

from worker_app import jobs, retry
from worker_app.jobs import BatchEnd, BatchState
from worker_app.store import batches, rescue, runs
from worker_app.store.postgres import Postgres

EPOCH_KEY = "dev-hops/epoch"
EPOCH_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Rescued:
    """What one sweep found, as counts."""

    runs: int = 0
    batches: int = 0
    exhausted: int = 0
    rearmed: int = 0
    lost: int = 0
    recounted: int = 0
    released: int = 0
    promoted: int = 0

    @property
    def has_messages(self) -> bool:
        """Whether the outbox owes anything new."""
        return any(asdict(self).values())


def sweep(postgres: Postgres, client: redis.Redis, *, cap: int, visibility_timeout_seconds: int) -> Rescued:
    """One sweep over everything. Raises StoreAway or redis-py's ConnectionError; the next sweep goes on."""
    with postgres.transaction() as tx:
        found_runs = rescue.rearm_runs(tx, retry.MAX_ATTEMPTS)
    with postgres.transaction() as tx:
        found_batches = rescue.rearm_batches(tx, retry.MAX_ATTEMPTS)
    exhausted = _fail_exhausted(postgres)
    rearmed = _rearm_waiting(postgres, client, 2 * visibility_timeout_seconds)
    with postgres.transaction() as tx:
        recounted = rescue.recount(tx)
    with postgres.transaction() as tx:
        lost = rescue.lose_late_runs(tx)
    released = _release(postgres, cap)
    promoted = _promote(postgres)
    return Rescued(
        runs=found_runs,
        batches=found_batches,
        exhausted=exhausted,
        rearmed=rearmed,
        lost=lost,
        recounted=recounted,
        released=released,
        promoted=promoted,
    )


def _fail_exhausted(postgres: Postgres) -> int:
    owner = uuid4()
    with postgres.transaction() as tx:
        taken = rescue.take_exhausted(tx, retry.MAX_ATTEMPTS, owner)
    end = BatchEnd(
        BatchState.FAILED,
        is_complete=False,
        error_class="worker_lost",
        error=f"its worker was lost {retry.MAX_ATTEMPTS} times; look for the cause in the worker logs",
    )
    for batch_id in taken:
        with postgres.transaction() as tx:
            batches.close(tx, batch_id, owner, end)
    return len(taken)


def _rearm_waiting(postgres: Postgres, client: redis.Redis, age_seconds: int) -> int:
    """Arm what waits for a lost message. A Redis that was emptied is known by its epoch, which only we write."""
    client.set(EPOCH_KEY, str(uuid4()), nx=True, ex=EPOCH_SECONDS)
    client.expire(EPOCH_KEY, EPOCH_SECONDS)
    value = client.get(EPOCH_KEY) or b""
    epoch = value.decode() if isinstance(value, bytes) else str(value)
    with postgres.transaction() as tx:
        known = rescue.redis_epoch(tx)
        was_emptied = known is not None and known != epoch
        rearmed = rescue.rearm_waiting(tx, age_seconds=age_seconds, redis_was_emptied=was_emptied)
        if known != epoch:
            rescue.set_redis_epoch(tx, epoch)
    return rearmed


def _release(postgres: Postgres, cap: int) -> int:
    with postgres.transaction() as tx:
        places = rescue.planned_places(tx)
    released = 0
    for org_id, provider in places:
        with postgres.transaction() as tx:
            runs.lock_cap(tx, org_id, provider)
            released += runs.release(tx, org_id, provider, cap)
    return released


def _promote(postgres: Postgres) -> int:
    with postgres.transaction() as tx:
        free = rescue.free_buffered(tx)
        for slot in free:
            run_id: UUID = jobs.run_id(slot.job_id, slot.slot)
            rescue.mint_buffered(tx, slot, run_id)
            rescue.clear_buffered(tx, slot.job_id)
    return len(free)

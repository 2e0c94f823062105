"""Rescue: what a dead process or a lost Redis left is found and goes on. It does not count on the broker to deliver again.

Every step is its own short transaction that skips what others hold, so it may run anywhere, at any time, several times.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import redis

from worker_app import errors, retry
from worker_app.jobs import BatchEnd, BatchState
from worker_app.store import batches, rescue, runs
from worker_app.store.postgres import Postgres, Transaction, now
from worker_app.sync import promote

EPOCH_KEY = "dev-hops/epoch"
EPOCH_SECONDS = 7 * 24 * 3600
MOST_STEPS = 200  # of 500 rows each; what is left then, the next sweep finds


@dataclass(frozen=True, slots=True)
class Rescued:
    """What one sweep found, as counts."""

    runs: int = 0
    batches: int = 0
    exhausted: int = 0
    rearmed: int = 0
    lost: int = 0
    recounted: int = 0
    cancelled: int = 0
    released: int = 0
    promoted: int = 0

    @property
    def has_messages(self) -> bool:
        """Whether the outbox owes anything new."""
        return any(asdict(self).values())


def sweep(postgres: Postgres, client: redis.Redis, *, cap: int, visibility_timeout_seconds: int) -> Rescued:
    """One sweep over everything. Raises StoreAway or redis-py's errors; the next sweep goes on."""
    return Rescued(
        runs=_repeat(postgres, lambda tx: rescue.rearm_runs(tx, retry.MAX_ATTEMPTS)),
        batches=_repeat(postgres, lambda tx: rescue.rearm_batches(tx, retry.MAX_ATTEMPTS)),
        exhausted=_fail_exhausted(postgres),
        lost=_repeat(postgres, rescue.lose_late_runs),
        recounted=_repeat(postgres, rescue.recount),
        cancelled=_cancel(postgres, cap),
        released=_release(postgres, cap),
        promoted=promote.waiting_slots(postgres),
        # the last, since it alone needs Redis: the others go on where that is away
        rearmed=_rearm_waiting(postgres, client, timedelta(seconds=2 * visibility_timeout_seconds)),
    )


def _repeat(postgres: Postgres, step: Callable[[Transaction], int]) -> int:
    """A step until it finds nothing more, each time in a transaction of its own; returns how many it found."""
    total = 0
    for _ in range(MOST_STEPS):
        with postgres.transaction() as tx:
            found = step(tx)
        total += found
        if not found:
            break
    return total


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


def _rearm_waiting(postgres: Postgres, client: redis.Redis, patience: timedelta) -> int:
    """Arm what waits for a lost message: all of it where Redis lost what it held, else what has waited for very long.

    The new epoch is written after the last message is owed, so that a sweep that dies in the middle is begun again.
    """
    client.set(EPOCH_KEY, str(uuid4()), nx=True, ex=EPOCH_SECONDS)
    client.expire(EPOCH_KEY, EPOCH_SECONDS)
    seen = epoch(client)
    with postgres.transaction() as tx:
        moment, known = now(tx), rescue.redis_epoch(tx)
    armed_before = moment - patience if seen == known else moment
    rearmed = _repeat(postgres, lambda tx: rescue.rearm_waiting(tx, armed_before))
    if seen != known:
        # Whoever held a row while the others were armed may have died without a change: its message is lost like theirs.
        rearmed += _repeat(postgres, lambda tx: rescue.rearm_waiting(tx, armed_before, waits_for_locks=True))
        with postgres.transaction() as tx:
            rescue.set_redis_epoch(tx, seen)
    return rearmed


def epoch(client: redis.Redis) -> str:
    """What changes when Redis may have lost messages: our key is gone when it was emptied, and a server that was started
    anew, or took over, has another run id, whatever it could read back from its disk or had received from its leader.
    """
    token: Any = client.get(EPOCH_KEY) or b""
    server: Any = client.info("server")
    return f"{server.get('run_id', '')}/{token.decode() if isinstance(token, bytes) else token}"


def _cancel(postgres: Postgres, cap: int) -> int:
    with postgres.transaction() as tx:
        asked = rescue.cancelled_runs(tx)
    done = 0
    for run_id in asked:
        try:
            with postgres.transaction() as tx:
                runs.cancel(tx, run_id, cap)
            done += 1
        except errors.Conflict:
            continue  # it has ended by itself meanwhile
    return done


def _release(postgres: Postgres, cap: int) -> int:
    with postgres.transaction() as tx:
        places = rescue.planned_places(tx)
    released = 0
    for org_id, provider in places:
        with postgres.transaction() as tx:
            runs.lock_cap(tx, org_id, provider)
            released += runs.release(tx, org_id, provider, cap)
    return released

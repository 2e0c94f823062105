"""Gate 1: each due slot becomes exactly one run. One transaction claims, decides and writes; the relay publishes after it.

The tick may run at any time, on several workers at once: the key (job, slot) decides, not a leader. Due-ness is the
database's clock, the slot is never "now", and nothing here looks at how an earlier run ended.
"""

import hashlib
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from uuid import UUID

from worker_app import errors, jobs
from worker_app.jobs import DueJob, Slot
from worker_app.store import schedules
from worker_app.store.postgres import Postgres
from worker_app.sync import cron

BUDGET_SECONDS = 20.0  # a tick goes on claiming for this long
DECIDE_SECONDS = 1.0  # one batch decides for this long; what is decided is written, the rest stays due
FRESH_SECONDS = 600  # catch-up `none`: an older slot is history


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick did, as counts."""

    slots: int = 0
    minted: int = 0
    repeated: int = 0
    quarantined: int = 0
    claims: int = 0


def tick(postgres: Postgres, dispatcher: str, batch: int = schedules.CLAIM_SIZE) -> Tick:
    """Serve every due slot. Raises StoreAway when Postgres does not answer; what was committed stays."""
    done, deadline = Tick(), time.monotonic() + BUDGET_SECONDS
    while time.monotonic() < deadline:
        step = _claim_and_mint(postgres, dispatcher, batch)
        if step is None:
            break
        done = Tick(
            slots=done.slots + step.slots,
            minted=done.minted + step.minted,
            repeated=done.repeated + step.repeated,
            quarantined=done.quarantined + step.quarantined,
            claims=done.claims + 1,
        )
    return done


def _claim_and_mint(postgres: Postgres, dispatcher: str, batch: int) -> Tick | None:
    with postgres.transaction() as tx:
        now, due = schedules.claim_due(tx, batch)
        if now is None:
            return None
        decided: list[Slot] = []
        faults = 0
        deadline = time.monotonic() + DECIDE_SECONDS
        for job in due:
            if time.monotonic() > deadline and decided:
                break
            try:
                found, next_at = due_slots(job, now)
            except (errors.UsageError, ValueError, KeyError, OSError) as error:
                schedules.quarantine(tx, job.id, f"{type(error).__name__}: {error}")
                faults += 1
                continue
            if found:
                decided += found
            else:
                schedules.stamp(tx, job.id, next_at)
        minted = schedules.mint(tx, decided, dispatcher) if decided else schedules.Minted(0, 0, 0, 0)
    return Tick(slots=minted.slots, minted=minted.minted, repeated=minted.repeated, quarantined=faults)


def due_slots(job: DueJob, now: datetime) -> tuple[list[Slot], datetime]:
    """The slots of `job` that the ledger gets, by its catch-up rule, and its first slot after `now`.

    Raises UsageError, KeyError or ValueError for a line or a zone that does not parse.
    """
    oldest = max(job.next_run_at, now - job.catchup_window)
    start = oldest - timedelta(minutes=1)
    due = list(takewhile(lambda slot: slot <= now, cron.slots(job.cron, job.tz, start)))
    next_at = cron.next_after(job.cron, job.tz, now)
    if not due:
        return [], next_at
    if job.catchup == "all":
        kept = due[-job.catchup_max :]
        return [
            _slot(job, slot, now, next_at, is_minted=True, skipped=len(due) - len(kept) if index == 0 else 0)
            for index, slot in enumerate(kept)
        ], next_at
    is_fresh = now - due[-1] <= timedelta(seconds=FRESH_SECONDS)
    is_minted = job.catchup == "latest" or is_fresh
    return [_slot(job, due[-1], now, next_at, is_minted=is_minted, skipped=len(due) - 1)], next_at


def _slot(job: DueJob, slot: datetime, now: datetime, next_at: datetime, *, is_minted: bool, skipped: int) -> Slot:
    gap = (next_at - slot).total_seconds()
    return Slot(
        job_id=job.id,
        scheduled_for=slot,
        run_id=jobs.run_id(job.id, slot),
        is_minted=is_minted,
        skipped_slots=skipped,
        send_at=now + timedelta(seconds=jitter(job.id, slot, min(job.max_jitter_seconds, int(gap)))),
        next_at=next_at,
    )


def jitter(job_id: UUID, slot: datetime, most_seconds: int) -> int:
    """Seconds to hold a slot's message back: the same for the same slot, spread evenly over jobs, below `most_seconds`."""
    if most_seconds < 1:
        return 0
    digest = hashlib.sha256(f"{job_id}|{jobs.instant_text(slot)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % most_seconds

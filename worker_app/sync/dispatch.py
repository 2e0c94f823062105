"""Gate 1: each due slot becomes exactly one run. One transaction claims, decides and writes; the relay publishes after it.

The tick may run at any time, on several workers at once: the key (job, slot) decides, not a leader. Due-ness is the
database's clock, the slot is never "now", and nothing here looks at how an earlier run ended. A job that cannot be decided
or written is set aside with its reason, and the others go on.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import structlog

from worker_app import errors, jobs
from worker_app.jobs import DueJob, Slot
from worker_app.store import schedules
from worker_app.store.postgres import Postgres, Transaction
from worker_app.store.schedules import Minted
from worker_app.sync import cron

BUDGET_SECONDS = 20.0  # a tick goes on claiming for this long
LOOKS_AGAIN = 5  # at what others hold: an edit of a moment must not cost a slot the time to the next tick
LOOK_SECONDS = 0.2
DECIDE_SECONDS = 1.0  # one batch decides for this long; what is decided is written, the rest stays due
SLOTS_AT_ONCE = 2000  # so does one with this many: 200 jobs that catch up on 100 slots each may outlast a statement
FRESH_SECONDS = 600  # catch-up `none`: an older slot is history

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the tick decided about one job: its slots for the ledger, by time, and its first slot after now."""

    job_id: UUID
    slots: tuple[Slot, ...]
    next_at: datetime


@dataclass(slots=True)
class Tick:
    """What one tick did, as counts."""

    claims: int = 0
    due: int = 0  # jobs
    written: Minted = field(default_factory=Minted)
    quarantined: int = 0
    skipped_locked: int = 0  # looks at which somebody else had locked what was due

    @property
    def minted(self) -> int:
        """Slots that became a run."""
        return self.written.minted

    @property
    def repeated(self) -> int:
        """Slots that the ledger held already."""
        return self.written.repeated


def tick(postgres: Postgres, dispatcher: str, batch: int = schedules.CLAIM_SIZE) -> Tick:
    """Serve every due slot. Raises StoreAway when Postgres does not answer; what was committed stays."""
    done, deadline = Tick(), time.monotonic() + BUDGET_SECONDS
    while time.monotonic() < deadline:
        if _claim_and_mint(postgres, dispatcher, batch, done):
            done.claims += 1
        elif done.skipped_locked < LOOKS_AGAIN and _is_held_by_others(postgres):
            done.skipped_locked += 1
            time.sleep(LOOK_SECONDS)
        else:
            break
    return done


def _is_held_by_others(postgres: Postgres) -> bool:
    """Whether something is due that the claim passed by, because somebody else, an edit perhaps, has it locked just now."""
    with postgres.transaction() as tx:
        return schedules.has_due(tx)


def _claim_and_mint(postgres: Postgres, dispatcher: str, batch: int, done: Tick) -> bool:
    """Serve one claim in one transaction; False where nothing is due."""
    with postgres.transaction() as tx:
        now, due = schedules.claim_due(tx, batch)
        if now is None:
            return False
        decisions, faults = _decide(due, now)
        decided = len(decisions) + len(faults)
        faults += _write(tx, decisions, dispatcher, done)
        for job_id, fault in faults:
            schedules.quarantine(tx, job_id, fault)
    for job_id, fault in faults:
        log.error("schedule.quarantined", job_id=str(job_id), fault=fault)
    done.due += decided
    done.quarantined += len(faults)
    return True


def _decide(due: Sequence[DueJob], now: datetime) -> tuple[list[Decision], list[tuple[UUID, str]]]:
    """Decide about as many jobs as time and one write allow, one at least. Also those that cannot be decided, with the reason."""
    decisions: list[Decision] = []
    faults: list[tuple[UUID, str]] = []
    slots, deadline = 0, time.monotonic() + DECIDE_SECONDS
    for job in due:
        if decisions and (slots >= SLOTS_AT_ONCE or time.monotonic() > deadline):
            break
        try:
            decisions.append(decide(job, now))
            slots += len(decisions[-1].slots)
        except Exception as error:  # noqa: BLE001 - pure code over one row: whatever it raises is this row's fault
            faults.append((job.id, str(error) if isinstance(error, errors.DevHopsError) else repr(error)))
    return decisions, faults


def _write(tx: Transaction, decisions: Sequence[Decision], dispatcher: str, done: Tick) -> list[tuple[UUID, str]]:
    """Write the decisions; where Postgres refuses a row, in halves, until it stands alone. Returns the refused jobs."""
    if not decisions:
        return []
    try:
        written = schedules.mint(
            tx,
            [slot for decision in decisions for slot in decision.slots],
            [(decision.job_id, decision.next_at) for decision in decisions],
            dispatcher,
        )
    except errors.RowRefused as error:
        if len(decisions) == 1:
            return [(decisions[0].job_id, str(error))]
        middle = len(decisions) // 2
        return [
            fault for half in (decisions[:middle], decisions[middle:]) for fault in _write(tx, half, dispatcher, done)
        ]
    done.written += written
    return []


def decide(job: DueJob, now: datetime) -> Decision:
    """The slots of `job` that the ledger gets by its catch-up rule: at most one, or `catchup_max` where all are caught up.

    Raises UsageError, ValueError or LookupError for a line or a zone that does not parse.
    """
    next_at = _next_at(job, now)
    oldest = now - job.catchup_window
    due = _due(job, max(job.next_run_at, oldest), now, next_at)
    if due and job.catchup == "all":
        kept, is_minted = due[-job.catchup_max :], True
    elif due:
        kept = due[-1:]
        is_minted = job.catchup == "latest" or now - due[-1] <= timedelta(seconds=FRESH_SECONDS)
    elif job.next_run_at < oldest:
        kept, is_minted = [job.next_run_at], False  # older than the window: history, and the ledger says so
    else:
        kept, is_minted = [], False
    folded = len(due) - len(kept) if due else 0
    return Decision(
        job.id,
        tuple(
            Slot(
                job_id=job.id,
                scheduled_for=slot,
                run_id=jobs.run_id(job.id, slot),
                is_minted=is_minted,
                skipped_slots=0 if index else folded,
                send_at=now + timedelta(seconds=_jitter(job, slot, after)),
            )
            for index, (slot, after) in enumerate(pairwise([*kept, next_at]))
        ),
        next_at,
    )


def _next_at(job: DueJob, now: datetime) -> datetime:
    """The job's first slot after now. Raises UsageError for one that is not later: every claim would find the job due again."""
    cron.check_zone(job.tz)
    next_at = cron.next_after(job.cron, job.tz, now)
    if next_at <= now:
        raise errors.UsageError(f"cron is {job.cron!r}: its next slot is {jobs.instant_text(next_at)}, which is over")
    return next_at


def _due(job: DueJob, first: datetime, now: datetime, next_at: datetime) -> list[datetime]:
    """The slots from `first` to `now`. Most jobs are due with one, and three cached look-ups tell so."""
    if cron.next_after(job.cron, job.tz, first) == next_at:
        return [first] if cron.next_after(job.cron, job.tz, first - cron.MINUTE) == first else []
    return cron.slots_between(job.cron, job.tz, first, now)


def _jitter(job: DueJob, slot: datetime, following: datetime) -> int:
    return jitter(job.id, slot, min(job.max_jitter_seconds, int((following - slot).total_seconds())))


def jitter(job_id: UUID, slot: datetime, most_seconds: int) -> int:
    """Seconds to hold a slot's message back: the same for the same slot, spread evenly over jobs, below `most_seconds`."""
    if most_seconds < 1:
        return 0
    digest = hashlib.sha256(f"{job_id}|{jobs.instant_text(slot)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % most_seconds

"""Engine: a new release of the cron library or of the zones may move slots. The migration job computes them anew, once.

A pure function of line, zone and the slot that stood there, so a job that was killed in the middle begins again.
"""

from datetime import datetime
from uuid import UUID

import structlog

from worker_app import errors
from worker_app.store import schedules
from worker_app.store.postgres import Transaction
from worker_app.sync import cron

STEP = 1000  # jobs in one transaction

log = structlog.get_logger(__name__)


def recompute(tx: Transaction, now: datetime) -> int:
    """Up to 1,000 jobs of an older engine get the next slot of this one; returns how many, 0 when none is left.

    A slot that nobody has served yet is kept, or the one that takes its place; a slot to come is computed from `now`.
    """
    older = schedules.of_older_engine(tx, cron.ENGINE, STEP)
    stamps = [(job_id, _next(job_id, line, zone, stands, now)) for job_id, line, zone, stands in older]
    schedules.set_engine(tx, cron.ENGINE, stamps)
    return len(older)


def _next(job_id: UUID, line: str, zone: str, stands: datetime, now: datetime) -> datetime:
    try:
        return cron.next_after(line, zone, now if stands > now else stands - cron.MINUTE)
    except (errors.UsageError, ValueError, LookupError) as error:
        log.warning("schedule.unreadable", job_id=str(job_id), error=str(error))
        return stands  # the tick sets it aside, and says why where people look

"""Every Celery task: take the runtime, call the service, hand on. Keyword arguments, ids, idempotent.

All are acknowledged late. A message that comes twice finds its row taken or closed and does nothing.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import structlog
from celery import shared_task

from worker_app import errors, retry, runtime, telemetry
from worker_app.metrics import daily
from worker_app.reports import render
from worker_app.store import fence
from worker_app.sync import batch, control, dispatch, finish, plan, prune, rescue

log = structlog.get_logger(__name__)
PREFIX = "worker_app.tasks."


@shared_task(name=PREFIX + "dispatch_scheduled_syncs", **retry.TASK_RETRY)
def dispatch_scheduled_syncs(*, epoch: int = 0) -> None:
    """Serve every due slot. `epoch` is the beat's; one that has lost its lock is not heard. 0: sent by a person."""
    current = runtime.current()
    if epoch and fence.is_overtaken(current.locks, "beat", epoch):
        telemetry.BEAT_STALE_TICKS.inc()
        return
    telemetry.CLOCK_SKEW.set(time.time() - current.postgres.now().timestamp())
    done = dispatch.tick(current.postgres, current.name)
    _tell(done)
    current.wake_relay()


@shared_task(name=PREFIX + "dispatch_sync_run", **retry.TASK_RETRY)
def dispatch_sync_run(*, run_id: str) -> None:
    """Plan a run: its batches and their messages."""
    with _step("dispatch_sync_run", run_id) as (current, ended):
        settings = current.settings
        ended.by = plan.run(
            current.postgres,
            UUID(run_id),
            lease_seconds=settings.batch_lease_seconds,
            cap=settings.sync_concurrency_per_provider,
            max_batches=settings.sync_run_max_batches,
        )


@shared_task(name=PREFIX + "run_sync_batch", **retry.TASK_RETRY)
def run_sync_batch(*, batch_id: str) -> None:
    """Run one sync batch from its cursor."""
    with _step("run_sync_batch", batch_id) as (current, ended):
        end = batch.run(
            current.postgres,
            UUID(batch_id),
            reader_of=current.reader,
            bounds=current.bounds,
            is_draining=current.draining.is_set,
            blocked_by=current.blocked_by,
        )
        ended.by = None if end == "duplicate" else end


@shared_task(name=PREFIX + "finish_sync_run", **retry.TASK_RETRY)
def finish_sync_run(*, run_id: str) -> None:
    """Close a run whose batches are all closed, and owe its metrics run."""
    with _step("finish_sync_run", run_id) as (current, ended):
        ended.by = finish.run(current.postgres, UUID(run_id), lease_seconds=current.settings.batch_lease_seconds)


@shared_task(name=PREFIX + "compute_daily_metrics", **retry.TASK_RETRY)
def compute_daily_metrics(*, run_id: str) -> None:
    """Compute every day that records touched in the run's organisation."""
    with _step("compute_daily_metrics", run_id) as (current, ended):
        days = daily.run(
            current.postgres, current.metrics, UUID(run_id), lease_seconds=current.settings.batch_lease_seconds
        )
        telemetry.METRIC_DAYS_COMPUTED.inc(days or 0)
        ended.by = days


@shared_task(name=PREFIX + "render_report", **retry.TASK_RETRY)
def render_report(*, run_id: str) -> None:
    """Render the report that a schedule asks for."""
    with _step("render_report", run_id) as (current, ended):
        ended.by = render.run(
            current.postgres, current.metrics, UUID(run_id), lease_seconds=current.settings.batch_lease_seconds
        )


@shared_task(name=PREFIX + "rescue", **retry.TASK_RETRY)
def rescue_lost(*, epoch: int = 0) -> None:
    """Find what dead processes left and let it go on."""
    current, settings = runtime.current(), runtime.current().settings
    found = rescue.sweep(
        current.postgres,
        current.broker,
        cap=settings.sync_concurrency_per_provider,
        visibility_timeout_seconds=settings.visibility_timeout_seconds,
    )
    if found.has_messages:
        log.info("rescue.found", epoch=epoch, found=found)
        telemetry.BATCHES_RESCUED.inc(found.runs + found.batches + found.rearmed)
        current.wake_relay()


@shared_task(name=PREFIX + "prune", **retry.TASK_RETRY)
def prune_history(*, epoch: int = 0) -> None:
    """Forget ledger rows and closed runs that are older than the history that is kept, and versions that nothing holds."""
    current = runtime.current()
    done = prune.run(current.postgres, days=current.settings.history_days)
    versions = done.credential_versions
    log.info("history.pruned", epoch=epoch, occurrences=done.occurrences, runs=done.runs, credential_versions=versions)


@dataclass(slots=True)
class _Ended:
    """How a step ended, as a word or a count for the log; None: its message was a duplicate."""

    by: object = None


@contextmanager
def _step(task: str, row_id: str) -> Iterator[tuple[runtime.Runtime, _Ended]]:
    """One step of a run. A row that another worker has taken over meanwhile is that one's: no failure, nothing to repeat."""
    current, ended = runtime.current(), _Ended()
    try:
        yield current, ended
    except errors.LeaseLost as error:
        log.warning("step.lost", task=task, error=str(error))
        return
    log.info("step.ended", task=task, result=ended.by)
    if ended.by is None:
        telemetry.DUPLICATE_MESSAGES.labels(task).inc()
        if not control.is_known(current.postgres, UUID(row_id)):
            telemetry.ORPHAN_MESSAGES.labels(task).inc()
            log.warning("message.orphan", task=task, row_id=row_id)
    current.wake_relay()


def _tell(done: dispatch.Tick) -> None:
    written = done.written
    telemetry.OCCURRENCES_MINTED.inc(written.minted)
    telemetry.OCCURRENCES_REPEATED.inc(written.repeated)
    telemetry.OCCURRENCES_SKIPPED.labels("overlap").inc(written.skipped_overlap)
    telemetry.OCCURRENCES_SKIPPED.labels("catchup").inc(written.skipped_catchup)
    telemetry.OCCURRENCES_BUFFERED.inc(written.buffered)
    telemetry.SCHEDULES_FAULTED.inc(done.quarantined)
    telemetry.DISPATCH_SKIPPED_LOCKED.inc(done.skipped_locked)
    telemetry.IDLE_DUE_WINDOWS.inc(int(done.due > 0 and written.slots == 0))
    telemetry.DISPATCH_LAST_TICK.set(time.time())

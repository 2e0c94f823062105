"""Every Celery task: take the runtime, call the service, hand on. Keyword arguments, ids, idempotent.

All are acknowledged late. A message that comes twice finds its row taken or closed and does nothing.
"""

from uuid import UUID

import structlog
from celery import shared_task

from worker_app import retry, runtime, telemetry
from worker_app.metrics import daily
from worker_app.store import fence
from worker_app.sync import batch, dispatch, finish, plan, rescue

log = structlog.get_logger(__name__)
PREFIX = "worker_app.tasks."


@shared_task(name=PREFIX + "dispatch_scheduled_syncs", **retry.TASK_RETRY)
def dispatch_scheduled_syncs(*, epoch: int = 0) -> None:
    """Serve every due slot. `epoch` is the beat's; one that has lost its lock is not heard. 0: sent by a person."""
    current = runtime.current()
    if 0 < epoch < fence.current_epoch(current.locks, "beat"):
        telemetry.BEAT_STALE_TICKS.inc()
        return
    done = dispatch.tick(current.postgres, current.name)
    telemetry.OCCURRENCES_MINTED.inc(done.minted)
    telemetry.OCCURRENCES_REPEATED.inc(done.repeated)
    telemetry.SCHEDULES_FAULTED.inc(done.quarantined)
    current.wake_relay()


@shared_task(name=PREFIX + "dispatch_sync_run", **retry.TASK_RETRY)
def dispatch_sync_run(*, run_id: str) -> None:
    """Plan a run: its batches and their messages."""
    current, settings = runtime.current(), runtime.current().settings
    armed = plan.run(
        current.postgres,
        UUID(run_id),
        lease_seconds=settings.batch_lease_seconds,
        cap=settings.sync_concurrency_per_provider,
        max_batches=settings.sync_run_max_batches,
    )
    _after(current, "dispatch_sync_run", is_duplicate=armed is None)


@shared_task(name=PREFIX + "run_sync_batch", **retry.TASK_RETRY)
def run_sync_batch(*, batch_id: str) -> None:
    """Run one sync batch from its cursor."""
    current = runtime.current()
    end = batch.run(
        current.postgres,
        UUID(batch_id),
        reader_of=current.reader,
        bounds=current.bounds,
        is_draining=current.draining.is_set,
    )
    log.info("batch.ended", result=end)
    _after(current, "run_sync_batch", is_duplicate=end == "duplicate")


@shared_task(name=PREFIX + "finish_sync_run", **retry.TASK_RETRY)
def finish_sync_run(*, run_id: str) -> None:
    """Close a run whose batches are all closed, and owe its metrics run."""
    current = runtime.current()
    state = finish.run(current.postgres, UUID(run_id), lease_seconds=current.settings.batch_lease_seconds)
    log.info("run.ended", state=state)
    _after(current, "finish_sync_run", is_duplicate=state is None)


@shared_task(name=PREFIX + "compute_daily_metrics", **retry.TASK_RETRY)
def compute_daily_metrics(*, run_id: str) -> None:
    """Compute every day that records touched in the run's organisation."""
    current = runtime.current()
    days = daily.run(current.postgres, UUID(run_id), lease_seconds=current.settings.batch_lease_seconds)
    log.info("metrics.computed", days=days)
    telemetry.METRIC_DAYS_COMPUTED.inc(days or 0)
    _after(current, "compute_daily_metrics", is_duplicate=days is None)


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


def _after(current: runtime.Runtime, task: str, *, is_duplicate: bool) -> None:
    if is_duplicate:
        telemetry.DUPLICATE_MESSAGES.labels(task).inc()
    current.wake_relay()

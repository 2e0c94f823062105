"""Batch: one source, one dataset, one window. Read page by page; each page's records and position are one transaction.

A batch is resumable at its cursor and owned through a lease, so a killed worker costs the page it was on. It yields its slot
after a while, at once when its worker drains, and when a limit would keep it waiting in the slot; none of that spends an attempt.
"""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import structlog

from worker_app import errors, retry, telemetry
from worker_app.jobs import Batch, BatchEnd, BatchState, WaitingBatch
from worker_app.records import Cursor, Page, Reader, Repository, Source, Walk
from worker_app.store import batches, records, runs, sources
from worker_app.store.postgres import Postgres
from worker_app.sync import deferral, lease

PATIENCE_SHARE = 0.1  # of the time that is left to a batch may be slept for one request

# (source, dataset, seconds that one request may sleep) -> who reads it; raises CredentialRefused
ReaderOf = Callable[[Source, str, Callable[[], float]], Reader]
# What keeps a batch from making requests now, by what this process knows; None: nothing
BlockedBy = Callable[[WaitingBatch], errors.RateLimited | None]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long and how wide a batch may run; times are seconds."""

    lease_seconds: int
    deadline_seconds: int  # after which it yields at its cursor
    cap: int  # running batches per organisation and provider


def run(
    postgres: Postgres,
    batch_id: UUID,
    *,
    reader_of: ReaderOf,
    bounds: Bounds,
    is_draining: Callable[[], bool],
    blocked_by: BlockedBy = lambda _: None,
) -> str:
    """Run one batch from its cursor. Returns how it ended, as a word for logs and telemetry.

    `duplicate`, `succeeded`, `incomplete`, `disabled`, `yielded`, `drained`, `deferred`, `retried`, `failed`, `cancelled` or
    `lost`. A second message for the same batch is a duplicate and does nothing. One that a known limit blocks is deferred
    before it is claimed and before its credential is read.
    """
    if _is_blocked(postgres, batch_id, blocked_by):
        return "deferred"
    with postgres.transaction() as tx:
        batch = batches.claim(tx, batch_id, uuid4(), lease_seconds=bounds.lease_seconds, cap=bounds.cap)
    if batch is None:
        return "duplicate"
    structlog.contextvars.bind_contextvars(
        org_id=str(batch.org_id), run_id=str(batch.run_id), provider=batch.provider, attempt=batch.attempt
    )
    end = _run(_Work(postgres, batch, bounds), reader_of, is_draining)
    telemetry.BATCHES.labels(batch.provider, batch.dataset, end).inc()
    return end


def _is_blocked(postgres: Postgres, batch_id: UUID, blocked_by: BlockedBy) -> bool:
    with postgres.transaction() as tx:
        batch = batches.waiting(tx, batch_id)
    limited = None if batch is None else blocked_by(batch)
    if batch is None or limited is None or deferral.is_hopeless(limited, batch.stalled_seconds):
        return False
    wait = deferral.wait_seconds(limited, batch.deferrals, random.random())  # noqa: S311 - spreads waits, no secret
    with postgres.transaction() as tx:
        is_deferred = batches.defer_unclaimed(tx, batch, wait_seconds=wait, defer_reason=deferral.reason_of(limited))
    if is_deferred:
        log.info("batch.deferred", reason=str(limited), wait_seconds=round(wait, 1), is_claimed=False)
        telemetry.BATCHES.labels(batch.provider, batch.dataset, "deferred").inc()
    return is_deferred


def _run(work: "_Work", reader_of: ReaderOf, is_draining: Callable[[], bool]) -> str:
    batch = work.batch
    try:
        if batch.is_cancelled:
            return work.cancel()
        with lease.kept(work.renew, work.bounds.lease_seconds) as lost:
            return work.walk(reader_of, lambda: lost.is_set(), is_draining)
    except errors.LeaseLost as error:
        log.warning("batch.lost", error=str(error))
        return "lost"
    except errors.Deferral as error:
        return work.give_back("drained") if is_draining() else work.defer(error)
    except errors.DatasetDisabled as error:
        return work.disable(error)
    except errors.PermanentError as error:
        return work.fail(error)
    except errors.TransientError as error:
        return work.retry(error)
    except (
        Exception
    ) as error:  # the one at the task border: a fault of ours spends an attempt, is seen and told to Celery
        work.retry(errors.TransientError(f"unexpected {type(error).__name__}; the worker's log has its traceback"))
        raise


class _Work:
    """A claimed batch on its way through one lease."""

    def __init__(self, postgres: Postgres, batch: Batch, bounds: Bounds) -> None:
        self.postgres = postgres
        self.batch = batch
        self.bounds = bounds
        self.deadline = time.monotonic() + bounds.deadline_seconds

    def renew(self) -> bool:
        with self.postgres.transaction() as tx:
            return batches.renew(tx, self.batch, self.bounds.lease_seconds)

    def walk(self, reader_of: ReaderOf, is_lost: Callable[[], bool], is_draining: Callable[[], bool]) -> str:
        source, cursor = self._source()
        reader = reader_of(source, self.batch.dataset, self._patience)
        walk = self._frame(reader, source, cursor)
        reason = walk.incomplete_reason or self.batch.incomplete_reason
        if self.batch.is_over:
            return self._succeed(source, walk, reason)
        with closing(reader.read(source, walk, self.batch.position)) as pages:  # type: ignore[type-var]
            for page in pages:
                is_cancelled = self._store(source, walk, page)
                reason = reason or (None if page.complete else page.reason or "a page was cut")
                if page.next is None:
                    return self._succeed(source, walk, reason)
                if is_cancelled:
                    return self.cancel()
                if is_lost():
                    raise errors.LeaseLost(f"batch {self.batch.id} was taken over")
                if is_draining():
                    return self.give_back("drained")
                if time.monotonic() >= self.deadline:
                    return self.give_back("yielded")
        raise errors.TransientError(f"the reader of {self.batch.provider} ended without a last page")

    def _patience(self) -> float:
        return max(0.0, (self.deadline - time.monotonic()) * PATIENCE_SHARE)

    def _source(self) -> tuple[Source, Cursor]:
        """The source with the credential that the batch was planned with, and where its last walk ended."""
        batch = self.batch
        with self.postgres.transaction() as tx:
            found = sources.sources(tx, batch.org_id, ids=[batch.source_id])
            cursor = sources.cursor(tx, batch.org_id, batch.source_id, batch.dataset)
        if not found:
            raise errors.UsageError("the source was removed while its batch waited")
        return replace(found[0], credential_id=batch.credential_id, stamp=batch.stamp), cursor

    def _frame(self, reader: Reader, source: Source, cursor: Cursor) -> Walk:
        """The frame of the walk: the stored one, or a new one from the cursor."""
        batch = self.batch
        if batch.walk is not None:
            return walk_from(batch.walk)
        walk = reader.begin(source, cursor, batch.claimed_at)
        with self.postgres.transaction() as tx:
            batches.begin(tx, batch, walk_document(walk))
        return walk

    def _store(self, source: Source, walk: Walk, page: Page) -> bool:
        """Store a page; returns whether somebody wants the run to end."""
        with self.postgres.transaction() as tx:
            is_cancelled = batches.checkpoint(tx, self.batch, page, self.bounds.lease_seconds)
            records.write(tx, source, page.records, walk.started_at)
            for item in page.records:
                if isinstance(item, Repository) and _is_renamed(source, item):
                    sources.rename(tx, source, item.full_name)
        telemetry.RECORDS_WRITTEN.labels(self.batch.provider, self.batch.dataset).inc(page.counted)
        return is_cancelled

    def _succeed(self, source: Source, walk: Walk, reason: str | None) -> str:
        batch, is_complete = self.batch, reason is None
        with self.postgres.transaction() as tx:
            end = BatchEnd(BatchState.SUCCEEDED, is_complete=is_complete, incomplete_reason=reason)
            if not batches.close(tx, batch.id, batch.owner, end):
                raise errors.LeaseLost(f"batch {batch.id} was taken over")
            sources.set_state(tx, batch.org_id, batch.source_id, walk.state, reason)
            if is_complete:
                if walk.is_full:
                    records.mark_unreachable(tx, source, unmet_before=walk.started_at)
                sources.move_cursor(tx, batch.org_id, batch.source_id, batch.dataset, walk)
        return "succeeded" if is_complete else "incomplete"

    def give_back(self, reason: str) -> str:
        batch = self.batch
        with self.postgres.transaction() as tx:
            runs.lock_cap(tx, batch.org_id, batch.provider)
            if not batches.give_back(tx, batch, BatchState.PLANNED):
                raise errors.LeaseLost(f"batch {batch.id} was taken over")
            runs.release(tx, batch.org_id, batch.provider, self.bounds.cap)
        return reason

    def defer(self, error: errors.Deferral) -> str:
        """Give the batch back with its cursor until the limit is over, or fail it where that has no end."""
        batch = self.batch
        # A wait that goes back is at the end of this lease: what was stored before it counts as progress.
        with self.postgres.transaction() as tx:
            stalled_seconds, deferrals = batches.standstill(tx, batch)
        if deferral.is_hopeless(error, stalled_seconds):
            return self.fail(error)
        wait = deferral.wait_seconds(error, deferrals, random.random())  # noqa: S311 - spreads waits, no secret
        log.info("batch.deferred", reason=str(error), wait_seconds=round(wait, 1), is_claimed=True)
        reason = deferral.reason_of(error)
        with self.postgres.transaction() as tx:
            given = batches.give_back(tx, batch, BatchState.DEFERRED, wait_seconds=wait, defer_reason=reason)
        return "deferred" if given else "lost"

    def disable(self, error: errors.DatasetDisabled) -> str:
        """Close the batch: there is nothing to read, and that is asked again only after a while."""
        batch, text = self.batch, str(error)
        with self.postgres.transaction() as tx:
            if not batches.close(tx, batch.id, batch.owner, BatchEnd(BatchState.SUCCEEDED, is_complete=True)):
                return "lost"
            sources.disable_dataset(tx, batch.org_id, batch.source_id, batch.dataset, text)
        return "disabled"

    def cancel(self) -> str:
        """Close the batch where it stands, because somebody wants its run to end; its pages stay."""
        end = BatchEnd(BatchState.CANCELLED, is_complete=False, error_class="cancelled", error="its run was cancelled")
        with self.postgres.transaction() as tx:
            return "cancelled" if batches.close(tx, self.batch.id, self.batch.owner, end) else "lost"

    def fail(self, error: errors.DevHopsError) -> str:
        """Close the batch as failed and tell its source, where the fault is the source's."""
        batch, text = self.batch, str(error)
        log.error("batch.failed", error=text, error_class=type(error).__name__)
        end = BatchEnd(BatchState.FAILED, is_complete=False, error_class=type(error).__name__, error=text)
        with self.postgres.transaction() as tx:
            if not batches.close(tx, batch.id, batch.owner, end):
                return "lost"
            if isinstance(error, errors.SourceUnavailable):
                sources.set_state(tx, batch.org_id, batch.source_id, error.state, text, evidence=error.evidence)
        return "failed"

    def retry(self, error: errors.TransientError) -> str:
        """Give the batch back with one attempt spent, or fail it after the last."""
        if self.batch.attempt + 1 >= retry.MAX_ATTEMPTS:
            return self.fail(error)
        wait = retry.backoff_seconds(self.batch.attempt, random.random())  # noqa: S311 - jitter, no secret
        log.warning("batch.retried", error=str(error), wait_seconds=round(wait, 1))
        with self.postgres.transaction() as tx:
            if isinstance(error, errors.WalkLost):
                batches.begin(tx, self.batch, None)
            given = batches.give_back(
                tx,
                self.batch,
                BatchState.QUEUED,
                wait_seconds=wait,
                is_fault=True,
                error=str(error),
                error_class=type(error).__name__,
            )
        return "retried" if given else "lost"


def _is_renamed(source: Source, item: Repository) -> bool:
    """Whether a repository is called otherwise at its provider than here; a plain git source is named by its address."""
    return source.provider != "git" and source.ext_id == item.ext_id and source.external_name != item.full_name


def walk_document(walk: Walk) -> dict[str, object]:
    """The frame of a walk as it is stored."""
    return {
        "started_at": walk.started_at.isoformat(),
        "since": dict(walk.since),
        "until": dict(walk.until),
        "total": walk.total,
        "is_full": walk.is_full,
        "state": walk.state,
        "incomplete_reason": walk.incomplete_reason,
    }


def walk_from(document: Mapping[str, Any]) -> Walk:
    """The frame of a walk from what was stored."""
    return Walk(
        started_at=datetime.fromisoformat(document["started_at"]),
        since=document["since"],
        until=document["until"],
        total=document["total"],
        is_full=document["is_full"],
        state=document["state"],
        incomplete_reason=document["incomplete_reason"],
    )

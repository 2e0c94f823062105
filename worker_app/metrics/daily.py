"""Daily: the metrics run of an organisation. Every day that records touched is computed anew, oldest first, in short steps."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import structlog

from worker_app import errors
from worker_app.jobs import Run, RunState
from worker_app.metrics import commits, days
from worker_app.metrics.commits import Place
from worker_app.metrics.days import Reading
from worker_app.records import Commit, Source
from worker_app.store import metrics, records, runs, sources
from worker_app.store.metrics import MetricRow, MetricSink
from worker_app.store.postgres import Postgres, Transaction
from worker_app.store.sources import Org
from worker_app.sync import lease, promote

BUSY_SECONDS = 10  # a run waits so long, without a slot, while another one computes its organisation
DAYS_PER_STEP = 100  # one transaction each: some seconds of work even for a busy organisation

log = structlog.get_logger(__name__)


def run(postgres: Postgres, sink: MetricSink, run_id: UUID, *, lease_seconds: int) -> int | None:
    """Compute all touched days of the run's organisation and close it; returns how many. None: a duplicate message.

    While another run computes the same organisation, or a store is away, this one is put back to wait: it holds no slot and
    spends no attempt. Where the store of metrics refuses, it fails with its words, and the days stay touched.
    """
    owner, done = uuid4(), 0
    with postgres.transaction() as tx:
        claimed = runs.claim(tx, run_id, owner, "compute", lease_seconds)
    if claimed is None:
        return None

    def renew() -> bool:
        with postgres.transaction() as tx:
            return runs.renew(tx, run_id, owner, lease_seconds)

    with lease.kept(renew, lease_seconds) as lost:
        try:
            while (computed := _step(postgres, sink, claimed.org_id)) != 0:
                if computed is None:
                    _defer(postgres, claimed, owner, "another run computes this organisation")
                    return done
                done += computed
                if lost.is_set():
                    raise errors.LeaseLost(f"run {run_id} was taken over")
        except errors.StoreAway as error:
            _defer(postgres, claimed, owner, str(error))
            return done
        except errors.StoreRefused as error:
            _close(postgres, claimed, owner, RunState.FAILED, error)
            return done
    _close(postgres, claimed, owner, RunState.SUCCEEDED)
    return done


def _defer(postgres: Postgres, claimed: Run, owner: UUID, reason: str) -> None:
    """Let the run wait without a slot; the days that it has not computed stay touched. Raises StoreAway when Postgres is away."""
    with postgres.transaction() as tx:
        runs.defer(tx, claimed, owner, BUSY_SECONDS)
    log.info("metrics.deferred", reason=reason)


def _close(postgres: Postgres, claimed: Run, owner: UUID, state: RunState, error: Exception | None = None) -> None:
    said = (str(error), type(error).__name__) if error else (None, None)
    with postgres.transaction() as tx:
        if not runs.close(tx, claimed.id, owner, state, *said):
            raise errors.LeaseLost(f"run {claimed.id} was taken over")
    promote.after(postgres, claimed.job_id)


def _step(postgres: Postgres, sink: MetricSink, org_id: UUID) -> int | None:
    """Compute the oldest touched days in one transaction; returns how many, 0 when none is left, None while another run does."""
    with postgres.transaction() as tx:
        if not metrics.lock_org(tx, org_id):
            return None
        touched = metrics.touched_days(tx, org_id, DAYS_PER_STEP)
        if not touched:
            return 0
        org = sources.org(tx, org_id)
        starts, known = sources.complete_starts(tx, org_id, "commits"), sources.sources(tx, org_id)
        rows: list[MetricRow] = []
        for item in touched:
            rows += commits.rows(item.day, *_inputs(tx, org, item.day, starts, known))
        computed = [item.day for item in touched]
        sink.replace(tx, org_id, commits.METRICS, computed, rows)
        metrics.note_coverage(tx, org_id, computed, {row.day for row in rows if row.coverage < 1})
        metrics.clear_touched(tx, org_id, touched)
    return len(touched)


def _inputs(
    tx: Transaction, org: Org, day: date, starts: Mapping[UUID, datetime | None], known: Sequence[Source]
) -> tuple[Iterator[tuple[Place, Commit]], Place, dict[Place, Reading]]:
    """The commits of one day as they come, the organisation's grain, and how completely each grain was read on that day."""
    zone, org_place = ZoneInfo(org.tz), Place("org", str(org.id))
    start, end = days.start_of(day, zone), days.end_of(day, zone)
    found = (
        (commits.repo_place(provider, host, commit.repo_ext_id), commit)
        for provider, host, commit in records.commits_between(tx, org.id, start, end)
    )
    readings = {
        commits.repo_place(source.provider, source.host, source.ext_id): days.reading([starts.get(source.id)], end)
        for source in known
    }
    readings[org_place] = days.reading(starts.values(), end)
    return found, org_place, readings

"""Overview: what the status page shows of Postgres, each list bounded, so that a page costs the same in a large fleet."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from worker_app.store import outbox, overview_batches, runs
from worker_app.store.outbox import Backlog
from worker_app.store.overview_batches import FailedBatch, Wait
from worker_app.store.postgres import Transaction, statement
from worker_app.store.runs import RunView

SHOWN = 12  # rows of each list; the counts beside it tell the rest


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source as the overview shows it. The field names are public."""

    id: UUID
    org: str
    provider: str
    external_name: str
    state: str
    state_reason: str | None


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A scheduled job as the overview shows it. The field names are public."""

    id: UUID
    org: str
    kind: str
    sources: tuple[str, ...]
    cron_source: str  # as typed
    tz: str
    enabled: bool
    next_run_at: datetime | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class Overview:
    """Postgres at one moment. The field names are public."""

    at: datetime  # database clock, aware UTC
    open_runs: tuple[RunView, ...]  # the running ones first
    run_states: dict[str, int]  # of open runs: state -> runs
    ended_runs: tuple[RunView, ...]  # the newest first
    waits: tuple[Wait, ...]  # of the batches of the open runs that are shown
    failed_batches: tuple[FailedBatch, ...]  # of the last day, whose dataset was not read since; the newest first
    sources: tuple[SourceLine, ...]  # those that cannot be read first
    source_states: dict[str, int]  # state -> sources
    schedules: tuple[ScheduleLine, ...]  # those with a fault first, then by their next slot
    schedule_states: dict[str, int]  # enabled, paused, faulted -> scheduled jobs
    outbox: Backlog
    schedule_lag_seconds: float


def read(tx: Transaction, shown: int = SHOWN) -> Overview:
    """The overview with at most `shown` rows in each list."""
    counts = tx.execute(statement("overview_counts")).all()
    open_runs, ended_runs = _runs(tx, shown)
    return Overview(
        at=tx.execute(text("SELECT now()")).scalar_one(),
        open_runs=open_runs,
        run_states={row.state: row.n for row in counts if row.what == "open run"},
        ended_runs=ended_runs,
        waits=overview_batches.waits(tx, [run.id for run in open_runs]),
        failed_batches=overview_batches.failed(tx, shown),
        sources=tuple(SourceLine(*row) for row in tx.execute(statement("overview_sources"), {"shown": shown})),
        source_states={row.state: row.n for row in counts if row.what == "source"},
        schedules=_schedules(tx, shown),
        schedule_states={row.state: row.n for row in counts if row.what == "schedule"},
        outbox=outbox.backlog(tx),
        schedule_lag_seconds=schedule_lag_seconds(tx),
    )


def schedule_lag_seconds(tx: Transaction) -> float:
    """The age of the oldest slot that is due and not served, 0.0 where none is. A job set aside with a fault is not due."""
    lag = tx.execute(
        text(
            "SELECT extract(epoch FROM now() - min(next_run_at)) FROM scheduled_jobs WHERE enabled AND next_run_at <= now() "
            "AND (quarantined_until IS NULL OR quarantined_until <= now())"
        )
    ).scalar_one()
    return float(lag or 0)


def stuck_runs(tx: Transaction) -> int:
    """Open runs that nobody seems to move: past their deadline, or with a lease that has been over for ten minutes."""
    found: int = tx.execute(
        text(
            "SELECT count(*) FROM sync_runs WHERE state IN ('queued', 'planning', 'running', 'finishing') "
            "AND (deadline_at < now() OR lease_until < now() - interval '10 minutes')"
        )
    ).scalar_one()
    return found


def quarantined_schedules(tx: Transaction) -> int:
    """Scheduled jobs that are set aside just now."""
    found: int = tx.execute(
        text("SELECT count(*) FROM scheduled_jobs WHERE enabled AND quarantined_until > now()")
    ).scalar_one()
    return found


def _runs(tx: Transaction, shown: int) -> tuple[tuple[RunView, ...], tuple[RunView, ...]]:
    """The open runs and the ended ones. One read by key each: what a run looks like is said in one place, `runs.views`."""
    picked = tx.execute(statement("overview_runs"), {"shown": shown}).all()
    seen = [(row.is_open, view) for row in picked for view in runs.views(tx, run_id=row.id, limit=1)]
    return tuple(view for is_open, view in seen if is_open), tuple(view for is_open, view in seen if not is_open)


def _schedules(tx: Transaction, shown: int) -> tuple[ScheduleLine, ...]:
    rows = tx.execute(statement("overview_schedules"), {"shown": shown}).mappings()
    return tuple(ScheduleLine(**{**row, "sources": tuple(row["sources"])}) for row in rows)

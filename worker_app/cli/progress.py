"""Progress: a run drawn while it goes on: batches, records, rate and the time that is left."""

import time
from uuid import UUID

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from worker_app import errors
from worker_app.jobs import OPEN_STATES, RunState
from worker_app.runtime import Runtime
from worker_app.store import runs
from worker_app.store.runs import RunView

LOOK_SECONDS = 0.3


def view_of(runtime: Runtime, run_id: UUID) -> RunView:
    """The run as it stands. Raises UsageError when it does not exist."""
    with runtime.postgres.transaction() as tx:
        found = runs.views(tx, run_id=run_id)
    if not found:
        raise errors.UsageError(f"there is no run {run_id}")
    return found[0]


def follow(runtime: Runtime, run_id: UUID, *, quiet: bool = False) -> RunView:
    """Draw the run on standard error until it is over and return it. `quiet` only waits."""
    console = Console(stderr=True, quiet=quiet)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(show_speed=False),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, transient=False) as drawn:
        task = drawn.add_task("waiting", total=None, rate="")
        began_at, began_records = time.monotonic(), None
        while True:
            view = view_of(runtime, run_id)
            if began_records is None and view.records:
                began_at, began_records = time.monotonic(), view.records
            rate = _whole_rate(view) or (view.records - (began_records or 0)) / max(0.3, time.monotonic() - began_at)
            drawn.update(
                task,
                description=f"{view.kind} {view.source or view.org}: {view.state}",
                completed=view.records,
                total=max(view.expected, view.records) if view.expected else None,
                rate=_rate(view, rate),
            )
            if RunState(view.state) not in OPEN_STATES:
                return view
            time.sleep(LOOK_SECONDS)


def _rate(view: RunView, rate: float) -> str:
    """What is said beside the bar; a run of metrics or of a report counts neither records nor batches."""
    if view.kind in ("metrics", "report"):
        return ""
    return f"{rate:,.0f}/s  batches {view.batches_done}/{view.batches_total or '?'}"


def _whole_rate(view: RunView) -> float | None:
    """Records per second of a run that is over, None before."""
    if view.started_at is None or view.finished_at is None:
        return None
    return view.records / max(0.001, (view.finished_at - view.started_at).total_seconds())

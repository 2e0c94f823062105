"""Progress: how far each open run is, when it may be over, and what its batches wait for. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from worker_app.gate.key import WHOLE_KEY
from worker_app.jobs import RunState
from worker_app.store.overview_batches import Wait
from worker_app.store.runs import RunView
from worker_app.sync.explain_findings import countdown

MOVING = frozenset({RunState.RUNNING, RunState.DEFERRED, RunState.FINISHING})
LEAST_SHARE = 0.02  # below it the rate of so few records says nothing about the rest


@dataclass(frozen=True, slots=True)
class RunProgress:
    """An open run as the page draws it. The field names are public."""

    run_id: UUID
    share: float | None  # 0 to 1, by records where all walks announced theirs, else by batches; None: nobody knows
    eta_seconds: float | None  # at the rate so far, and not before its gates open; None: nobody knows
    waits: tuple[str, ...]  # one sentence for each thing that batches wait for


def of_runs(runs: Sequence[RunView], waits: Sequence[Wait], at: datetime) -> tuple[RunProgress, ...]:
    """The progress of each run, in their order."""
    return tuple(_of_run(run, [wait for wait in waits if wait.run_id == run.id], at) for run in runs)


def _of_run(run: RunView, waits: Sequence[Wait], at: datetime) -> RunProgress:
    share = _share(run)
    return RunProgress(run.id, share, _eta_seconds(run, share, waits, at), tuple(sentence(wait, at) for wait in waits))


def _share(run: RunView) -> float | None:
    if run.state not in MOVING:
        return None
    if run.expected:
        return min(1.0, run.records / run.expected)
    return run.batches_done / run.batches_total if run.batches_total else None


def _eta_seconds(run: RunView, share: float | None, waits: Sequence[Wait], at: datetime) -> float | None:
    if share is None or share < LEAST_SHARE or run.started_at is None:
        return None
    rest = (at - run.started_at).total_seconds() * (1 - share) / share
    return round(max(rest, *(_left_seconds(wait, at) for wait in waits), 0.0), 1)


def _left_seconds(wait: Wait, at: datetime) -> float:
    return (wait.not_before - at).total_seconds() if wait.not_before else 0.0


def sentence(wait: Wait, at: datetime) -> str:
    """What batches wait for, and for how long, in words."""
    who = f"{wait.batches} {'batch waits' if wait.batches == 1 else 'batches wait'}"
    left = _left_seconds(wait, at)
    until = f", on again in {countdown(left)}" if left > 0 else ", on again at once" if wait.state == "deferred" else ""
    said = f": {wait.detail}" if wait.detail else ""
    if wait.state == "planned":
        return f"{who} for others of the same provider and organisation to end"
    if wait.state == "queued":
        return f"{who} after a fault{until}" if until else f"{who} for a free slot"
    bucket = "" if wait.bucket in (None, WHOLE_KEY) else f" ({wait.bucket})"
    what = f" for the gate of {wait.gate}{bucket}" if wait.gate else ""
    return f"{who}{what}{until}{said}"

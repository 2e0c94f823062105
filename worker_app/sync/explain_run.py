"""From facts to findings: why a run is where it is, and what holds up its open batches. Pure."""

from collections.abc import Callable, Sequence

from worker_app import jobs, queues, retry
from worker_app.store.explain import BatchFacts, RunFacts
from worker_app.sync.explain_batch import firsts
from worker_app.sync.explain_credentials import credential_findings
from worker_app.sync.explain_findings import (
    Bounds,
    Finding,
    cancelled,
    complete,
    fault,
    leased,
    moment,
    plural,
    short,
    times,
)
from worker_app.sync.explain_fleet import Fleet, Wanted
from worker_app.sync.explain_message import Waiting, message_findings

FIRST_TASKS = {  # kind of run -> the task that takes it up
    "sync": "dispatch_sync_run",
    "metrics": "compute_daily_metrics",
    "report": "render_report",
}


def run_state(facts: RunFacts) -> str:
    """The state of a run as people see it: one whose released batches all wait for a moment is deferred."""
    is_active = any(facts.counts.get(state) for state in ("queued", "running"))
    is_waiting = facts.state == "running" and facts.counts.get("deferred") and not is_active
    return "deferred" if is_waiting else facts.state


def run_findings(facts: RunFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """Why a run is where it is; at least one, the decisive one first."""
    return complete(run_reasons(facts, fleet, bounds), fleet)


def run_reasons(facts: RunFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """The findings about one run alone, without what is wrong with the fleet as a whole."""
    if facts.state not in jobs.OPEN_STATES:
        return [_ended_run(facts), *credential_findings(facts.credentials, facts.id)]
    found = [*_late(facts), *cancelled(facts.cancel_requested_at, facts.state, bounds)]
    found += _OPEN_RUN[facts.state](facts, fleet, bounds)
    if facts.attempt:
        text = f"its worker was lost {times(facts.attempt)}; at {times(retry.MAX_ATTEMPTS)} it fails"
        found.append(Finding("attempts", text))
    if facts.deadline_at > facts.now:
        text = f"if it is not over by {moment(facts.deadline_at)} it is lost"
        found.append(Finding("deadline", text, until=facts.deadline_at))
    return [*found, *credential_findings(facts.credentials, facts.id)]


def run_waits(facts: RunFacts) -> Waiting | None:
    """The message that a run waits for; None where it waits for none."""
    if facts.state == "finishing" and facts.lease_until is None:
        task: str | None = "finish_sync_run"
    else:
        task = FIRST_TASKS.get(facts.kind) if facts.state == "queued" else None
    if task is None:
        return None
    wanted = Wanted(facts.id, task, queues.TASK_QUEUES[task], facts.wakes)
    return Waiting(wanted, facts.now, facts.armed_at, facts.owed)


def _late(facts: RunFacts) -> list[Finding]:
    if facts.deadline_at > facts.now:
        return []
    text = f"it was to be over by {moment(facts.deadline_at)}; the next rescue closes it as lost"
    again = f"dev-hops runs retry {short(facts.id)}, once it is lost"
    return [Finding("overdue", text, since=facts.deadline_at, remedy=again)]


def _queued_run(facts: RunFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    waits = run_waits(facts)
    if waits is None:
        text = f"it is queued, and this version has no task that takes up a run of kind {facts.kind}"
        return [Finding("unknown_kind", text, since=facts.armed_at)]
    return message_findings(waits, fleet, bounds)


def _planning_run(facts: RunFacts, _: Fleet, bounds: Bounds) -> list[Finding]:
    return [
        leased("planning", "a worker splits it into batches", facts.lease_until, facts.now, bounds, facts.started_at)
    ]


def _finishing_run(facts: RunFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    waits = run_waits(facts)
    if waits is None:
        return [leased("finishing", "a worker closes it", facts.lease_until, facts.now, bounds, facts.armed_at)]
    every = Finding("finishing", "all its batches are closed; its last step is next", since=facts.armed_at)
    return [*message_findings(waits, fleet, bounds), every]


def _running_run(facts: RunFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    if facts.kind in ("metrics", "report"):
        return [leased("running", "a worker computes it", facts.lease_until, facts.now, bounds, facts.started_at)]
    if not facts.batches:
        text = "none of its batches is open; the next rescue counts them and sends it to its end"
        return [Finding("recount", text, since=facts.armed_at), _progress(facts)]
    grouped = _grouped(facts, fleet, bounds)
    is_moving = any(item.code == "running" for item in grouped)
    others = [item for item in grouped if item.code != "running"]
    return [_progress(facts), *others] if is_moving else [*others, _progress(facts)]


_OPEN_RUN: dict[str, Callable[[RunFacts, Fleet, Bounds], list[Finding]]] = {
    "queued": _queued_run,
    "planning": _planning_run,
    "running": _running_run,
    "finishing": _finishing_run,
}


def _progress(facts: RunFacts) -> Finding:
    over = sum(facts.counts.get(state, 0) for state in ("succeeded", "failed", "cancelled"))
    parts = [f"{facts.counts[state]} {state}" for state in jobs.BatchState if facts.counts.get(state)]
    total = sum(facts.counts.values())
    return Finding(
        "running",
        f"{over} of {plural(total, 'batch is', 'batches are')} over ({', '.join(parts) or 'none'})",
        since=facts.started_at,
    )


def _grouped(facts: RunFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """The decisive finding of each open batch, those with the same code as one, the most frequent first.

    Batches that wait for a place come last: the run's own others hold places, and what holds those up holds up these too.
    """
    groups: dict[str, list[tuple[BatchFacts, Finding]]] = {}
    for item in facts.batches:
        every = firsts(item, facts.place, fleet, bounds, in_run=True)
        first = next(finding for finding in every if finding.code != "redis_away")  # the run says that itself
        groups.setdefault(first.code, []).append((item, first))
    ordered = sorted(groups.items(), key=lambda pair: (pair[0] in ("cap", "planned"), -len(pair[1])))
    return [_group(code, members) for code, members in ordered]


def _group(code: str, members: Sequence[tuple[BatchFacts, Finding]]) -> Finding:
    item, first = members[0]
    named = f"batch {short(item.id)} ({item.dataset} of {item.source})"
    how_many = "" if len(members) == 1 else f"{len(members)} batches, for example "
    starts = [finding.since for _, finding in members if finding.since is not None]
    return Finding(code, f"{how_many}{named}: {first.text}", min(starts, default=None), first.until, first.remedy)


def _ended_run(facts: RunFacts) -> Finding:
    at = f" at {moment(facts.finished_at)}" if facts.finished_at else ""
    counted = ", ".join(f"{facts.counts[state]} {state}" for state in jobs.BatchState if facts.counts.get(state))
    batches = f" with {plural(sum(facts.counts.values()), 'batch', 'batches')} ({counted})" if counted else ""
    how = {
        "succeeded": "it succeeded",
        "partial": "it ended in part",
        "failed": "it failed",
        "cancelled": "it ended",
    }
    text = f"{how.get(facts.state, 'it was lost')}{at}{batches}{fault(facts.error_class, facts.error)}"
    return Finding(facts.state, text, since=facts.finished_at, remedy=_run_remedy(facts))


def _run_remedy(facts: RunFacts) -> str | None:
    """What `runs retry` can open again; None where nothing of the run failed."""
    if facts.state not in ("partial", "failed", "lost"):
        return None
    has_failed = facts.counts.get("failed") or (facts.state == "lost" and facts.counts.get("cancelled"))
    if has_failed or not facts.batches_total:
        return f"mend the cause, then dev-hops runs retry {short(facts.id)}"
    return "nothing of it failed: dev-hops sync SOURCE reads again"

"""From facts to findings: why a scheduled job has no run, or not the one that was expected. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from worker_app import errors
from worker_app.store.explain import ActiveRun, JobFacts, Occurrence
from worker_app.store.schedules import Schedule
from worker_app.sync import cron
from worker_app.sync.explain_findings import (
    RESCUE_QUEUE,
    Bounds,
    Finding,
    complete,
    messages,
    moment,
    plural,
    short,
    triggers,
)
from worker_app.sync.explain_fleet import Fleet
from worker_app.sync.explain_run import run_reasons

MEETS = {  # overlap -> what becomes of a slot that comes while a run is active
    "skip": "is skipped",
    "buffer_one": "waits for its end, and a newer one takes its place",
    "cancel_other": "waits for its end, which it asks for, and a newer one takes its place",
    "allow": "gets a run of its own",
}


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """What became of one slot. The field names are public."""

    scheduled_for: datetime
    outcome: str  # minted, buffered, displaced, skipped_overlap, skipped_catchup
    reason: str
    skipped_slots: int  # older slots that this line stands for too
    observed_at: datetime  # when the tick wrote it
    run_id: UUID | None
    run_state: str | None


def job_state(facts: JobFacts) -> str:
    """The state of a scheduled job in one word: paused, quarantined, due or waiting."""
    schedule = facts.schedule
    if not schedule.enabled:
        return "paused"
    if _is_quarantined(facts):
        return "quarantined"
    return "due" if schedule.next_run_at is not None and schedule.next_run_at <= facts.now else "waiting"


def job_findings(facts: JobFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """Why a scheduled job is where it is; at least one, the decisive one first."""
    newest = ledger(facts)[:1]
    found = [*_stopped(facts), *_buffered(facts)]
    run, overlap = _active(facts, fleet, bounds), _overlap(facts)
    is_met = job_state(facts) == "due" or any(line.outcome in ("skipped_overlap", "buffered") for line in newest)
    met = [*overlap, *run] if is_met else [*run, *overlap]
    coming = _next(facts, fleet, bounds)
    is_free = job_state(facts) == "due" and facts.schedule.overlap == "allow"  # no run keeps the slot away
    found += [*coming, *met] if is_free else [*met, *coming]
    found += [_last(line) for line in newest]
    return complete(found, fleet)


def ledger(facts: JobFacts) -> tuple[LedgerLine, ...]:
    """The newest slots with what became of each, in words."""
    return tuple(_line(item, facts.ledger[:index], facts) for index, item in enumerate(facts.ledger))


def _is_quarantined(facts: JobFacts) -> bool:
    until = facts.schedule.quarantined_until
    return until is not None and until > facts.now


def _stopped(facts: JobFacts) -> list[Finding]:
    """That a person or a fault keeps the job from being served."""
    schedule, found = facts.schedule, []
    if not schedule.enabled:
        text = "it is paused; no slot is served until somebody resumes it, and what was missed stays missed"
        found.append(Finding("paused", text, remedy=f"dev-hops schedules resume {short(schedule.id)}"))
    if schedule.fault is not None:
        again = f"dev-hops schedules edit {short(schedule.id)} with another --cron or --tz where that is at fault, else remove it"
        counted = f"{plural(schedule.fault_count, 'try', 'tries')} in a row failed, the last with: {schedule.fault}"
        if schedule.quarantined_until is not None and _is_quarantined(facts):
            text = f"it is set aside until {moment(schedule.quarantined_until)}: {counted}"
            found.append(Finding("quarantined", text, until=schedule.quarantined_until, remedy=again))
        else:
            found.append(Finding("fault", f"{counted}; the next tick tries again", remedy=again))
    return found


def _buffered(facts: JobFacts) -> list[Finding]:
    slot = facts.schedule.buffered_slot
    if slot is None:
        return []
    blocking = _blocking(facts)
    if blocking is None:
        text = f"slot {moment(slot)} waits, and no run is active any more: the next rescue makes it a run"
        return [Finding("buffered", text, since=slot)]
    text = f"slot {moment(slot)} waits for the end of run {short(blocking.id)}, which is {blocking.state}"
    return [Finding("buffered", text, since=slot, remedy=f"dev-hops explain {short(blocking.id)}")]


def _blocking(facts: JobFacts) -> ActiveRun | None:
    return next((run for run in facts.active if run.is_exclusive), None)


def _overlap(facts: JobFacts) -> list[Finding]:
    blocking, overlap = _blocking(facts), facts.schedule.overlap
    if blocking is None or overlap == "allow":
        return []
    text = (
        f"run {short(blocking.id)} is active since {moment(blocking.created_at)} ({blocking.state}); "
        f"with overlap {overlap} a slot that comes meanwhile {MEETS[overlap]}"
    )
    return [Finding("overlap", text, since=blocking.created_at, remedy=f"dev-hops explain {short(blocking.id)}")]


def _active(facts: JobFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """What holds up, or moves, the active run; how many more there are."""
    if facts.run is None:
        return []
    named = f"run {short(facts.run.id)} is {facts.run.state}: "
    found = [
        item if item.code == "redis_away" else replace(item, text=named + item.text)
        for item in run_reasons(facts.run, fleet, bounds)
    ]
    if len(facts.active) > 1:
        shown = ", ".join(f"{short(run.id)} ({run.state})" for run in facts.active[1:4])
        found.append(
            Finding("more_runs", f"{plural(len(facts.active) - 1, 'more run is', 'more runs are')} active: {shown}")
        )
    return found


def _next(facts: JobFacts, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """When the next slot is served, and what keeps the tick from doing it."""
    schedule = facts.schedule
    if not schedule.enabled:
        return []
    if schedule.next_run_at is None:
        return [Finding("no_slot", "it has no next slot", remedy=f"dev-hops schedules resume {short(schedule.id)}")]
    hindered = triggers(fleet)
    if schedule.next_run_at > facts.now:
        return [_not_due(schedule, schedule.next_run_at), *hindered]
    if _is_quarantined(facts):
        return hindered
    lock = [] if facts.lock is None else [_locked(facts)]
    return [*lock, *hindered, _due(schedule.next_run_at, fleet, bounds)]


def _not_due(schedule: Schedule, slot: datetime) -> Finding:
    try:
        local = slot.astimezone(ZoneInfo(cron.check_zone(schedule.tz))).isoformat(timespec="minutes")
        said = f" ({local} {schedule.tz})"
    except errors.UsageError:
        said = f" (zone {schedule.tz} cannot be read)"
    return Finding("not_due", f"its next slot is {moment(slot)}{said}", until=slot)


def _due(slot: datetime, fleet: Fleet, bounds: Bounds) -> Finding:
    depth = fleet.depths.get(RESCUE_QUEUE)
    queued = f"; in queue {RESCUE_QUEUE} {messages(depth.ready)}" if depth is not None and depth.ready else ""
    text = f"slot {moment(slot)} is due and waits for a tick; beat sends one every {bounds.dispatch_interval_seconds} s{queued}"
    return Finding("due", text, since=slot)


def _locked(facts: JobFacts) -> Finding:
    lock = facts.lock
    who = f" ({lock.application})" if lock is not None and lock.application else ""
    since = None if lock is None else lock.since
    began = f", which began at {moment(since)}" if since else ""
    text = f"another transaction{who} holds its row{began}; a tick skips what somebody holds"
    return Finding("locked", text, since=since)


def _last(line: LedgerLine) -> Finding:
    return Finding(
        line.outcome, f"its last slot was {moment(line.scheduled_for)}: {line.reason}", since=line.observed_at
    )


def _line(item: Occurrence, newer: Sequence[Occurrence], facts: JobFacts) -> LedgerLine:
    outcome, reason = _became(item, newer, facts)
    if item.outcome != "buffered" and item.skipped_slots:
        reason += f"; {plural(item.skipped_slots, 'older slot was', 'older slots were')} folded into it"
    return LedgerLine(
        item.scheduled_for, outcome, reason, item.skipped_slots, item.observed_at, item.run_id, item.run_state
    )


def _became(item: Occurrence, newer: Sequence[Occurrence], facts: JobFacts) -> tuple[str, str]:
    run = "a run" if item.run_id is None else f"run {short(item.run_id)}"
    state = f", which is {item.run_state}" if item.run_state else ", which is not kept any more"
    if item.outcome == "minted":
        return "minted", f"became {run}{state}"
    if item.outcome == "skipped_overlap":
        had = f"it had {run} already{state}" if item.run_id else "a run of the schedule was active"
        return "skipped_overlap", had
    if item.outcome == "skipped_catchup":
        late = int((item.observed_at - item.scheduled_for).total_seconds())
        return "skipped_catchup", f"a tick saw it {late} s after its time: too old for catch-up"
    return _waited(item, newer, facts, f"became {run}{state}")


def _waited(item: Occurrence, newer: Sequence[Occurrence], facts: JobFacts, became: str) -> tuple[str, str]:
    """What became of a slot that met an active run and waited. A newer one that counts a skipped slot took its place."""
    if item.run_id is not None:
        return "buffered", f"waited for an active run, then {became}"
    blocking = _blocking(facts)
    if facts.schedule.buffered_slot == item.scheduled_for:
        return "buffered", "waits for " + ("a rescue" if blocking is None else f"the end of run {short(blocking.id)}")
    after = next((other for other in reversed(newer) if other.outcome == "buffered"), None)
    if after is not None and after.skipped_slots:
        return "displaced", f"waited for an active run until slot {moment(after.scheduled_for)} took its place"
    return "displaced", "waited for an active run and was let go without a run, as pausing a schedule does"

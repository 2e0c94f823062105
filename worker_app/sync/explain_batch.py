"""From facts to findings: why a batch is where it is. Pure."""

import shlex
from collections.abc import Mapping
from typing import Any

from worker_app import retry
from worker_app.gate.key import WHOLE_KEY, Reason
from worker_app.store.explain import BatchFacts, Place
from worker_app.sync.explain_credentials import credential_findings
from worker_app.sync.explain_findings import (
    Bounds,
    Finding,
    cancelled,
    complete,
    countdown,
    fault,
    leased,
    moment,
    plural,
    short,
)
from worker_app.sync.explain_fleet import Fleet, Wanted
from worker_app.sync.explain_message import Waiting, message_findings

HOLDERS_SHOWN = 3  # runs that hold places
BLOCKED = {  # why a gate that is not closed lets a request wait, in words
    Reason.QUOTA: "what is left of the quota is kept for more urgent work, or nothing is left",
    Reason.PROBE: "one request is under way to find out what is left of the quota",
    Reason.CONCURRENCY: "as many requests are under way as there may be",
    Reason.PACE: "the next request is due later",
}


def batch_findings(facts: BatchFacts, place: Place | None, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """Why a batch is where it is; at least one, the decisive one first. `place`: who holds the places of its provider."""
    return complete(firsts(facts, place, fleet, bounds), fleet)


def batch_waits(facts: BatchFacts) -> Waiting | None:
    """The message that a batch waits for; None where it waits for none, or not yet."""
    is_early = facts.not_before is not None and facts.not_before > facts.now
    if facts.state not in ("queued", "deferred") or is_early:
        return None
    wanted = Wanted(facts.id, "run_sync_batch", facts.queue, facts.wakes)
    waits_since = max(facts.armed_at, facts.not_before or facts.armed_at)  # as rescue counts
    return Waiting(wanted, facts.now, waits_since, facts.owed)


def firsts(
    facts: BatchFacts, place: Place | None, fleet: Fleet, bounds: Bounds, *, in_run: bool = False
) -> list[Finding]:
    """The findings about one batch alone; `in_run`: beside those of its run, which says what is true of all its batches."""
    planned = [] if facts.credential is None or in_run else credential_findings([facts.credential], facts.run_id)
    if facts.state in ("succeeded", "failed", "cancelled"):
        return [_ended_batch(facts), *(planned if facts.state == "failed" else [])]
    found = {"planned": _planned_batch, "running": _running_batch}.get(facts.state, _waiting_batch)(
        facts, place, fleet, bounds
    )
    if not in_run:  # there the run says it
        found = [*found, *cancelled(facts.cancel_requested_at, "running", bounds)]
    if facts.attempt:
        last = f"; the last fault: {facts.error}" if facts.error else ""
        text = f"{facts.attempt} of {retry.MAX_ATTEMPTS} attempts are spent{last}"
        found.append(Finding("attempts", text))
    return [*found, *planned]


def _planned_batch(facts: BatchFacts, place: Place | None, _: Fleet, bounds: Bounds) -> list[Finding]:
    released = 0 if place is None else place.released
    if place is not None and released >= bounds.cap:
        shown = ", ".join(f"run {short(run)} ({number})" for run, number in place.holders[:HOLDERS_SHOWN])
        more = f" and {len(place.holders) - HOLDERS_SHOWN} more" if len(place.holders) > HOLDERS_SHOWN else ""
        waits = f", {place.deferred} of them deferred" if place.deferred else ""
        text = f"all {bounds.cap} places of {facts.provider} in {facts.org} are taken ({released} released{waits}): {shown}{more}"
        # More places would only let more batches wait for the same gate.
        remedy = "dev-hops gate list" if place.deferred == released else "wait, or raise SYNC_CONCURRENCY_PER_PROVIDER"
        full = Finding("cap", text, since=facts.armed_at, remedy=remedy)
        return [*_rival(facts), full]
    text = (
        f"{released} of {bounds.cap} places of {facts.provider} in {facts.org} are taken; it is let in when a batch there ends, "
        f"or by the next rescue (one comes every {bounds.rescue_interval_seconds} s)"
    )
    return [*_rival(facts), Finding("planned", text, since=facts.armed_at)]


def _waiting_batch(facts: BatchFacts, _: Place | None, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """Of a batch that is queued or deferred."""
    waits = batch_waits(facts)
    if waits is None:
        return [_deferred(facts) if facts.state == "deferred" else _backoff(facts)]
    return [*_rival(facts), *message_findings(waits, fleet, bounds)]


def _running_batch(facts: BatchFacts, _: Place | None, __: Fleet, bounds: Bounds) -> list[Finding]:
    text = f"a worker reads it: {plural(facts.pages, 'page', 'pages')}, {plural(facts.records, 'record', 'records')} so far"
    return [leased("running", text, facts.lease_until, facts.now, bounds, facts.started_at)]


def _rival(facts: BatchFacts) -> list[Finding]:
    if facts.rival is None:
        return []
    rival = facts.rival
    text = (
        f"batch {short(rival.id)} of run {short(rival.run_id)} reads {facts.dataset} of {facts.source} under a lease until "
        f"{moment(rival.lease_until)}; two never read the same at once"
    )
    return [Finding("same_source", text, remedy=f"dev-hops explain {short(rival.id)}")]


def _deferred(facts: BatchFacts) -> Finding:
    """Of a batch that stands back until its moment has come; what keeps it is what was noted when it was sent away."""
    reason = facts.defer_reason or {}
    until = f" until {moment(facts.not_before)} ({_left(facts)})" if facts.not_before else ""
    if "gate" in reason:
        text = f"{_gate(reason, until)}; that spends no attempt"
        return Finding("gate", text, facts.armed_at, facts.not_before, _show_gate(facts, reason))
    said = reason.get("detail") or ", ".join(f"{name} {value}" for name, value in sorted(reason.items()))
    text = f"it waits{until}: {said or 'no reason was noted'}; that spends no attempt"
    remedy = "look at REDIS_URL, and whether Redis runs" if reason.get("reason") == Reason.OUTAGE else None
    return Finding("deferred", text, facts.armed_at, facts.not_before, remedy)


def _gate(reason: Mapping[str, Any], until: str) -> str:
    """Which gate sent a batch away, and in the provider's own words why."""
    bucket, because = reason.get("bucket", WHOLE_KEY), reason.get("reason", Reason.WINDOW)
    what = "" if bucket == WHOLE_KEY else f" for {bucket}"
    said = f": {reason['detail']}" if reason.get("detail") else ""
    if because == Reason.WINDOW:
        return f"the gate of {reason['gate']} is closed{what}{until}{said}"
    return f"the gate of {reason['gate']} lets it wait{what}{until}: {BLOCKED.get(because, because)}{said}"


def _show_gate(facts: BatchFacts, reason: Mapping[str, Any]) -> str:
    host = str(reason["gate"]).rpartition(" on ")[2]
    key = f"{facts.provider}/{facts.org}/{host}"
    return f"dev-hops gate show {shlex.quote(key)}"


def _left(facts: BatchFacts) -> str:
    assert facts.not_before is not None
    return countdown((facts.not_before - facts.now).total_seconds())


def _backoff(facts: BatchFacts) -> Finding:
    why = f" after a fault: {facts.error}" if facts.error else ""
    until = f" until {moment(facts.not_before)}" if facts.not_before else ""
    return Finding("backoff", f"it pauses{until}{why}", facts.armed_at, facts.not_before)


def _ended_batch(facts: BatchFacts) -> Finding:
    at = f" at {moment(facts.finished_at)}" if facts.finished_at else ""
    how = {"succeeded": "it succeeded", "failed": "it failed"}.get(facts.state, "it was cancelled")
    read = f", {plural(facts.pages, 'page', 'pages')} and {plural(facts.records, 'record', 'records')} read"
    cut = f"; not all there was: {facts.incomplete_reason}" if facts.incomplete_reason else ""
    again = f"mend the cause; when its run is over, dev-hops runs retry {short(facts.run_id)}"
    remedy = again if facts.state == "failed" else None
    text = f"{how}{at}{read}{cut}{fault(facts.error_class, facts.error)}"
    return Finding(facts.state, text, since=facts.finished_at, remedy=remedy)

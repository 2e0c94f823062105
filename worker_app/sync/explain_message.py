"""From facts to findings: where the message is that a run or a batch waits for, and what keeps it there. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from worker_app.store.explain import Owed
from worker_app.sync.explain_findings import Bounds, Finding, messages, moment, no_consumer, plural, redis_away, times
from worker_app.sync.explain_fleet import SEARCHED_MOST, Fleet, Wanted


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run or a batch that waits for a message, and which one."""

    wanted: Wanted
    now: datetime
    armed_at: datetime
    owed: Owed | None


def message_findings(waits: Waiting, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """Where a message is that a run or a batch waits for."""
    owed = waits.owed
    if owed is None:
        return _published(waits, fleet, bounds)
    if owed.available_at > waits.now:
        if waits.wanted.wakes > 1:  # jitter holds back the first message alone
            text = (
                f"it waits until {moment(owed.available_at)}: another run is at work on the same; no attempt is spent"
            )
            return [Finding("deferred", text, since=waits.armed_at, until=owed.available_at)]
        text = (
            f"its message is held back until {moment(owed.available_at)}, so that those due in the same minute spread"
        )
        return [Finding("jitter", text, since=waits.armed_at, until=owed.available_at)]
    return [*_unpublishable(waits.wanted.queue, fleet, bounds), _in_outbox(waits.now, owed)]


def _unpublishable(queue: str, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """Why no relay can take an owed message to Redis now; empty where nothing is known to hinder it."""
    found = []
    if fleet.workers is None:
        return [redis_away(fleet)] if fleet.away else []
    if not any(worker.fleet in fleet.publishing for worker in fleet.workers):
        named = " or ".join(fleet.publishing)
        text = f"no worker of fleet {named} is there, and only those take messages from the outbox to Redis"
        found.append(Finding("no_relay", text, remedy=f"dev-hops worker --fleet {fleet.publishing[0]}"))
    depth = fleet.depths.get(queue)
    if depth is not None and depth.ready >= bounds.outbox_max_depth:
        full = plural(depth.ready, "message", "messages")
        text = f"queue {queue} holds {full}; from {bounds.outbox_max_depth} on, the rest waits in Postgres"
        found.append(Finding("queue_full", text, remedy="dev-hops queues"))
    return found


def _in_outbox(now: datetime, owed: Owed) -> Finding:
    taken = f"; a relay has taken it {times(owed.attempts)}" if owed.attempts else "; no relay has taken it yet"
    is_held = owed.claimed_until is not None and owed.claimed_until >= now
    held = f" and holds it until {moment(owed.claimed_until)}" if is_held and owed.claimed_until else ""
    text = f"its message waits in the outbox since {moment(owed.available_at)}{taken}{held}"
    return Finding("outbox", text, since=owed.available_at)


def _published(waits: Waiting, fleet: Fleet, bounds: Bounds) -> list[Finding]:
    """Of a message that the outbox does not owe any more."""
    wanted = waits.wanted
    depth = fleet.depths.get(wanted.queue)
    if depth is None:
        why = f": {fleet.away}" if fleet.away else ""
        text = f"its message left the outbox for queue {wanted.queue}; where it is now is not known{why}"
        return [Finding("published", text, since=waits.armed_at)]
    if wanted.subject in fleet.taken:
        text = f"a worker has taken its message from queue {wanted.queue} and not settled it yet"
        return [Finding("taken", text, since=waits.armed_at)]
    ahead = fleet.ahead.get(wanted.subject)
    if ahead is None and wanted.queue in fleet.searched:
        return [_lost(waits, fleet, bounds), *no_consumer(wanted.queue, fleet)]
    age = "" if depth.oldest_age_seconds is None else f", the oldest for {depth.oldest_age_seconds:.0f} s"
    load = f"{messages(depth.ready)} there{age}; {plural(depth.running, 'task of it runs', 'tasks of it run')}"
    if ahead is None:
        text = (
            f"its message left the outbox and is not among the oldest {SEARCHED_MOST} of queue {wanted.queue}: {load}"
        )
        return [*no_consumer(wanted.queue, fleet), Finding("not_seen", text, since=waits.armed_at)]
    text = f"its message is in queue {wanted.queue}, {plural(ahead, 'message', 'messages')} before it: {load}"
    return [*no_consumer(wanted.queue, fleet), Finding("in_queue", text, since=waits.armed_at)]


def _lost(waits: Waiting, fleet: Fleet, bounds: Bounds) -> Finding:
    text = f"its message left the outbox, and neither queue {waits.wanted.queue} nor a worker has it: "
    if fleet.is_emptied:
        every = f"one comes every {bounds.rescue_interval_seconds} s"
        text += (
            f"Redis is not as the last rescue saw it and may have lost messages; the next one arms it again ({every})"
        )
        return Finding("lost_message", text, since=waits.armed_at)
    again = waits.armed_at + timedelta(seconds=2 * bounds.visibility_timeout_seconds)
    text += f"the first rescue after {moment(again)} arms it again"
    return Finding("lost_message", text, since=waits.armed_at, until=max(again, waits.now))

"""What an explanation is made of: findings with public codes, and the words and rules that runs, batches and jobs share. Pure.

A sentence says what the facts say and no more; what nobody could read is not concluded from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from worker_app import fleets, queues
from worker_app.fleets import BUILT_IN, Fleets
from worker_app.sync.explain_fleet import Fleet

NEEDS_RESCUE = frozenset(
    {"lease_over", "lost_message", "planned", "recount", "cancel_requested", "overdue"}
)  # the way out of these
RESCUE_QUEUE = queues.TASK_QUEUES["rescue"]  # and of ticks

CLASSES = {  # of errors, in words
    "UsageError": "it asks for what does not exist or cannot be",
    "SourceUnavailable": "its source cannot be read",
    "PermanentError": "another try cannot help until somebody changes something",
    "TransientError": "a fault that another try may overcome",
    "WalkLost": "what it was reading was replaced while it read",
    "StoreAway": "a store did not answer",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason, or one fact beside it. The field names and the codes are public."""

    code: str
    text: str
    since: datetime | None = None
    until: datetime | None = None  # when it ends by itself, where that is known
    remedy: str | None = None  # what a person can do; None: nothing is needed


@dataclass(frozen=True, slots=True)
class Bounds:
    """The settings that an explanation reckons with, as they are where it is asked for; times are seconds."""

    cap: int
    outbox_max_depth: int
    dispatch_interval_seconds: int
    rescue_interval_seconds: int
    visibility_timeout_seconds: int
    fleets: Fleets = field(default_factory=lambda: BUILT_IN)


def complete(found: Sequence[Finding], fleet: Fleet) -> list[Finding]:
    """The findings, with what the way out of them depends on and with a Redis that is away; each once.

    Where the decisive one waits for a rescue, what keeps rescues from coming decides.
    """
    hindered = triggers(fleet) if any(item.code in NEEDS_RESCUE for item in found) else []
    is_decisive = bool(found) and found[0].code in NEEDS_RESCUE
    every = [*hindered, *found] if is_decisive else [*found, *hindered]
    if fleet.away is not None:
        every.append(redis_away(fleet))
    return list(dict.fromkeys(every))


def triggers(fleet: Fleet) -> list[Finding]:
    """What keeps ticks and rescues from coming; empty where nothing is known to."""
    found = []
    if fleet.is_beat_there is False:
        found.append(
            Finding(
                "no_beat",
                "no beat holds the lock dev-hops/beat, so nobody sends ticks and rescues",
                remedy="dev-hops beat",
            )
        )
    return [*found, *no_consumer(RESCUE_QUEUE, fleet)]


def no_consumer(queue: str, fleet: Fleet) -> list[Finding]:
    """That no worker takes from a queue, where that is known."""
    depth, name = fleet.depths.get(queue), next(iter(fleets.consuming(fleet.known, queue)), None)
    if depth is None or depth.consumers:
        return []
    text = f"no worker takes from queue {queue}, in which {messages(depth.ready)}"
    return [Finding("no_consumer", text, remedy=None if name is None else f"dev-hops worker --fleet {name}")]


def redis_away(fleet: Fleet) -> Finding:
    """That Redis did not answer."""
    text = f"{fleet.away}: what it alone knows is missing here; Postgres's part stands"
    return Finding("redis_away", text, remedy="look at REDIS_URL and CELERY_BROKER_URL, and whether Redis runs")


def leased(
    code: str, text: str, lease_until: datetime | None, now: datetime, bounds: Bounds, since: datetime | None
) -> Finding:
    """Of something that a worker holds, or held: a lease that nobody renewed is over."""
    if lease_until is None:
        return Finding("no_lease", f"it is {code}, and nobody holds a lease on it", since=since)
    if lease_until >= now:
        return Finding(code, f"{text}; its lease holds until {moment(lease_until)}", since=since, until=lease_until)
    over = (
        f"its worker has not renewed the lease, which ended at {moment(lease_until)}; the next rescue arms it again "
        f"(one comes every {bounds.rescue_interval_seconds} s)"
    )
    return Finding("lease_over", over, since=lease_until)


def cancelled(asked_at: datetime | None, state: str, bounds: Bounds) -> list[Finding]:
    """That somebody asked a run to end, and how that comes about; `state` is the run's."""
    if asked_at is None:
        return []
    how = {
        "queued": f"the next rescue closes it (one comes every {bounds.rescue_interval_seconds} s)",
        "planning": "it gets no batches once its worker sees that",
        "finishing": "its batches are closed, only its own end is missing",
    }.get(state, "what runs ends at its next page, what has not begun is closed")
    return [Finding("cancel_requested", f"somebody asked for its end at {moment(asked_at)}: {how}", since=asked_at)]


def fault(error_class: str | None, error: str | None) -> str:
    """The class in words, where the error does not say it itself, and the error."""
    found = [item for item in (CLASSES.get(error_class or ""), error) if item]
    return f": {': '.join(found)}" if found else ""


def moment(at: datetime) -> str:
    """An instant as a person reads it."""
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def countdown(seconds: float) -> str:
    """A wait as a person reads it, rounded up: `58 s`, `2 min 5 s`, `1 h 3 min`."""
    whole = max(0, math.ceil(seconds))
    if whole < 3600:
        parts = ((whole // 60, "min"), (whole % 60, "s"))
    else:
        minutes = math.ceil(whole / 60)
        parts = ((minutes // 60, "h"), (minutes % 60, "min"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def short(item: UUID) -> str:
    """The beginning of an id that people name it by."""
    return str(item)[:8]


def times(number: int) -> str:
    """`number` as how often."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def messages(ready: int) -> str:
    """How many messages wait, as the end of a sentence."""
    return {0: "no message waits", 1: "1 message waits"}.get(ready, f"{ready} messages wait")


def plural(number: int, one: str, many: str) -> str:
    """`number` with its noun."""
    return f"{number} {one if number == 1 else many}"

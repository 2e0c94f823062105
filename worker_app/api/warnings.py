"""Warnings: what of a status needs a person, each as one sentence with its remedy. Pure: a status in, sentences out."""

from collections.abc import Iterator, Sequence

from worker_app.api import readable
from worker_app.fleets import BUILT_IN, Fleets
from worker_app.migrate.status import USABLE
from worker_app.migrate.status import Status as Schema
from worker_app.queue_depth import QueueDepth
from worker_app.store.overview import Overview

UNREADABLE = ("sso_required", "inaccessible", "gone")  # states of a source that nobody can read
OUTBOX_LATE_SECONDS = 60.0  # the relay looks every 12 s; a message that has waited this long has no relay


def of_schema(schema: Schema) -> Iterator[str]:
    """A schema that this program cannot use."""
    if schema.state not in USABLE:
        yield schema.message


def of_queues(depths: Sequence[QueueDepth], known: Fleets = BUILT_IN) -> Iterator[str]:
    """Queues that nobody consumes, one sentence per fleet."""
    for fleet, names in known.items():
        alone = [item for item in depths if item.queue in names and item.consumers == 0]
        if alone:
            ready = sum(item.ready for item in alone)
            waiting = f", where {readable.count(ready)} messages wait" if ready else ""
            listed = ", ".join(item.queue for item in alone)
            yield f"nobody consumes {listed}{waiting}: start a worker, `dev-hops worker --fleet {fleet}`"


def of_gates(has_answered: bool) -> Iterator[str]:
    """A gate whose Redis is away, where it is another one than the broker's."""
    if not has_answered:
        yield "the gate's Redis does not answer, so each worker keeps to its share of the limits: look at REDIS_URL"


def of_beat(is_there: bool | None) -> Iterator[str]:
    """No beat; nothing is said where nobody could look."""
    if is_there is False:
        yield "no beat holds the lock, so nobody sends ticks and rescues: start one, `dev-hops beat`"


def of_work(work: Overview, latest_lag_seconds: float) -> Iterator[str]:
    """Sources that cannot be read, schedules with a fault, and messages or slots that nobody serves."""
    if unreadable := {state: n for state, n in work.source_states.items() if state in UNREADABLE}:
        yield f"sources cannot be read ({readable.states(unreadable)}): their reasons stand below"
    if faulted := work.schedule_states.get("faulted"):
        yield f"schedules are set aside with a fault ({faulted}): mend each, then `dev-hops schedules resume ID`"
    if work.schedule_lag_seconds > latest_lag_seconds:
        yield f"a slot is {readable.duration(work.schedule_lag_seconds)} late: look whether beat and a worker run"
    if work.outbox.oldest_age_seconds > OUTBOX_LATE_SECONDS:
        age = readable.duration(work.outbox.oldest_age_seconds)
        yield f"a message has been owed for {age}: look whether a worker of fleet worker runs and reaches Redis"

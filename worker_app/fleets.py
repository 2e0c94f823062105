"""Fleets: which fleet consumes which queues. The text of DEV_HOPS_FLEETS, or the three that are built in.

One map serves every role, so that workers, API, doctor and autoscaler mean the same by the name of a fleet.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from worker_app import queues

Fleets = Mapping[str, tuple[str, ...]]  # name -> queues, both in the order in which they were given

BUILT_IN: Fleets = queues.FLEETS
DEFAULT = "worker"  # of a process that names no fleet
ORDERED = "ingest"  # its records have an order, which a second consumer would break
NAME = re.compile(r"[a-z][a-z0-9-]*")
# Tasks of these commit what is owed to Redis, so their workers publish too.
OWING = ("scheduler", "sync")


def parse(text: str) -> dict[str, tuple[str, ...]]:
    """The fleets of `name=queue,queue;name=queue`. Raises ValueError with every fault in one line."""
    pairs = [_entry(entry) for entry in text.split(";") if entry.strip()]
    if faults := [*_faults_of_names([name for name, _ in pairs]), *_faults_of_queues(pairs)]:
        raise ValueError(f"it is `name=queue,queue;name=queue`: {'; '.join(faults)}")
    return dict(pairs)


def text_of(fleets: Fleets) -> str:
    """The text that `parse` reads as these fleets."""
    return ";".join(f"{name}={','.join(consumed)}" for name, consumed in fleets.items())


def consuming(fleets: Fleets, queue: str) -> tuple[str, ...]:
    """The fleets that consume a queue, in their order; none for a queue that is not ours."""
    return tuple(name for name, consumed in fleets.items() if queue in consumed)


def publishes(consumed: Sequence[str]) -> bool:
    """Whether the workers of a fleet with these queues run the relay: their tasks commit what is owed."""
    return any(queue in OWING or queue.startswith(queues.BATCH_PREFIX) for queue in consumed)


def _entry(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, listed = text.partition("=")
    return name.strip(), tuple(queue.strip() for queue in listed.split(",") if queue.strip())


def _faults_of_names(names: Sequence[str]) -> Iterator[str]:
    for name, number in Counter(names).items():
        if not NAME.fullmatch(name):
            yield f"{name!r} is no name of a fleet: small letters, digits and hyphens, a letter first"
        if number > 1:
            yield f"fleet {name} is there {number} times: keep one"


def _faults_of_queues(pairs: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    consumers = Counter(queue for _, consumed in pairs for queue in set(consumed))
    for name, consumed in pairs:
        if not consumed:
            yield f"fleet {name} consumes nothing: name a queue behind its ="
        if twice := [queue for queue, number in Counter(consumed).items() if number > 1]:
            yield f"fleet {name} names {', '.join(twice)} twice: keep one"
    if unknown := [queue for queue in consumers if queue not in queues.ALL_QUEUES]:
        yield f"no such queue: {', '.join(sorted(unknown))}; there are {', '.join(queues.ALL_QUEUES)}"
    if alone := [queue for queue in queues.ALL_QUEUES if queue not in consumers]:
        yield f"no fleet consumes {', '.join(alone)}: give each of them to one"
    if consumers[ORDERED] > 1:
        yield f"{ORDERED} is in {consumers[ORDERED]} fleets: its records have an order, so give it to one"

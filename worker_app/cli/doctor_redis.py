"""What the doctor asks Redis: whether it may lose messages, lets everybody in, and holds lists that nobody counts.

Each check is a verdict and what was seen, with a fault also the remedy. A Redis that does not tell is no fault: it says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import redis

from worker_app import broker_health
from worker_app.broker_health import SAFE_POLICY, Capacity
from worker_app.fleets import Fleets
from worker_app.queue_depth import QueueDepth, Worker

Verdict = tuple[bool, str]

CONNECTIONS_BESIDE = 100  # clients of Redis that are no workers
PER_WORKER = "2 x slots + 15"


def policy(found: Capacity) -> Verdict:
    """Whether Redis throws messages away when it is full."""
    if found.eviction_policy is None:
        return True, f"Redis does not tell: look whether maxmemory-policy is {SAFE_POLICY}"
    if found.is_policy_safe:
        return True, found.eviction_policy
    return False, f"{found.eviction_policy}: a broker that evicts loses messages; set maxmemory-policy {SAFE_POLICY}"


def persistence(client: redis.Redis) -> Verdict:
    """Whether messages outlive a restart of Redis. Raises RedisError."""
    try:
        told: Any = client.config_get("appendonly")
    except redis.ResponseError:
        told = {}
    if (value := told.get("appendonly")) is None:
        return True, "Redis does not tell: look whether it keeps an append-only file"
    has_log = str(value) == "yes"
    return has_log, "appendonly yes" if has_log else "appendonly no: a restart delays every message; set appendonly yes"


def clients(found: Capacity, present: Sequence[Worker]) -> Verdict:
    """Whether all connections that the workers may open are let in."""
    needed = sum(2 * worker.slots + 15 for worker in present) + CONNECTIONS_BESIDE
    text = f"{len(present)} workers x ({PER_WORKER}) + {CONNECTIONS_BESIDE} = {needed}"
    if found.max_clients is None:
        return True, f"{text}; Redis does not tell how many it lets in"
    told = f"{text} of maxclients {found.max_clients}"
    return needed <= found.max_clients, told if needed <= found.max_clients else f"{told}: raise maxclients"


def priorities(client: redis.Redis) -> Verdict:
    """Whether a producer sends with priorities, whose lists no number shows. Raises StoreAway."""
    return told_strays(broker_health.stray_lists(client))


def told_strays(found: Mapping[str, int]) -> Verdict:
    """The verdict on messages in lists of a priority, by queue."""
    if not found:
        return True, "no message has a priority"
    listed = ", ".join(f"{number} of {queue}" for queue, number in found.items())
    return False, (
        f"messages with a priority stand in lists of their own, which no depth and no autoscaler counts: {listed}; "
        "let their producer send them without a priority"
    )


def consumers(found: Sequence[QueueDepth], fleets: Fleets) -> Verdict:
    """Whether each queue has a worker."""
    alone = [item.queue for item in found if item.consumers == 0]
    if not alone:
        return True, f"all {len(found)} queues are consumed"
    wanted = [name for name, consumed in fleets.items() if set(consumed) & set(alone)]
    return False, f"nobody consumes {', '.join(alone)}: start a worker of fleet {', '.join(sorted(wanted))}"

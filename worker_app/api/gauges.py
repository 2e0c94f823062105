"""Gauges: how what was read of the stores is told, one function for each source. A label that is gone is told no more."""

import time
from collections.abc import Mapping, Sequence

from prometheus_client import Gauge

from worker_app import queues, telemetry
from worker_app.broker_health import Capacity, Unacked
from worker_app.queue_depth import FleetDepth, QueueDepth
from worker_app.store.freshness import WatermarkAge
from worker_app.sync.gates import GateView

QUEUES = (telemetry.QUEUE_READY, telemetry.QUEUE_OLDEST_AGE, telemetry.QUEUE_RUNNING, telemetry.QUEUE_CONSUMERS)
UNACKED = (telemetry.UNACKED_MESSAGES, telemetry.UNACKED_OLDEST_AGE)
FLEETS = (telemetry.FLEET_WORK, telemetry.FLEET_SLOTS, telemetry.FLEET_OLDEST_AGE, telemetry.QUEUE_HELD)
GATES = (telemetry.GATE_CLOSED, telemetry.GATE_RESUME, telemetry.GATE_BUDGET)
FRESHNESS = (telemetry.DEFERRED_BATCHES, telemetry.WATERMARK_AGE, telemetry.SLOTS_BEHIND)
CAPACITY = (telemetry.REDIS_POLICY_OK, telemetry.REDIS_CLIENTS_RATIO)
ALL = (QUEUES, UNACKED, FLEETS, GATES, FRESHNESS, CAPACITY)


def tell_queues(found: Sequence[QueueDepth]) -> tuple[Gauge, ...]:
    """The queues; the age of a foreign message, which nobody knows, is left out."""
    _clear(QUEUES)
    for item in found:
        telemetry.QUEUE_READY.labels(item.queue).set(item.ready)
        telemetry.QUEUE_RUNNING.labels(item.queue).set(item.running)
        telemetry.QUEUE_CONSUMERS.labels(item.queue).set(item.consumers)
        if item.oldest_age_seconds is not None or not item.ready:
            telemetry.QUEUE_OLDEST_AGE.labels(item.queue).set(item.oldest_age_seconds or 0.0)
    return QUEUES


def tell_unacked(found: Unacked) -> tuple[Gauge, ...]:
    """What is taken and not settled."""
    telemetry.UNACKED_MESSAGES.set(found.messages)
    telemetry.UNACKED_OLDEST_AGE.set(found.oldest_age_seconds)
    return UNACKED


def tell_capacity(found: Capacity) -> tuple[Gauge, ...]:
    """What the broker keeps and lets in; what it does not tell is left out."""
    told = []
    if found.is_policy_safe is not None:
        telemetry.REDIS_POLICY_OK.set(int(found.is_policy_safe))
        told.append(telemetry.REDIS_POLICY_OK)
    if found.clients_ratio is not None:
        telemetry.REDIS_CLIENTS_RATIO.set(found.clients_ratio)
        told.append(telemetry.REDIS_CLIENTS_RATIO)
    return tuple(told)


def tell_fleets(found: Sequence[FleetDepth], depths: Sequence[QueueDepth]) -> tuple[Gauge, ...]:
    """The fleets, and what is held back of each queue."""
    _clear(FLEETS)
    for fleet in found:
        telemetry.FLEET_WORK.labels(fleet.fleet).set(fleet.work)
        telemetry.FLEET_SLOTS.labels(fleet.fleet).set(fleet.slots)
        if fleet.oldest_age_seconds is not None:
            telemetry.FLEET_OLDEST_AGE.labels(fleet.fleet).set(fleet.oldest_age_seconds)
    for item in depths:
        telemetry.QUEUE_HELD.labels(item.queue).set(item.held or 0)
    return FLEETS


def tell_gates(found: Sequence[GateView]) -> tuple[Gauge, ...]:
    """Over all organisations: how many keys are closed, when the last one opens, and the least that is left.

    `found` begins with what is closed, the longest wait first.
    """
    _clear(GATES)
    closed = {view.key for view in found if view.is_closed}
    for key in {view.key for view in found}:
        telemetry.GATE_CLOSED.labels(key.provider, key.host).inc(key in closed)
    now = time.time()
    for view in reversed(found):  # the longest wait comes last
        if view.is_closed:
            telemetry.GATE_RESUME.labels(view.provider, view.host).set(now + view.retry_in)
    for view in sorted(found, key=lambda view: view.remaining or 0, reverse=True):  # the least comes last
        if view.remaining is not None:
            telemetry.GATE_BUDGET.labels(view.provider, view.host, view.bucket).set(view.remaining)
    return GATES


def tell_freshness(deferred: Mapping[str, int], ages: Sequence[WatermarkAge]) -> tuple[Gauge, ...]:
    """What waits of each provider, and how far behind each of its datasets is."""
    _clear(FRESHNESS)
    for provider in queues.PROVIDERS:
        telemetry.DEFERRED_BATCHES.labels(provider).set(deferred.get(provider, 0))
    for item in ages:
        telemetry.WATERMARK_AGE.labels(item.provider, item.dataset).set(item.age_seconds)
        telemetry.SLOTS_BEHIND.labels(item.provider, item.dataset).set(item.slots)
    return FRESHNESS


def _clear(gauges: Sequence[Gauge]) -> None:
    for gauge in gauges:
        gauge.clear()

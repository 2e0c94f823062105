"""Share: what one worker may take of everything while nobody counts for all of them."""

from dataclasses import replace

from worker_app.gate.book import Ask, BucketAsk, Told
from worker_app.gate.signals import RateSignal


def part(number: int, workers: int) -> int:
    """One worker's part of a number, at least 1."""
    return max(1, number // workers)


def shared_ask(ask: Ask, limit: int, workers: int) -> Ask:
    """The same request under one worker's share: of the requests under way, of a burst, and a gap as many times as long."""
    buckets = tuple(
        BucketAsk(
            item.name,
            replace(item.policy, gap=item.policy.gap * workers, burst=part(item.policy.burst, workers)),
            item.cost,
            item.is_silent,
        )
        for item in ask.buckets
    )
    return replace(ask, max_conc=part(limit, workers), buckets=buckets)


def shared_signal(signal: RateSignal, workers: int) -> RateSignal:
    """The same reply with one worker's share of what it says is left."""
    quotas = tuple(
        replace(
            quota,
            limit=quota.limit and part(quota.limit, workers),
            remaining=None if quota.remaining is None else quota.remaining // workers,
        )
        for quota in signal.quotas
    )
    return replace(signal, quotas=quotas)


def shared_told(told: Told, workers: int) -> Told:
    """The same for a reply as a book is told of it."""
    return replace(told, signal=shared_signal(told.signal, workers), max_conc=part(told.max_conc, workers))

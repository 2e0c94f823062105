"""A request that wants to start, held against what the book in memory knows: the steps of `acquire.lua`, in their order."""

import math

from worker_app.gate.book import Ask, BucketAsk, Held, Waits
from worker_app.gate.key import WHOLE_KEY, Priority, Reason
from worker_app.gate.memory_state import ALONE, YOUNG, State

TICKET, PROBE, PROBE_AGAIN = 15, 50, 5_000  # milliseconds, as in acquire.lua
SHARE = {Priority.INTERACTIVE: 0.0, Priority.SYNC: 0.05, Priority.BULK: 0.15}
LATER = {Priority.INTERACTIVE: 0, Priority.SYNC: 250, Priority.BULK: 1000}


class Blocked(Exception):
    """Ends the steps of one ask; is caught in `memory_book`."""

    def __init__(self, wait_ms: float, reason: Reason, bucket: str) -> None:
        super().__init__(reason)
        self.wait_ms = wait_ms
        self.reason = reason
        self.bucket = bucket


def _names(ask: Ask) -> tuple[str, ...]:
    return (WHOLE_KEY, *(bucket.name for bucket in ask.buckets))


def windows(state: State, ask: Ask, now: int) -> tuple[str | None, int]:
    """The bucket whose open window ends last, and when the last one that is over has ended."""
    closed, ends, ended_at = None, 0, 0
    for name in _names(ask):
        closes = state.get("u", name)
        if closes is not None and closes > now:
            if closes > ends:
                closed, ends = name, closes
        elif closes is not None:
            ended_at = max(ended_at, closes)
    return closed, ended_at


def released(state: State, ask: Ask, closed: str, at: tuple[int, int, int]) -> Waits:
    """Wait for the end of the window of `closed`, at the caller's place in the order of release. `at`: now, cleared, stepped."""
    now, cleared, stepped = at
    generation, held = state.get("g", closed) or 0, ask.held
    if held is None or (held.bucket, held.generation) != (closed, generation):
        ticket = state.numbers.get(f"tk:{closed}", 0)
        state.numbers[f"tk:{closed}"] = ticket + 1
        held = Held(closed, generation, ticket)
    left = state.numbers[f"u:{closed}"] - now
    wait = left + held.ticket * TICKET + LATER[ask.priority]
    text, fails = state.texts.get(f"y:{closed}", ""), state.get("fails", closed) or 0
    return Waits(wait, now, Reason.WINDOW, cleared, stepped, closed, left, held, text, fails)


def quotas(state: State, ask: Ask, now: int) -> tuple[dict[str, int], int | None]:
    """What a grant writes of probes, and what is left of the scarcest quota. Raises Blocked."""
    writes: dict[str, int] = {}
    left: int | None = None
    for bucket in ask.buckets:
        if bucket.policy.model == "none":
            continue
        free = _free(state, bucket, ask, now)
        if free is not None:
            left = free if left is None else min(left, free)
        elif not bucket.is_silent and not (state.get("x", bucket.name) or 0) > now:
            asked_at = state.get("pa", bucket.name) or 0
            if under_way(state, bucket.name) > 0 and now - asked_at < PROBE_AGAIN:
                raise Blocked(PROBE, Reason.PROBE, bucket.name)
            writes[f"pa:{bucket.name}"] = now
    return writes, left


def under_way(state: State, bucket: str) -> int:
    """The cost that requests under way take from a quota."""
    return (state.get("f", bucket) or 0) if state.leases else 0


def _free(state: State, bucket: BucketAsk, ask: Ask, now: int) -> int | None:
    """What may still be used of a quota; None where nobody knows. Raises Blocked where it is too little."""
    name, period = bucket.name, round(bucket.policy.period * 1000)
    limit, remaining, reset = (state.get(kind, name) for kind in "LRW")
    if limit is None or remaining is None or reset is None or (state.get("x", name) or 0) > now:
        return None
    share = SHARE[ask.priority]
    if ask.priority is Priority.BULK and (state.get("nr", name) or 0) > now:
        share = 2 * share
    if bucket.policy.model == "leaky":
        rate = limit / period
        grown = remaining + max(0, now - (state.get("O", name) or 0)) * rate
        level = min(limit, grown) - under_way(state, name)
        missing = min(limit, bucket.cost + share * limit) - level
        if missing > 0:
            raise Blocked(max(1, missing / rate), Reason.QUOTA, name)
        return math.floor(level)
    if reset + ask.guard_ms <= now:
        return None
    free = remaining - under_way(state, name)
    part = min(1, max(0, (reset - now) / period))
    if free - share * limit * part < bucket.cost:
        if free < bucket.cost:
            raise Blocked(reset + ask.guard_ms - now, Reason.QUOTA, name)
        melted = (free - bucket.cost) / (share * limit) * period
        raise Blocked(max(1, reset - melted - now), Reason.QUOTA, name)
    return free


def concurrency(state: State, ask: Ask, now: int, ended_at: int) -> tuple[int, int]:
    """The limit as learned, and how many more may be under way after this one. Raises Blocked."""
    limit = most = max(1, min(ask.max_conc, state.numbers.get("conc", ask.max_conc * 1000) // 1000))
    since = now - ended_at
    if ended_at and since >= ask.ramp_ms and any(f"y:{name}" in state.texts for name in _ended_names(state, ask)):
        since = 0
    is_rising = ended_at and since < ask.ramp_ms
    if is_rising:
        most = max(1, math.floor(1 + (limit - 1) * since / ask.ramp_ms))
    pause = state.numbers.get("p", 0) - now
    if 0 < pause <= ALONE and (is_rising or now - state.born < YOUNG):
        raise Blocked(pause, Reason.CONCURRENCY, WHOLE_KEY)
    if len(state.leases) >= most:
        raise Blocked(0, Reason.CONCURRENCY, WHOLE_KEY)
    return limit, most - len(state.leases) - 1


def pace(state: State, ask: Ask, now: int) -> int:
    """How many milliseconds ahead the request is reserved. Raises Blocked where that is too far."""
    delay, slowest = 0, ""
    for bucket in ask.buckets:
        gap = round(bucket.policy.gap * 1000)
        if gap:
            due = max(state.get("tat", bucket.name) or 0, now) - gap * (bucket.policy.burst - 1) - now
            if due > delay:
                delay, slowest = due, bucket.name
    if delay > ask.max_delay_ms:
        raise Blocked(delay, Reason.PACE, slowest)
    return delay


def grant(state: State, ask: Ask, now: int, delay: int) -> None:
    """Write down that the request starts after `delay` milliseconds."""
    for bucket in ask.buckets:
        gap = round(bucket.policy.gap * 1000)
        if gap:
            state.numbers[f"tat:{bucket.name}"] = max(state.get("tat", bucket.name) or 0, now) + gap
        if bucket.policy.model != "none":
            state.numbers[f"f:{bucket.name}"] = under_way(state, bucket.name) + bucket.cost
    state.leases[ask.lease] = now + delay + ask.lease_ms


def ended(state: State, ask: Ask, now: int) -> tuple[str, ...]:
    """The buckets whose window is over and was not told to be; one that is over for long is forgotten."""
    ended = []
    for name in _ended_names(state, ask):
        field = f"u:{name}"
        is_first = state.texts.pop(f"y:{name}", None) is not None
        if is_first:
            ended.append(name)
            state.numbers["p"] = now + ALONE
        if now - state.numbers[field] >= ask.ramp_ms:
            if is_first:
                state.numbers[field] = now
            else:
                del state.numbers[field]
    return tuple(ended)


def _ended_names(state: State, ask: Ask) -> list[str]:
    return [name for name in _names(ask) if state.get("u", name) is not None]

"""The book in memory: the same rules as the scripts, step by step, for one process while Redis is away.

It is also what the scripts are held against: both get the same operations and the same time, and must answer the same.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from worker_app.gate.book import NONE, Ask, BucketAsk, Granted, Held, Known, Learned, Seen, Told, Waits
from worker_app.gate.key import WHOLE_KEY, GateKey, Priority, Reason
from worker_app.gate.policy import BucketPolicy
from worker_app.gate.signals import REFUSED, Kind, Quota

HOUR, LEAP, TRAVEL, DAY = 3_600_000, 5_000, 1_000, 86_400_000
SHARE = {Priority.INTERACTIVE: 0.0, Priority.SYNC: 0.05, Priority.BULK: 0.15}
LATER = {Priority.INTERACTIVE: 0, Priority.SYNC: 250, Priority.BULK: 1000}
TICKET, PROBE, PROBE_AGAIN, YOUNG, ALONE = 15, 50, 5_000, 1_000, 110
LONGEST, HASTY, SAME, GROWN = 900_000, 2_000, 2_000, 1_000
MOMENTS = frozenset({"u", "g", "W", "O", "S", "x", "nr", "pa", "tat"})
FORGOTTEN = frozenset({"u", "y", "g", "fails", "tk", "L", "R", "W", "O", "S", "x", "pa"})  # by a clear


def costs(lease: str) -> dict[str, int]:
    """What a lease costs each quota: `token.7|core:1` is {"core": 1}."""
    parts = lease.partition("|")[2]
    return {bucket: int(cost) for bucket, _, cost in (part.rpartition(":") for part in parts.split(",") if part)}


@dataclass(slots=True)
class _State:
    """What is known of one key; the numbers by the names that `_state.lua` lists."""

    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)  # lease -> moment of its end

    def get(self, kind: str, bucket: str) -> int | None:
        return self.numbers.get(f"{kind}:{bucket}")

    def moment(self, clock: int) -> tuple[int, int]:
        """Now, never before the last moment, and by how much the clock was found to have stepped back."""
        step = self.numbers.get("t", 0) - clock
        self.numbers.setdefault("born", clock)
        if step <= 0:
            return clock, 0
        if step <= LEAP:
            return clock + step, 0
        for name in self.numbers:
            if name.partition(":")[0] in MOMENTS:
                self.numbers[name] -= step
        self.leases = {lease: ends - step for lease, ends in self.leases.items()}
        return clock, step

    def lessen(self, spent: dict[str, int]) -> None:
        for bucket, cost in spent.items():
            left = self.numbers.get(f"f:{bucket}", 0) - cost
            if left > 0:
                self.numbers[f"f:{bucket}"] = left
            else:
                self.numbers.pop(f"f:{bucket}", None)

    def reap(self, now: int) -> None:
        over = sorted((ends, lease) for lease, ends in self.leases.items() if ends <= now)[:64]
        for _, lease in over:
            del self.leases[lease]
            self.lessen(costs(lease))

    def restore(self, epoch: int, known: tuple[Known, ...], now: int) -> None:
        if self.cleared > epoch:
            return
        if epoch:
            self.numbers["e"] = epoch
        for window in known:
            ends, before = now + window.left_ms, self.get("u", window.bucket) or 0
            if ends <= before + (TRAVEL if window.is_told else 0):
                continue
            if before <= now:
                self.numbers[f"g:{window.bucket}"] = now
                self.texts[f"y:{window.bucket}"] = window.text
                self.numbers.pop(f"tk:{window.bucket}", None)
            self.numbers[f"u:{window.bucket}"] = ends

    def adopt(self, leases: Mapping[str, int], now: int) -> None:
        fresh = {lease: now + left for lease, left in leases.items() if lease not in self.leases}
        spent = Counter[str]()
        for lease in fresh:
            spent.update(costs(lease))
        for bucket, cost in spent.items():
            under_way = self.get("f", bucket) if self.leases else None
            self.numbers[f"f:{bucket}"] = (under_way or 0) + cost
        self.leases.update(fresh)

    @property
    def cleared(self) -> int:
        return self.numbers.get("e", 0)

    @property
    def born(self) -> int:
        return self.numbers["born"]


class _Blocked(Exception):
    """Ends the steps of one ask; never leaves this module."""

    def __init__(self, wait_ms: float, reason: Reason, bucket: str) -> None:
        super().__init__(reason)
        self.wait_ms = wait_ms
        self.reason = reason
        self.bucket = bucket


class MemoryBook:
    """Implements `book.Book` in this process. `clock` gives whole milliseconds."""

    def __init__(self, clock: Callable[[], int] = lambda: int(time.monotonic() * 1000)) -> None:
        self._clock = clock
        self._states: dict[GateKey, _State] = {}
        self._lock = threading.Lock()

    def acquire(self, key: GateKey, ask: Ask) -> Granted | Waits:
        """Grant the request or say how long to wait."""
        with self._lock:
            state = self._states.setdefault(key, _State())
            now, stepped = state.moment(self._clock())
            state.numbers["t"] = now
            state.restore(ask.epoch, ask.known, now)
            cleared = state.cleared
            state.reap(now)
            closed, ended_at = _windows(state, ask, now)
            if closed is not None:
                return replace(_released(state, ask, closed, (now, cleared, stepped)), born=state.born)
            try:
                writes, left = _quotas(state, ask, now)
                limit, room = _concurrency(state, ask, now, ended_at)
                delay = _pace(state, ask, now)
            except _Blocked as blocked:
                wait = math.ceil(blocked.wait_ms)
                waits = Waits(wait, now, blocked.reason, cleared, stepped, blocked.bucket, held=ask.held)
                return replace(waits, born=state.born)
            state.numbers.update(writes)
            _grant(state, ask, now, delay)
            ended = _ended(state, ask, now) if ended_at else ()
            return Granted(delay, now, left, cleared, stepped, limit, len(state.leases), ended, room, state.born)

    def observe(self, key: GateKey, told: Told) -> Learned:
        """End the lease and learn from the reply."""
        with self._lock:
            state = self._states.setdefault(key, _State())
            now, stepped = state.moment(self._clock())
            state.numbers["t"] = now
            live = len(state.leases)
            was_live = state.leases.pop(told.lease, None) is not None
            if was_live:
                state.lessen(costs(told.lease))
            learned = _refused(state, told, now) if told.signal.kind in REFUSED else (0, 0, 0, False)
            for quota in told.signal.quotas:
                _take(state, quota, told.policies[quota.bucket], told.sent_ms, now)
            _succeeded(state, told, now, live if was_live else None)
            left, fails, opened, leaked = learned
            cleared = state.cleared
            bucket = told.signal.bucket
            return Learned(was_live, left, now, cleared, stepped, bucket, fails, opened, leaked, state.born)

    def sync(
        self, key: GateKey, epoch: int = 0, known: tuple[Known, ...] = (), leases: Mapping[str, int] = NONE
    ) -> Seen:
        """Add the windows that the caller knows and the leases that it holds, and tell all that is known."""
        with self._lock:
            state = self._states.get(key) or _State()
            if known or leases:
                self._states[key] = state
                now, stepped = state.moment(self._clock())
                state.restore(epoch, known, now)
                state.adopt(leases, now)
                if leases and now - state.born < YOUNG:
                    state.numbers["p"] = now + ALONE
                state.numbers["t"] = now
            else:
                seen, clock = state.numbers.get("t", 0), self._clock()
                now, stepped = max(clock, seen), seen - clock if seen - clock > LEAP else 0
            live = sum(ends > now for ends in state.leases.values())
            fields = {name: str(number) for name, number in state.numbers.items()} | state.texts
            return Seen(now, max(epoch, state.cleared), stepped, live, fields)

    def begin(self, key: GateKey, leases: Mapping[str, int], conc: int) -> None:
        """Take a key over from another book: the leases that are under way, and how many requests may be at first."""
        with self._lock:
            state = self._states.setdefault(key, _State())
            state.adopt(leases, self._clock())
            state.numbers["conc"] = conc * 1000

    def clear(self, key: GateKey, bucket: str) -> int:
        """Forget the windows and quotas of a bucket, `*` of all; returns how many windows were open."""
        with self._lock:
            state = self._states.setdefault(key, _State())
            now, _ = state.moment(self._clock())
            wanted = [
                name
                for name in (*state.numbers, *state.texts)
                if ":" in name and bucket in (WHOLE_KEY, name.partition(":")[2])
            ]
            opened = sum(name.startswith("u:") and state.numbers[name] > now for name in wanted)
            for name in wanted:
                if name.partition(":")[0] in FORGOTTEN:
                    state.numbers.pop(name, None)
                    state.texts.pop(name, None)
            state.numbers.update(e=max(now, state.cleared + 1), t=now)
            return opened

    def every_key(self) -> list[GateKey]:
        """Every key of which something is known."""
        with self._lock:
            return sorted(self._states, key=lambda key: key.text)


def _names(ask: Ask) -> tuple[str, ...]:
    return (WHOLE_KEY, *(bucket.name for bucket in ask.buckets))


def _windows(state: _State, ask: Ask, now: int) -> tuple[str | None, int]:
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


def _released(state: _State, ask: Ask, closed: str, at: tuple[int, int, int]) -> Waits:
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


def _quotas(state: _State, ask: Ask, now: int) -> tuple[dict[str, int], int | None]:
    """What a grant writes of probes, and what is left of the scarcest quota. Raises _Blocked."""
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
            if _under_way(state, bucket.name) > 0 and now - asked_at < PROBE_AGAIN:
                raise _Blocked(PROBE, Reason.PROBE, bucket.name)
            writes[f"pa:{bucket.name}"] = now
    return writes, left


def _under_way(state: _State, bucket: str) -> int:
    return (state.get("f", bucket) or 0) if state.leases else 0


def _free(state: _State, bucket: BucketAsk, ask: Ask, now: int) -> int | None:
    """What may still be used of a quota; None where nobody knows. Raises _Blocked where it is too little."""
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
        level = min(limit, grown) - _under_way(state, name)
        missing = min(limit, bucket.cost + share * limit) - level
        if missing > 0:
            raise _Blocked(max(1, missing / rate), Reason.QUOTA, name)
        return math.floor(level)
    if reset + ask.guard_ms <= now:
        return None
    free = remaining - _under_way(state, name)
    part = min(1, max(0, (reset - now) / period))
    if free - share * limit * part < bucket.cost:
        if free < bucket.cost:
            raise _Blocked(reset + ask.guard_ms - now, Reason.QUOTA, name)
        melted = (free - bucket.cost) / (share * limit) * period
        raise _Blocked(max(1, reset - melted - now), Reason.QUOTA, name)
    return free


def _concurrency(state: _State, ask: Ask, now: int, ended_at: int) -> tuple[int, int]:
    """The limit as learned, and how many more may be under way after this one. Raises _Blocked."""
    limit = most = max(1, min(ask.max_conc, state.numbers.get("conc", ask.max_conc * 1000) // 1000))
    since = now - ended_at
    if ended_at and since >= ask.ramp_ms and any(f"y:{name}" in state.texts for name in _ended_names(state, ask)):
        since = 0
    is_rising = ended_at and since < ask.ramp_ms
    if is_rising:
        most = max(1, math.floor(1 + (limit - 1) * since / ask.ramp_ms))
    pause = state.numbers.get("p", 0) - now
    if 0 < pause <= ALONE and (is_rising or now - state.born < YOUNG):
        raise _Blocked(pause, Reason.CONCURRENCY, WHOLE_KEY)
    if len(state.leases) >= most:
        raise _Blocked(0, Reason.CONCURRENCY, WHOLE_KEY)
    return limit, most - len(state.leases) - 1


def _pace(state: _State, ask: Ask, now: int) -> int:
    delay, slowest = 0, ""
    for bucket in ask.buckets:
        gap = round(bucket.policy.gap * 1000)
        if gap:
            due = max(state.get("tat", bucket.name) or 0, now) - gap * (bucket.policy.burst - 1) - now
            if due > delay:
                delay, slowest = due, bucket.name
    if delay > ask.max_delay_ms:
        raise _Blocked(delay, Reason.PACE, slowest)
    return delay


def _grant(state: _State, ask: Ask, now: int, delay: int) -> None:
    for bucket in ask.buckets:
        gap = round(bucket.policy.gap * 1000)
        if gap:
            state.numbers[f"tat:{bucket.name}"] = max(state.get("tat", bucket.name) or 0, now) + gap
        if bucket.policy.model != "none":
            state.numbers[f"f:{bucket.name}"] = _under_way(state, bucket.name) + bucket.cost
    state.leases[ask.lease] = now + delay + ask.lease_ms


def _ended(state: _State, ask: Ask, now: int) -> tuple[str, ...]:
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


def _ended_names(state: _State, ask: Ask) -> list[str]:
    return [name for name in _names(ask) if state.get("u", name) is not None]


def _refused(state: _State, told: Told, now: int) -> tuple[int, int, int, bool]:
    """What is left of the window, refused generations, 1 for a new window or 2 for one that grew, whether it leaked."""
    name, numbers = told.signal.bucket, state.numbers
    ends, generation, fails = (state.get(kind, name) or 0 for kind in ("u", "g", "fails"))
    has_leaked = False
    if told.sent_ms > generation:
        has_leaked = ends > told.sent_ms and generation > 0
        fails += 1
        numbers.update({f"g:{name}": now, f"fails:{name}": fails})
        numbers.pop(f"tk:{name}", None)
        if name == WHOLE_KEY and told.signal.kind is not Kind.PRIMARY:
            most = told.max_conc * 1000
            numbers["conc"] = max(1000, min(most, numbers.get("conc", most)) // 2)
    elif ends <= now:
        numbers[f"g:{name}"] = now
    wanted = now + _after(told, fails, now) + told.guard_ms
    opened = 0
    if wanted > ends:
        opened = 1 if ends <= now else 2 if wanted > ends + GROWN else 0
        numbers[f"u:{name}"] = round(wanted)
        state.texts[f"y:{name}"] = told.text
    return max(ends, round(wanted)) - now, fails, opened, has_leaked


def _after(told: Told, fails: int, now: int) -> float:
    signal = told.signal
    after = None if signal.after is None else round(signal.after * 1000)
    if after is None and signal.after_at_ms is not None and signal.after_at_ms - now <= DAY:
        after = max(1000, signal.after_at_ms - now)
    if after is None:
        return float(min(LONGEST, told.default_after_ms * 2.0 ** (max(1, fails) - 1)))
    if signal.kind is Kind.PRIMARY and after <= HASTY and fails > 1:
        return max(after, min(2.0**fails * 1000, 60_000))
    return after


def _take(state: _State, quota: Quota, policy: BucketPolicy, sent_ms: int, now: int) -> None:
    """Believe what a reply says is left: of a newer window all of it, of the same one only what is less."""
    name, numbers = quota.bucket, state.numbers
    if quota.limit == 0:
        numbers[f"x:{name}"] = now + HOUR
        return
    if quota.remaining is None:
        return
    reset_in = None if quota.reset_in is None else round(quota.reset_in * 1000)
    if reset_in is None and quota.reset_at_ms is not None and -LEAP <= quota.reset_at_ms - now <= DAY:
        reset_in = max(0, quota.reset_at_ms - now)
    ends = state.get("W", name) or 0
    unsaid = ends if ends > now else now + round(policy.period * 1000)
    reset = unsaid if reset_in is None else now + reset_in
    limit = quota.limit or state.get("L", name) or quota.remaining
    is_latest, is_newer = sent_ms >= (state.get("S", name) or 0), ends <= now or reset > ends + SAME
    takes = (is_latest and limit > 0) if policy.model == "leaky" else is_newer
    if takes:
        fresh = {"L": limit, "R": quota.remaining, "W": reset}
        fresh |= {"O": now, "S": sent_ms} if policy.model == "leaky" else {}
        numbers.update({f"{kind}:{name}": number for kind, number in fresh.items()})
        numbers.pop(f"x:{name}", None)
    elif policy.model != "leaky" and reset >= ends - SAME:
        # A Date is cut to the second and the way of a reply takes time: the earliest reset is the nearest.
        numbers[f"R:{name}"] = min(quota.remaining, numbers.get(f"R:{name}", quota.remaining))
        numbers[f"W:{name}"] = min(reset, ends)


def _succeeded(state: _State, told: Told, now: int, live: int | None) -> None:
    numbers, kind = state.numbers, told.signal.kind
    if kind is Kind.NEAR:
        reset = state.get("W", told.signal.bucket) or 0
        numbers[f"nr:{told.signal.bucket}"] = reset if reset > now else now + 60_000
    if kind not in {Kind.OK, Kind.NEAR}:
        return
    for name in told.buckets:
        if told.sent_ms > (state.get("u", name) or 0):
            numbers.pop(f"fails:{name}", None)
    most = told.max_conc * 1000
    conc = min(most, numbers.get("conc", most))
    if live is not None and conc < most and live * 2000 >= conc:
        numbers["conc"] = round(min(most, conc + 1_000_000 / conc))

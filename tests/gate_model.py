"""Random operations on the scripts and on the book in memory at once, under a time that the test sets.

Both must answer the same, and what the gate promises must hold whatever came before. Used with some thousand operations by
`make test` and with a million by `make chaos`.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import redis

from worker_app.gate.book import Ask, BucketAsk, Granted, Known, Seen, Told, Waits
from worker_app.gate.key import WHOLE_KEY, GateKey, Priority
from worker_app.gate.memory_book import MemoryBook
from worker_app.gate.memory_state import TRAVEL, costs
from worker_app.gate.policy import BucketPolicy
from worker_app.gate.redis_book import RedisBook, acquire_arguments, answer_of, leases_key, state_key
from worker_app.gate.signals import REFUSED, Kind, Quota, RateSignal

CLOCK = "local function clock() return tonumber(ARGV[#ARGV]) end"
MAX_CONC = 6
LEASE_MS = 65_000
KEYS = (GateKey("github", "acme", "github.com"), GateKey("linear", "acme", "linear.app"))
POLICIES = {
    "core": BucketPolicy("fixed", period=60.0),
    "search": BucketPolicy("fixed", period=30.0, gap=0.25, burst=3),
    "requests": BucketPolicy("leaky", period=60.0),
    "ep.a": BucketPolicy("none", gap=0.08, burst=5),
    "ep.b": BucketPolicy("none"),
}
ENDPOINTS = (("core", "ep.a"), ("core", "ep.b"), ("core", "search"), ("requests", "ep.a"))
KINDS = (*[Kind.OK] * 40, *[Kind.NEAR] * 3, Kind.PRIMARY, Kind.SECONDARY, Kind.BURST, Kind.OTHER, Kind.UNKNOWN)


def priced(lease: str, buckets: tuple[BucketAsk, ...]) -> str:
    """The name of a lease with its costs."""
    return f"{lease}|" + ",".join(f"{item.name}:{item.cost}" for item in buckets if item.policy.model != "none")


@dataclass
class Model:
    """One walk: `steps` operations from `seed`, each checked."""

    client: redis.Redis
    seed: int
    now: int = 1_800_000_000_000
    held: dict[str, tuple[GateKey, int, tuple[str, ...]]] = field(default_factory=dict)  # lease: key, sent, buckets
    done: list[tuple[str, GateKey, tuple[str, ...]]] = field(default_factory=list)
    closed: dict[tuple[GateKey, str], int] = field(default_factory=dict)  # what the walk knows to be closed, until when
    epochs: dict[GateKey, int] = field(default_factory=dict)  # moment of the last clear
    grants: int = 0
    refusals: int = 0
    waits: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.redis = RedisBook(self.client, clock=CLOCK, moment=lambda: (self.now,))
        self.memory = MemoryBook(lambda: self.now)
        self.count = 0

    def walk(self, steps: int, tell: Callable[[int], None] = lambda _: None) -> None:
        """Raises AssertionError at the first difference or broken promise; `tell` hears now and then how far it is."""
        operations = (
            self.acquire,
            self.observe,
            self.sync,
            self.clear,
            self.pass_time,
            self.step_back,
            self.forget,
            self.hand_over,
        )
        weights = (50, 40, 5, 0.3, 30, 0.2, 0.1, 0.3)
        for _ in range(steps):
            self.random.choices(operations, weights)[0]()
            self.count += 1
            if self.count % 20 == 0:
                self.compare(self.random.choice(KEYS))
            if self.count % 10_000 == 0:
                tell(self.count)

    def acquire(self) -> None:
        key, draw = self.random.choice(KEYS), self.random
        names = draw.choice(ENDPOINTS)
        buckets = tuple(
            BucketAsk(name, POLICIES[name], draw.choice((1, 1, 1, 4)), draw.random() < 0.1) for name in names
        )
        ask = Ask(
            lease=priced(f"{self.seed}.{self.count}", buckets),
            lease_ms=LEASE_MS,
            priority=draw.choice(tuple(Priority)),
            max_delay_ms=draw.choice((0, 200, 5000)),
            max_conc=MAX_CONC,
            ramp_ms=5000,
            guard_ms=1000,
            buckets=buckets,
            epoch=self._epoch(key),
            known=self._windows(names),
        )
        answer = self.redis.acquire(key, ask)
        assert answer == self.memory.acquire(key, ask), (self.seed, self.count)
        if answer.cleared <= ask.epoch:
            self._take(key, ask.known, answer.now_ms)
        if isinstance(answer, Waits):
            self.waits[answer.reason.value] += 1
            assert answer.wait_ms >= 0
            return
        self.grants += 1
        assert 1 <= answer.limit <= MAX_CONC
        assert answer.live <= answer.limit
        assert 0 <= answer.delay_ms <= ask.max_delay_ms
        open_at = max(self.closed.get((key, name), 0) for name in (WHOLE_KEY, *names))
        assert answer.now_ms >= open_at, "granted while closed"
        self.held[ask.lease] = (key, answer.now_ms + answer.delay_ms, names)
        if draw.random() < 0.05:
            self._repeat(key, ask, answer)

    def _repeat(self, key: GateKey, ask: Ask, granted: Granted) -> None:
        """The answer was lost: the same call again gets the same grant, and nothing more is taken."""
        before = self.redis.sync(key)
        row = self.client.eval(
            self.redis._acquire.text,
            2,
            state_key(key),
            leases_key(key),
            *acquire_arguments(ask, is_repeat=True),
            self.now,
        )
        again = answer_of(row, ask)
        assert isinstance(again, Granted)
        assert again.now_ms + again.delay_ms == granted.now_ms + granted.delay_ms
        assert self.redis.sync(key) == before

    def observe(self) -> None:
        draw = self.random
        if self.held and draw.random() < 0.95:
            lease = draw.choice(list(self.held))
            key, sent, names = self.held.pop(lease)
            self.done = [*self.done[-20:], (lease, key, names)]
        elif self.done:
            (lease, key, names), sent = draw.choice(self.done), self.now - draw.randrange(60_000)
        else:
            return
        kind = draw.choice(KINDS)
        bucket = WHOLE_KEY if kind is Kind.SECONDARY else draw.choice((WHOLE_KEY, *names))
        signal = RateSignal(
            kind,
            bucket=bucket if kind in REFUSED else names[0],
            after=draw.choice((None, 1, 1, 2, 7.5, 60)),
            after_at_ms=draw.choice((None, self.now + 3000, self.now - 3000, self.now + 10**8)),
            quotas=tuple(self._quota(name) for name in names if POLICIES[name].model != "none" and draw.random() < 0.8),
        )
        told = Told(lease, sent, signal, f"{kind}: word", 1000, 60_000, MAX_CONC, POLICIES, (WHOLE_KEY, *names))
        learned = self.redis.observe(key, told)
        assert learned == self.memory.observe(key, told), (self.seed, self.count)
        if kind in REFUSED:
            self.refusals += 1
            ends = learned.now_ms + learned.left_ms
            assert ends >= self.closed.get((key, signal.bucket), 0), "a window became shorter"
            assert learned.left_ms >= 1000 * (signal.after or 0), "a stated wait was cut"
            self.closed[key, signal.bucket] = ends

    def sync(self) -> None:
        key, known = self.random.choice(KEYS), self._windows(("core", "ep.a"))
        epoch = self._epoch(key)
        seen = self.redis.sync(key, epoch, known)
        assert seen == self.memory.sync(key, epoch, known), (self.seed, self.count)
        if seen.cleared <= epoch:
            self._take(key, known, seen.now_ms)

    def hand_over(self) -> None:
        """A process comes back with leases that it has granted itself, no more than there is room for."""
        key, names = self.random.choice(KEYS), self.random.choice(ENDPOINTS)
        buckets = tuple(BucketAsk(name, POLICIES[name], 1, False) for name in names)
        room = MAX_CONC - self.client.zcard(leases_key(key))
        leases = {
            priced(f"{self.seed}.{self.count}.{number}", buckets): self.random.randrange(1, LEASE_MS)
            for number in range(room)
        }
        mine = {lease: 100 for lease, (of, _, _) in self.held.items() if of == key and self._is_live(key, lease)}
        seen = self.redis.sync(key, 0, (), leases | mine)
        assert seen == self.memory.sync(key, 0, (), leases | mine), (self.seed, self.count)
        self.held |= dict.fromkeys(leases, (key, seen.now_ms, names))

    def clear(self) -> None:
        key, bucket = self.random.choice(KEYS), self.random.choice((WHOLE_KEY, "core"))
        assert self.redis.clear(key, bucket) == self.memory.clear(key, bucket)
        self.epochs[key] = self.redis.sync(key).cleared
        self.closed = {at: ends for at, ends in self.closed.items() if at[0] != key or bucket not in (WHOLE_KEY, at[1])}

    def pass_time(self) -> None:
        draw = self.random
        self.now += (
            draw.choice((1, 1, 3, 10, 10, 50, 300, 2000, 20_000)) if draw.random() < 0.99 else draw.randrange(4_000_000)
        )

    def step_back(self) -> None:
        """The clock of Redis is set back: by seconds, which are waited out, or by more, with which everything moves."""
        moments = {key: self.redis.sync(key) for key in KEYS}
        step = self.random.choice((10, 4000, 600_000))
        self.now -= step
        for key, before in moments.items():
            after = self.redis.sync(key)
            assert after == self.memory.sync(key), (self.seed, self.count)
            assert self._lefts(after).keys() >= self._lefts(before).keys()
            since = max(0, before.now_ms - int(before.fields.get("t", before.now_ms)))
            for bucket, left in self._lefts(before).items():
                assert left <= self._lefts(after)[bucket] <= left + 5000 + since
            if after.stepped_ms:
                self._find_step(key)

    def _find_step(self, key: GateKey) -> None:
        """Both books find it at the next call of a key that writes, and once."""
        known = (Known("ep.none", 1, "probe"),)
        found = self.redis.sync(key, 0, known)
        assert found == self.memory.sync(key, 0, known)
        assert found.stepped_ms > 5000
        assert self.redis.sync(key, 0, known).stepped_ms == 0
        self.memory.sync(key, 0, known)
        self.closed = {at: ends - (found.stepped_ms if at[0] == key else 0) for at, ends in self.closed.items()}
        self.held = {
            lease: (of, sent - (found.stepped_ms if of == key else 0), names)
            for lease, (of, sent, names) in self.held.items()
        }

    def forget(self) -> None:
        if self.random.random() < 0.5:
            self.client.script_flush()
            return
        self.client.flushall()
        self.memory = MemoryBook(lambda: self.now)
        self.closed = {}

    def compare(self, key: GateKey) -> None:
        """The whole state of a key is the same in both books, and what must always hold does."""
        ours, theirs = self.memory.sync(key), self.redis.sync(key)
        assert ours == theirs, (self.seed, self.count)
        if not theirs.fields:
            return
        leases: list[Any] = [str(name, "ascii") for name in self.client.zrange(leases_key(key), 0, -1)]  # type: ignore[arg-type]
        assert len(leases) <= MAX_CONC
        for bucket in ("core", "search", "requests"):
            assert (theirs.number("f", bucket) or 0) == sum(costs(lease).get(bucket, 0) for lease in leases)
        assert self.client.pttl(state_key(key)) > 0
        assert not leases or self.client.pttl(leases_key(key)) > 0
        assert all(left <= self.client.pttl(state_key(key)) for left in self._lefts(theirs).values())

    def _lefts(self, seen: Seen) -> dict[str, int]:
        return {bucket: left for bucket, left, _, _ in seen.windows()}

    def _is_live(self, key: GateKey, lease: str) -> bool:
        return self.client.zscore(leases_key(key), lease) is not None

    def _epoch(self, key: GateKey) -> int:
        """What a process knows of clears: nothing, or all, also of one that Redis has lost."""
        return self.epochs.get(key, 0) if self.random.random() < 0.9 else 0

    def _windows(self, names: tuple[str, ...]) -> tuple[Known, ...]:
        draw = self.random
        if draw.random() > 0.03:
            return ()
        return (Known(draw.choice((WHOLE_KEY, *names)), draw.randrange(1, 9000), "burst: told", draw.random() < 0.5),)

    def _quota(self, bucket: str) -> Quota:
        draw = self.random
        limit = draw.choice((0, None, 40, 40, 40, 60))
        reset_in = draw.choice((None, 0.0, 5.0, 5.5, 8.0, 30.0))
        return Quota(
            bucket, limit, draw.randrange(40), reset_in, draw.choice((None, self.now + 9000, self.now - 10**9))
        )

    def _take(self, key: GateKey, known: tuple[Known, ...], now: int) -> None:
        for window in known:
            ends = self.memory.sync(key).number("u", window.bucket) or 0
            assert ends >= now + window.left_ms - (TRAVEL if window.is_told else 0), "a known window was not taken over"
            self.closed[key, window.bucket] = max(self.closed.get((key, window.bucket), 0), ends)

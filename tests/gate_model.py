"""Random operations on the scripts and on the book in memory at once, under a time that the test sets.

Both must answer the same, and what the gate promises must hold whatever came before. Used with some thousand operations by
`make test` and with a million by `make chaos`.
"""

import random
from dataclasses import dataclass, field

import redis

from worker_app.gate.book import Ask, BucketAsk, Granted, Known, Told, Waits
from worker_app.gate.key import WHOLE_KEY, GateKey, Priority
from worker_app.gate.memory_book import MemoryBook, costs
from worker_app.gate.policy import BucketPolicy
from worker_app.gate.redis_book import RedisBook, leases_key, state_key
from worker_app.gate.signals import Kind, Quota, RateSignal

CLOCK = "local function clock() return tonumber(ARGV[#ARGV]) end"
MAX_CONC = 6
KEYS = (GateKey("github", "acme", "github.com"), GateKey("linear", "acme", "linear.app"))
POLICIES = {
    "core": BucketPolicy("fixed", period=60.0),
    "search": BucketPolicy("fixed", period=30.0, gap=0.25, burst=3),
    "requests": BucketPolicy("leaky", period=60.0),
    "ep.a": BucketPolicy("none", gap=0.08, burst=5),
    "ep.b": BucketPolicy("none"),
}
ENDPOINTS = (("core", "ep.a"), ("core", "ep.b"), ("core", "search"), ("requests", "ep.a"))
KINDS = (*[Kind.OK] * 12, Kind.NEAR, Kind.PRIMARY, Kind.SECONDARY, Kind.BURST, Kind.OTHER, Kind.UNKNOWN)


@dataclass
class Model:
    """One walk: `steps` operations from `seed`, each checked."""

    client: redis.Redis
    seed: int
    now: int = 1_800_000_000_000
    held: dict[str, tuple[GateKey, Granted, tuple[str, ...]]] = field(default_factory=dict)
    done: list[tuple[str, GateKey, tuple[str, ...]]] = field(default_factory=list)
    closed: dict[tuple[GateKey, str], int] = field(default_factory=dict)  # what the walk knows to be closed, until when
    grants: int = 0
    refusals: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.redis = RedisBook(self.client, clock=CLOCK, moment=lambda: (self.now,))
        self.memory = MemoryBook(lambda: self.now)
        self.count = 0

    def walk(self, steps: int) -> None:
        """Raises AssertionError at the first difference or broken promise."""
        operations = (self.acquire, self.observe, self.sync, self.clear, self.pass_time, self.step_back, self.forget)
        weights = (50, 40, 5, 0.3, 30, 0.2, 0.1)
        for _ in range(steps):
            self.random.choices(operations, weights)[0]()
            self.count += 1
            if self.count % 20 == 0:
                self.compare(self.random.choice(KEYS))

    def acquire(self) -> None:
        key, draw = self.random.choice(KEYS), self.random
        names = draw.choice(ENDPOINTS)
        buckets = tuple(
            BucketAsk(name, POLICIES[name], draw.choice((1, 1, 1, 4)), draw.random() < 0.1) for name in names
        )
        priced = ",".join(f"{item.name}:{item.cost}" for item in buckets if item.policy.model != "none")
        ask = Ask(
            lease=f"{self.seed}.{self.count}|{priced}",
            lease_ms=65_000,
            priority=draw.choice(tuple(Priority)),
            max_delay_ms=draw.choice((0, 200, 5000)),
            max_conc=MAX_CONC,
            ramp_ms=5000,
            guard_ms=1000,
            buckets=buckets,
            epoch=draw.choice((0, self.now)),
            known=self._windows(names),
        )
        answer = self.redis.acquire(key, ask)
        assert answer == self.memory.acquire(key, ask), (self.seed, self.count)
        self._remember(key, ask, answer)
        if isinstance(answer, Granted):
            self.grants += 1
            assert answer.live <= answer.limit <= MAX_CONC
            assert 0 <= answer.delay_ms <= ask.max_delay_ms
            assert not [name for name in (WHOLE_KEY, *names) if self.closed.get((key, name), 0) > self.now], (
                "granted while closed"
            )
            self.held[ask.lease] = (key, answer, names)
            if draw.random() < 0.05:  # the answer was lost: the same call again gets the same grant
                assert self.client.zcard(leases_key(key)) == answer.live
        else:
            assert answer.wait_ms >= 0

    def observe(self) -> None:
        draw = self.random
        if self.held and draw.random() < 0.95:
            lease = draw.choice(list(self.held))
            key, granted, names = self.held.pop(lease)
            self.done = [*self.done[-20:], (lease, key, names)]
            sent = granted.now_ms + granted.delay_ms
        elif self.done:
            (lease, key, names), sent = draw.choice(self.done), self.now - draw.randrange(60_000)
        else:
            return
        kind = draw.choice(KINDS)
        bucket = WHOLE_KEY if kind is Kind.SECONDARY else draw.choice((WHOLE_KEY, *names))
        signal = RateSignal(
            kind,
            bucket=bucket if kind in {Kind.PRIMARY, Kind.SECONDARY, Kind.BURST} else names[0],
            after=draw.choice((None, 1, 1, 2, 7.5, 60)),
            after_at_ms=draw.choice((None, self.now + 3000, self.now - 3000, self.now + 10**8)),
            quotas=tuple(self._quota(name) for name in names if POLICIES[name].model != "none" and draw.random() < 0.8),
        )
        told = Told(lease, sent, signal, f"{kind}: word", 1000, 60_000, MAX_CONC, POLICIES, (WHOLE_KEY, *names))
        learned = self.redis.observe(key, told)
        assert learned == self.memory.observe(key, told), (self.seed, self.count)
        if learned.left_ms:
            self.refusals += 1
            ends = learned.now_ms + learned.left_ms
            assert ends >= self.closed.get((key, signal.bucket), 0), "a window became shorter"
            self.closed[key, signal.bucket] = ends

    def sync(self) -> None:
        key, known = self.random.choice(KEYS), self._windows(("core", "ep.a"))
        seen = self.redis.sync(key, self.now, known)
        assert seen == self.memory.sync(key, self.now, known), (self.seed, self.count)
        self._take(key, known, seen.now_ms)

    def clear(self) -> None:
        key, bucket = self.random.choice(KEYS), self.random.choice((WHOLE_KEY, "core"))
        assert self.redis.clear(key, bucket) == self.memory.clear(key, bucket)
        self.closed = {at: ends for at, ends in self.closed.items() if at[0] != key or bucket not in (WHOLE_KEY, at[1])}

    def pass_time(self) -> None:
        draw = self.random
        self.now += (
            draw.choice((1, 1, 3, 10, 10, 50, 300, 2000, 20_000)) if draw.random() < 0.99 else draw.randrange(4_000_000)
        )

    def step_back(self) -> None:
        """The clock of Redis is set back: by seconds, which are waited out, or by more, with which everything moves."""
        step = self.random.choice((10, 4000, 600_000))
        self.now -= step
        if step > 5000:
            for key in KEYS:  # both books find it at the next call of each key
                known = (Known("ep.none", 1, "probe"),)
                found = self.redis.sync(key, 0, known)
                assert found == self.memory.sync(key, 0, known)
                self.closed = {at: ends - (found.stepped_ms if at[0] == key else 0) for at, ends in self.closed.items()}

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
        leases = [name.decode() for name in self.client.zrange(leases_key(key), 0, -1) if isinstance(name, bytes)]
        assert len(leases) <= MAX_CONC
        for bucket in ("core", "search", "requests"):
            assert (theirs.number("f", bucket) or 0) == sum(costs(lease).get(bucket, 0) for lease in leases)
        assert self.client.pttl(state_key(key)) > 0
        assert not leases or self.client.pttl(leases_key(key)) > 0

    def _windows(self, names: tuple[str, ...]) -> tuple[Known, ...]:
        if self.random.random() > 0.03:
            return ()
        return (Known(self.random.choice((WHOLE_KEY, *names)), self.random.randrange(1, 9000), "burst: told"),)

    def _quota(self, bucket: str) -> Quota:
        draw = self.random
        limit = draw.choice((0, None, 40, 40, 40, 60))
        reset_in = draw.choice((None, 0.0, 5.0, 5.5, 8.0, 30.0))
        return Quota(
            bucket, limit, draw.randrange(40), reset_in, draw.choice((None, self.now + 9000, self.now - 10**9))
        )

    def _remember(self, key: GateKey, ask: Ask, answer: Granted | Waits) -> None:
        if answer.cleared <= ask.epoch:
            self._take(key, ask.known, answer.now_ms)

    def _take(self, key: GateKey, known: tuple[Known, ...], now: int) -> None:
        for window in known:
            self.closed[key, window.bucket] = max(self.closed.get((key, window.bucket), 0), now + window.left_ms)

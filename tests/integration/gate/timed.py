"""The scripts on a real Redis under a time that the test sets: a fleet of processes that ask and reply in one thread."""

from dataclasses import dataclass, field, replace

import redis

from tests.gate_model import CLOCK
from worker_app.gate.book import Ask, BucketAsk, Granted, Held, Known, Learned, Told, Waits
from worker_app.gate.key import WHOLE_KEY, GateKey, Priority, Reason
from worker_app.gate.policies import POLICIES
from worker_app.gate.policy import ProviderPolicy
from worker_app.gate.redis_book import RedisBook, acquire_arguments, leases_key, state_key
from worker_app.gate.signals import Kind, Quota, RateSignal

KEY = GateKey("github", "acme", "github.com")
NOON = 1_800_000_000_000
PLENTY = Quota("core", 5000, 4900, 3000.0)


@dataclass
class Taken:
    """A request that may start."""

    lease: str
    endpoint: str
    granted: Granted

    @property
    def sent_ms(self) -> int:
        return self.granted.now_ms + self.granted.delay_ms


@dataclass
class Timed:
    """Asks for requests of one key and says what became of them, at a moment that only the test moves."""

    client: redis.Redis
    key: GateKey = KEY
    policy: ProviderPolicy = POLICIES["github"]
    now: int = NOON
    book: RedisBook = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.book = RedisBook(self.client, clock=CLOCK, moment=lambda: (self.now,))

    def pass_by(self, seconds: float) -> None:
        self.now += round(seconds * 1000)

    def ask_of(
        self,
        endpoint: str = "repos.get",
        *,
        priority: Priority = Priority.SYNC,
        cost: int = 1,
        known: tuple[Known, ...] = (),
        epoch: int = 0,
        held: Held | None = None,
        lease: str = "",
    ) -> Ask:
        self.count += 1
        of = self.policy.endpoint(endpoint)
        buckets = tuple(BucketAsk(name, self.policy.buckets[name], cost, of.silent) for name in of.buckets)
        priced = ",".join(f"{item.name}:{item.cost}" for item in buckets if item.policy.model != "none")
        return Ask(
            lease=lease or f"process.{self.count}|{priced}",
            lease_ms=65_000,
            priority=priority,
            max_delay_ms=5000,
            max_conc=self.policy.max_conc,
            ramp_ms=5000,
            guard_ms=1000,
            buckets=buckets,
            epoch=epoch,
            known=known,
            held=held,
        )

    def ask(self, endpoint: str = "repos.get", **how: object) -> Granted | Waits:
        return self.book.acquire(self.key, self.ask_of(endpoint, **how))  # type: ignore[arg-type]

    def take(self, endpoint: str = "repos.get", **how: object) -> Taken:
        ask = self.ask_of(endpoint, **how)  # type: ignore[arg-type]
        answer = self.book.acquire(self.key, ask)
        assert isinstance(answer, Granted), answer
        return Taken(ask.lease, endpoint, answer)

    def wait(self, endpoint: str = "repos.get", **how: object) -> Waits:
        answer = self.ask(endpoint, **how)
        assert isinstance(answer, Waits), answer
        return answer

    def reply(self, taken: Taken, kind: Kind = Kind.OK, *, bucket: str = WHOLE_KEY, **says: object) -> Learned:
        signal = RateSignal(kind, bucket=bucket, **{"quotas": (PLENTY,) if kind is Kind.OK else (), **says})  # type: ignore[arg-type]
        told = Told(
            lease=taken.lease,
            sent_ms=taken.sent_ms,
            signal=signal,
            text=f"{kind.value}: {signal.detail}",
            guard_ms=1000,
            default_after_ms=60_000,
            max_conc=self.policy.max_conc,
            policies=self.policy.buckets,
            buckets=(WHOLE_KEY, *self.policy.endpoint(taken.endpoint).buckets),
        )
        return self.book.observe(self.key, told)

    def know_quota(self, quota: Quota = PLENTY) -> None:
        """One request finds out what is left."""
        self.reply(self.take(), quotas=(quota,))

    def refuse(self, kind: Kind = Kind.SECONDARY, **says: object) -> float:
        """A request is refused; returns the seconds that are left of the window it closed."""
        return self.reply(self.take(), kind, **says).left_ms / 1000  # type: ignore[arg-type]

    def opens_in(self, endpoint: str = "repos.get") -> float:
        """Seconds until the window over an endpoint ends; 0: there is none."""
        answer = self.ask(endpoint)
        return answer.left_ms / 1000 if isinstance(answer, Waits) and answer.reason is Reason.WINDOW else 0.0

    def repeat(self, ask: Ask) -> list[object]:
        """What Redis answers where a call comes a second time."""
        arguments = acquire_arguments(ask, is_repeat=True)
        keys = state_key(self.key), leases_key(self.key)
        answer = self.client.eval(self.book._acquire.text, 2, *keys, *arguments, self.now)
        assert isinstance(answer, list)
        return answer

    def field(self, name: str) -> str | None:
        found = self.client.hget(state_key(self.key), name)
        return found.decode() if isinstance(found, bytes) else None

    @property
    def live(self) -> int:
        return int(self.client.zcard(leases_key(self.key)))


def with_most(policy: ProviderPolicy, max_conc: int) -> ProviderPolicy:
    return replace(policy, max_conc=max_conc)

"""Requests of one key of GitHub, as a book is asked for them and told of them."""

from worker_app.gate.book import NONE, Ask, BucketAsk, Granted, Known, Learned, Seen, Told, Waits
from worker_app.gate.key import GateKey, Priority
from worker_app.gate.policies import GITHUB
from worker_app.gate.policy import ProviderPolicy
from worker_app.gate.signals import Kind, Quota, RateSignal

KEY = GateKey("github", "acme", "github.com")
PLENTY = Quota("core", 5000, 4900, 3000.0)


def ask_of(
    number: int,
    endpoint: str = "repos.get",
    *,
    priority: Priority = Priority.SYNC,
    known: tuple[Known, ...] = (),
    epoch: int = 0,
    policy: ProviderPolicy = GITHUB,
) -> Ask:
    """The request with this number."""
    of = policy.endpoint(endpoint)
    buckets = tuple(BucketAsk(name, policy.buckets[name], 1, of.silent) for name in of.buckets)
    return Ask(f"p.{number}|core:1", 65_000, priority, 5000, policy.max_conc, 5000, 1000, buckets, epoch, known)


def told_of(ask: Ask, sent_ms: int, kind: Kind = Kind.OK, bucket: str = "*", **says: object) -> Told:
    """What became of it."""
    signal = RateSignal(kind, bucket=bucket, **{"quotas": (PLENTY,) if kind is Kind.OK else (), **says})  # type: ignore[arg-type]
    names = ("*", *(item.name for item in ask.buckets))
    return Told(ask.lease, sent_ms, signal, f"{kind.value}: word", 1000, 60_000, ask.max_conc, GITHUB.buckets, names)


class Absent:
    """A book that fails as long as a fault is set, and keeps a record of what it was asked."""

    def __init__(self) -> None:
        self.fault: BaseException | None = None
        self.calls: list[tuple[str, GateKey]] = []
        self.leases: dict[str, int] = {}
        self.ended: list[str] = []
        self.known: tuple[Known, ...] = ()

    def _call(self, name: str, key: GateKey) -> None:
        self.calls.append((name, key))
        if self.fault is not None:
            raise self.fault

    def acquire(self, key: GateKey, ask: Ask) -> Granted | Waits:
        """Always granted."""
        self._call("acquire", key)
        return Granted(0, 1, None, 0, 0, ask.max_conc, 1)

    def observe(self, key: GateKey, told: Told) -> Learned:
        """Always live."""
        self._call("observe", key)
        self.ended.append(told.lease)
        return Learned(True, 0, 1, 0, 0, told.signal.bucket, 0, 0, False)

    def sync(self, key: GateKey, epoch: int = 0, known: tuple[Known, ...] = (), leases: object = NONE) -> Seen:
        """Takes what it is given."""
        self._call("sync", key)
        assert isinstance(leases, dict) or leases is NONE
        self.leases |= dict(leases)
        self.known += known
        return Seen(1, epoch, 0, 0, {})

    def clear(self, key: GateKey, bucket: str) -> int:
        """Nothing is open."""
        self._call("clear", key)
        return 0

    def every_key(self) -> list[GateKey]:
        """None."""
        return []

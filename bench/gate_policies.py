"""The gate's policies in the benchmark: those that ship, with the mock's period and so many requests in flight."""

from typing import Final

from worker_app.gate.key import GateKey
from worker_app.gate.policies import POLICIES
from worker_app.gate.policy import BucketPolicy, Endpoint, ProviderPolicy

MAX_CONC: Final = 18  # two below what the mock refuses
ENDPOINT: Final = "bench"
PERIOD_SECONDS: Final = 6.0  # of the mock's quota
HOUR: Final = 3600.0  # seconds
NEVER: Final = 1_000_000  # requests without a gap: a pace that is reckoned and never delays

KEY: Final = GateKey("github", "bench", "github.com")
LINEAR_KEY: Final = GateKey("linear", "bench", "linear.app")


def github(
    *, period: float = PERIOD_SECONDS, gap: float = 0.0, burst: int = 1, max_conc: int = MAX_CONC
) -> ProviderPolicy:
    """As GitHub: a quota in windows and an endpoint of its own beneath it."""
    shipped = POLICIES["github"]
    buckets = {"core": BucketPolicy("fixed", period), "ep.bench": BucketPolicy(gap=gap, burst=burst)}
    return _of(shipped, buckets, max_conc)


def linear() -> ProviderPolicy:
    """As Linear: a quota that refills all the time."""
    return _of(POLICIES["linear"], {"requests": BucketPolicy("leaky", PERIOD_SECONDS)}, MAX_CONC)


def _of(shipped: ProviderPolicy, buckets: dict[str, BucketPolicy], max_conc: int) -> ProviderPolicy:
    endpoint = Endpoint(ENDPOINT, tuple(buckets))
    return ProviderPolicy(
        shipped.name,
        buckets,
        {ENDPOINT: endpoint},
        max_conc,
        judge=shipped.judge,
        guard=shipped.guard,
        ramp=shipped.ramp,
    )

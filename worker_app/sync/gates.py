"""Gates: what people see of the rate-limit gate, and an end before its time. Command line and API come here.

The gate knows organisations by their id alone; here its keys get the names by which people know them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from uuid import UUID

import redis
import structlog

from worker_app import errors
from worker_app.gate.gate import Gate
from worker_app.gate.key import WHOLE_KEY, GateKey, GateState
from worker_app.gate.policies import POLICIES
from worker_app.store import batches, sources
from worker_app.store.postgres import Postgres, Transaction
from worker_app.store.sources import Org

SPREAD_SECONDS = 30.0  # what waited for a gate comes back over so long, never as one

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GateView:
    """One bucket of a key as people see it. The field names are public; durations are seconds."""

    provider: str
    org: str | None  # its name; None: the organisation is not ours any more
    org_id: str
    host: str
    bucket: str  # `*`: whatever is asked of the host
    reason: str  # why it is closed; empty while it is open
    detail: str  # the provider's own word
    retry_in: float  # until it opens; 0: it is open
    limit: int | None  # of the quota; None: nobody knows
    remaining: int | None  # what is left of it; None: nobody knows
    reset_in: float | None  # until it is whole again; None: nobody knows
    conc: int  # requests that may be under way at once for the key, as learned
    live: int  # requests that are

    @property
    def name(self) -> str:
        """The key as people write it: `github/acme/github.com`."""
        return f"{self.provider}/{self.org or self.org_id}/{self.host}"

    @property
    def key(self) -> GateKey:
        """The key as the gate knows it."""
        return GateKey(self.provider, self.org_id, self.host)

    @property
    def is_closed(self) -> bool:
        """Whether requests that count against the bucket have to wait."""
        return self.retry_in > 0


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a clear did. The field names are public."""

    gate: str  # `github/acme/github.com`
    bucket: str
    windows: int  # that were open before their time
    batches: int  # that waited and go on now


def states(gate: Gate) -> list[GateState]:
    """What the gate knows, without keys that nobody has answered yet: a name that was mistyped. Raises StoreAway."""
    try:
        every = gate.states()
    except redis.RedisError as error:
        raise _away(error) from error
    telling = {state.key for state in every if state.retry_in > 0 or state.live or state.remaining is not None}
    return [state for state in every if state.key in telling]


def views(known: Iterable[GateState], orgs: Iterable[Org]) -> list[GateView]:
    """What the gate knows, by the names of organisations: what is closed first, the longest wait on top."""
    names = {str(org.id): org.name for org in orgs}
    found = [_view(state, names.get(state.key.org_id)) for state in known]
    return sorted(found, key=lambda view: (-view.retry_in, view.name, view.bucket))


def key_named(named: str, known: Sequence[GateView], orgs: Sequence[Org]) -> GateKey:
    """The key that a person means: `provider/org/host`, of which parts may be left out where one key alone fits.

    One written in full need not be known: nobody may have asked yet. Raises UsageError.
    """
    fitting = {view.key: view.name for view in known if named in _names(view)}
    if len(fitting) == 1:
        return next(iter(fitting))
    if fitting:
        shown = ", ".join(sorted(fitting.values()))
        raise errors.UsageError(f"several gates fit {named!r}: {shown}; name one as provider/org/host")
    provider, _, rest = named.partition("/")
    org, _, host = rest.rpartition("/")
    if not org:
        raise errors.UsageError(
            f"no gate fits {named!r}; `dev-hops gate list` shows those that are known, any other is written as provider/org/host"
        )
    return key_of(provider, org, host, orgs)


def key_of(provider: str, org: str, host: str, orgs: Iterable[Org]) -> GateKey:
    """The key of an organisation, by name or id, at a host. Raises UsageError naming the part that is wrong."""
    if provider not in POLICIES:
        raise errors.UsageError(f"provider is {provider!r}: there are {', '.join(sorted(POLICIES))}")
    found = [item.id for item in orgs if org in (item.name, str(item.id))]
    if not found:
        raise errors.UsageError(f"there is no organisation {org!r}; `dev-hops orgs list` shows those there are")
    try:
        return GateKey(provider, str(found[0]), host)
    except ValueError as fault:
        raise errors.UsageError(str(fault)) from fault


def clear(postgres: Postgres, gate: Gate, key: GateKey, bucket: str = WHOLE_KEY, *, by: str) -> Cleared:
    """Open a bucket of a key, `*` all of it, before its time, and let the batches go on that waited. It is logged with `by`.

    Raises UsageError for a bucket that the provider does not have, StoreAway.
    """
    _check_bucket(key, bucket)
    try:
        windows = gate.clear(key, bucket, by=by)
    except redis.RedisError as error:
        raise _away(error) from error
    with postgres.transaction() as tx:
        name, woken = _name(tx, key), _wake(tx, key)
    log.warning("gate.cleared_by_hand", gate=name, bucket=bucket, windows=windows, batches=woken, by=by)
    return Cleared(name, bucket, windows, woken)


def _view(state: GateState, org: str | None) -> GateView:
    key = state.key
    return GateView(
        provider=key.provider,
        org=org,
        org_id=key.org_id,
        host=key.host,
        bucket=state.bucket,
        reason=state.reason,
        detail=state.detail,
        retry_in=state.retry_in,
        limit=state.limit,
        remaining=state.remaining if state.reset_in else None,  # of a quota that has come back since nobody knows
        reset_in=state.reset_in or None,
        conc=state.conc,
        live=state.live,
    )


def _names(view: GateView) -> Iterator[str]:
    """Every way to write a key: some of its parts in order, its organisation by name or id."""
    for org in {view.org or view.org_id, view.org_id}:
        for chosen in product((view.provider, ""), (org, ""), (view.host, "")):
            if any(chosen):
                yield "/".join(part for part in chosen if part)


def _name(tx: Transaction, key: GateKey) -> str:
    names = {str(org.id): org.name for org in sources.orgs(tx)}
    return f"{key.provider}/{names.get(key.org_id, key.org_id)}/{key.host}"


def _wake(tx: Transaction, key: GateKey) -> int:
    """Move the batches that wait for the key; one of somebody who uses the gate alone has none."""
    try:
        org_id = UUID(key.org_id)
    except ValueError:
        return 0
    return batches.wake_deferred(tx, org_id, key.provider, key.host, SPREAD_SECONDS)


def _check_bucket(key: GateKey, bucket: str) -> None:
    policy = POLICIES.get(key.provider)
    if policy is not None and bucket != WHOLE_KEY and bucket not in policy.buckets:
        known = ", ".join(sorted(policy.buckets))
        raise errors.UsageError(f"bucket is {bucket!r}: {key.provider} has {known}, and * for all of them")


def _away(error: redis.RedisError) -> errors.StoreAway:
    return errors.StoreAway(
        f"the gate's Redis does not answer ({type(error).__name__}): look at REDIS_URL, and whether Redis runs; "
        "until it is back workers go on within their share of the limits"
    )

"""One client: what a call of the gate costs beside `limits` and PyrateLimiter, on one Redis, in turns.

Everything is granted, so that only the call itself is measured. The pace of the endpoint is reckoned and never delays.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles
from typing import Any, Final

import pyrate_limiter
import redis
from limits import RateLimitItemPerHour
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

from bench import gate_policies
from bench.gate_policies import ENDPOINT, HOUR, KEY, NEVER
from bench.service import note
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Reason
from worker_app.gate.policies import POLICIES
from worker_app.gate.redis_book import leases_key, state_key
from worker_app.gate.signals import Kind, Quota, RateSignal

ROUNDS: Final = 3
TURN: Final = 100  # calls of one side before the next has its turn
TURNS: Final = 20  # of a round
WARM_CALLS: Final = 200
CHECKS: Final = 200  # calls of `check` that are timed as one: one alone is shorter than the clock can tell
LIVE: Final = 16  # leases at once while the time inside Redis and the memory are measured
CYCLES: Final = 60
PLENTY: Final = 1_000_000  # a quota that is not used up
WINDOW_SECONDS: Final = 300.0
FULL_KEY: Final = GateKey("github", "every-endpoint", "github.com")
LIMITS: Final[Mapping[str, Callable[[RedisStorage], Any]]] = {
    "limits_fixed": FixedWindowRateLimiter,
    "limits_sliding": SlidingWindowCounterRateLimiter,
    "limits_moving": MovingWindowRateLimiter,
}
OK: Final = RateSignal(Kind.OK, "core", quotas=(Quota("core", PLENTY, PLENTY - 1, HOUR),))

Times = dict[str, list[float]]  # microseconds by call


@dataclass(frozen=True, slots=True)
class Peers:
    """One call of each peer that takes one request of a quota."""

    calls: Mapping[str, Callable[[], object]]
    close: Callable[[], None]


def peers(url: str) -> Peers:
    """The peers on that Redis, told a quota that nobody uses up."""
    storage, item = RedisStorage(url), RateLimitItemPerHour(PLENTY)
    client = redis.Redis.from_url(url)
    bucket: Any = pyrate_limiter.RedisBucket.init(
        [pyrate_limiter.Rate(PLENTY, pyrate_limiter.Duration.HOUR)], client, "bench:pyrate"
    )
    limiter = pyrate_limiter.Limiter(bucket)
    calls: dict[str, Callable[[], object]] = {
        name: partial(strategy(storage).hit, item, name) for name, strategy in LIMITS.items()
    }
    return Peers({**calls, "pyrate": partial(limiter.try_acquire, "bench", blocking=False)}, limiter.close)


def gate_of(url: str) -> Gate:
    """Ours on that Redis: a quota, and an endpoint with a pace that never delays."""
    policy = gate_policies.github(period=HOUR, gap=0.001, burst=NEVER, max_conc=4 * LIVE)
    return Gate.from_url(url, policies={"github": policy})


def measure(url: str) -> dict[str, Any]:
    """All figures of one client; each is the median of the rounds."""
    with redis.Redis.from_url(url) as client:
        client.flushall()
        theirs, ours = peers(url), gate_of(url)
        try:
            rounds = []
            for number in range(ROUNDS):
                rounds.append(_summary(_round(theirs, ours)))
                note(f"one client, round {number + 1} of {ROUNDS}: {rounds[-1]}")
            found = {name: round(median(item[name] for item in rounds), 3) for name in rounds[0]}
            hits = WARM_CALLS + ROUNDS * TURNS * TURN
            return {
                "calls_of_a_round": TURNS * TURN,
                **found,
                **_ratios(found),
                **_inside(client, theirs, ours),
                "trips_per_request": _trips(client, ours),
                "memory": _memory(client, url, ours, hits),
                "checks": _closed(client, ours),
            }
        finally:
            theirs.close()


def _round(theirs: Peers, ours: Gate) -> Times:
    """Every side in turns, each call timed."""
    for call in theirs.calls.values():
        for _ in range(WARM_CALLS // ROUNDS):
            call()
    times: Times = {name: [] for name in (*theirs.calls, "acquire", "observe")}
    for _ in range(TURNS):
        for name, call in theirs.calls.items():
            times[name] += [_timed(call) for _ in range(TURN)]
        for _ in range(TURN):
            acquire, observe = _request(ours)
            times["acquire"].append(acquire)
            times["observe"].append(observe)
    return times


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - began) / 1000


def _request(ours: Gate) -> tuple[float, float]:
    """Microseconds to enter a slot and to leave it with what a reply said."""
    began = time.perf_counter_ns()
    with ours.slot(KEY, ENDPOINT) as permit:
        entered = time.perf_counter_ns()
        permit.observe(OK)
    return (entered - began) / 1000, (time.perf_counter_ns() - entered) / 1000


def _summary(times: Times) -> dict[str, float]:
    found = {}
    for name, values in times.items():
        found[f"{name}_p50_us"] = round(median(values), 1)
        found[f"{name}_p99_us"] = round(quantiles(values, n=100)[98], 1)
    both = [acquire + observe for acquire, observe in zip(times["acquire"], times["observe"], strict=True)]
    return {**found, "acquire_and_observe_p50_us": round(median(both), 1)}


def _ratios(found: Mapping[str, float]) -> dict[str, float]:
    sliding, pyrate = found["limits_sliding_p50_us"], found["pyrate_p50_us"]
    return {
        "acquire_by_limits": round(found["acquire_p50_us"] / sliding, 3),
        "acquire_by_pyrate": round(found["acquire_p50_us"] / pyrate, 3),
        "acquire_and_observe_by_limits": round(found["acquire_and_observe_p50_us"] / sliding, 3),
    }


def _inside(client: redis.Redis, theirs: Peers, ours: Gate) -> dict[str, float]:
    """Mean microseconds inside Redis of each call; of ours up to `LIVE` requests are under way meanwhile."""
    spent = {name: [0, 0] for name in (*theirs.calls, "acquire", "observe")}
    for _ in range(CYCLES):
        for name, call in theirs.calls.items():
            with _counted(client, spent[name]):
                for _ in range(LIVE):
                    call()
        with _counted(client, spent["acquire"]):
            permits = [ours.permit(KEY, ENDPOINT) for _ in range(LIVE)]
        with _counted(client, spent["observe"]):
            for permit in permits:
                permit.observe(OK)
    return {f"{name}_redis_us": round(microseconds / calls, 2) for name, (calls, microseconds) in spent.items()}


@contextmanager
def _counted(client: redis.Redis, spent: list[int]) -> Iterator[None]:
    """Add what the scripts that run in the block take: calls and microseconds."""
    client.config_resetstat()
    yield
    for place, value in enumerate(_scripts(client)):
        spent[place] += value


def _scripts(client: redis.Redis) -> tuple[int, int]:
    """Calls of scripts since the last reset, and their microseconds."""
    stats: Any = client.info("commandstats")
    rows = [stats[name] for name in ("cmdstat_evalsha", "cmdstat_eval") if name in stats]
    return sum(row["calls"] for row in rows), sum(row["usec"] for row in rows)


def _trips(client: redis.Redis, ours: Gate) -> float:
    """Calls of scripts per request, one request after the other."""
    client.config_resetstat()
    for _ in range(TURN):
        _request(ours)
    return _scripts(client)[0] / TURN


def _memory(client: redis.Redis, url: str, ours: Gate, hits: int) -> dict[str, Any]:
    """Bytes of the gate's two keys, and of each peer's keys after about as many requests."""
    idle = _of_key(client, KEY)
    permits = [ours.permit(KEY, ENDPOINT) for _ in range(LIVE)]
    live = _of_key(client, KEY)
    for permit in permits:
        permit.observe(OK)
    theirs = {name: _bytes(client, *client.scan_iter(match=f"*{name}*")) for name in (*LIMITS, "pyrate")}
    return {
        "hits": hits,
        "idle_bytes": idle,
        "bytes_per_live": round((live - idle) / LIVE, 1),
        "every_endpoint_bytes": _every_endpoint(client, url),
        **theirs,
    }


def _every_endpoint(client: redis.Redis, url: str) -> int:
    """Bytes of a key of the shipped policy, all of whose endpoints were used."""
    gate = Gate.from_url(url)
    try:
        for name in POLICIES["github"].endpoints:
            gate.permit(FULL_KEY, name).observe(OK)
        return _of_key(client, FULL_KEY)
    finally:
        gate.close()


def _of_key(client: redis.Redis, key: GateKey) -> int:
    return _bytes(client, state_key(key), leases_key(key))


def _bytes(client: redis.Redis, *keys: str | bytes) -> int:
    return sum(int(client.memory_usage(key, samples=0) or 0) for key in keys)


def _closed(client: redis.Redis, ours: Gate) -> dict[str, float]:
    """Microseconds of `check` while a window is known, and its trips to Redis."""
    ours.backoff(KEY, WINDOW_SECONDS, reason=Reason.WINDOW)
    assert not ours.check(KEY).allowed
    client.config_resetstat()
    began = time.monotonic()
    times = [_checked(ours) for _ in range(TURNS * TURN)]
    seconds = time.monotonic() - began
    calls, _ = _scripts(client)
    ours.clear(KEY, by="bench")
    return {
        "check_p50_us": round(median(times), 3),
        "check_p99_us": round(quantiles(times, n=100)[98], 3),
        "trips_per_second": round(calls / seconds, 2),
        "trips_per_check": calls / (len(times) * CHECKS),
    }


def _checked(ours: Gate) -> float:
    began = time.perf_counter_ns()
    for _ in _repeated():
        ours.check(KEY)
    return (time.perf_counter_ns() - began) / 1000 / CHECKS


def _repeated() -> Iterator[int]:
    return iter(range(CHECKS))

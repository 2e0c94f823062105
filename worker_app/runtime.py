"""Runtime: what one process holds. Built once, closed once; tasks and doors take it from here, nothing else keeps state."""

import mmap
import queue
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import gevent.queue
import redis
from gevent import monkey
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from worker_app import errors
from worker_app.credentials.resolver import CredentialResolver
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.gate.refusal import rate_limited
from worker_app.gate_events import GateEvents
from worker_app.jobs import WaitingBatch
from worker_app.providers import registry
from worker_app.providers.connections import MOST_SLEEP_SECONDS, Connections, Resolve
from worker_app.providers.http_session import Session
from worker_app.records import Reader, Source
from worker_app.settings import Settings
from worker_app.store import clickhouse
from worker_app.store.clickhouse_metrics import ClickHouseMetrics
from worker_app.store.metrics import MetricSink
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics
from worker_app.sync.batch import Bounds
from worker_app.sync.outbox import Relay
from worker_app.vault import RingKeys, Vault

REDIS_TIMEOUT_SECONDS = 5.0
MOST_SLEEP_ALONE_SECONDS = 1.0  # that a limit may hold the only slot of a process
DOOR_CONNECTIONS = 5  # of a process that serves people: a command, the API's pool is larger


class Flag:
    """A flag that a process shares with the children that it forks: one byte of memory that belongs to all of them."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        """Raise it, for good."""
        self._byte[0] = 1

    def is_set(self) -> bool:
        """Whether somebody has raised it."""
        return self._byte[0] == 1


class Count:
    """A number that a process shares with the children that it forks: written by one, read by all."""

    def __init__(self) -> None:
        self._bytes = mmap.mmap(-1, 4)

    def set(self, number: int) -> None:
        """Make it `number`, 0 or more."""
        self._bytes[:] = number.to_bytes(4, "big")

    def get(self) -> int:
        """What it is; 0 before it was set."""
        return int.from_bytes(self._bytes[:], "big")


@dataclass(slots=True)
class Runtime:
    """The stores, the relay and the drain flag of this process."""

    settings: Settings
    postgres: Postgres
    locks: redis.Redis  # the Redis of fences and gates
    broker: redis.Redis  # the Redis that carries the messages: queue depth, presence, its epoch
    metrics: MetricSink  # the configured one
    name: str  # of this process, for ledgers and logs
    connections: Connections  # to providers
    relay: Relay | None = None
    draining: Flag = field(default_factory=Flag)

    @property
    def bounds(self) -> Bounds:
        """How long and how wide a batch may run."""
        return Bounds(
            lease_seconds=self.settings.batch_lease_seconds,
            deadline_seconds=self.settings.batch_deadline_seconds,
            cap=self.settings.sync_concurrency_per_provider,
        )

    @property
    def gate(self) -> Gate:
        """The rate-limit gate of this process."""
        return self.connections.gate

    def reader(self, source: Source, dataset: str, patience: Callable[[], float]) -> Reader:
        """Who reads a dataset of a source; one request of it sleeps `patience` seconds at most. Raises CredentialRefused."""
        return registry.provider(source.provider).reader(self.connections, source, dataset, patience)

    def blocked_by(self, batch: WaitingBatch) -> errors.RateLimited | None:
        """The window that the first request of a batch would meet, where it is too long to sleep it out in a slot."""
        bucket = registry.provider(batch.provider).buckets.get(batch.dataset)
        if bucket is None:
            return None
        key = GateKey(batch.provider, str(batch.org_id), batch.host)
        decision = self.gate.check(key, bucket)
        return None if decision.retry_in <= self.connections.most_sleep_seconds else rate_limited(key, decision)

    def wake_relay(self) -> None:
        """Tell the relay that this process has just committed a message that is owed."""
        if self.relay is not None:
            self.relay.wake()

    def close(self) -> None:
        """Give everything back. What the outbox owes stays for another process."""
        if self.relay is not None:
            self.relay.stop()
        self.connections.close()
        self.metrics.close()
        self.postgres.close()
        self.locks.close()
        self.broker.close()


def build(
    settings: Settings,
    *,
    role: str,
    pool_size: int = DOOR_CONNECTIONS,
    slots: int | None = None,
    processes: Count | None = None,
    draining: Flag | None = None,
) -> Runtime:
    """The runtime of a process in `role`, with at most `pool_size` connections to Postgres. Nothing is connected yet.

    `slots`: how many tasks it runs at once; None for a process that serves people. `processes` is how many there are in all
    fleets, as last heard; they share the providers' limits while Redis is away. Once `draining` is raised, nobody sleeps in the
    gate. Raises SettingsError when no database is set.
    """
    draining = draining or Flag()
    postgres = Postgres(settings.require_database(), pool_size=pool_size, application_name=f"dev-hops-{role}")
    return Runtime(
        settings=settings,
        postgres=postgres,
        metrics=_sink(settings),
        connections=connections(settings, postgres, slots=slots, processes=processes, is_stopping=draining.is_set),
        locks=redis_client(settings.redis_url.get_secret_value(), connections=pool_size),
        broker=redis_client(settings.broker_url, connections=pool_size),
        name=f"{role}@{socket.gethostname()}",
        draining=draining,
    )


def _sink(settings: Settings) -> MetricSink:
    url = settings.clickhouse_url
    return PostgresMetrics() if url is None else ClickHouseMetrics(clickhouse.connect(url.get_secret_value()))


def connections(
    settings: Settings,
    postgres: Postgres,
    *,
    slots: int | None = None,
    processes: Count | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Connections:
    """What a process needs to call providers. Nothing is connected yet."""
    proxy = settings.provider_proxy
    session = Session(
        slots=slots or DOOR_CONNECTIONS,
        ca_bundle=settings.provider_ca_bundle,
        proxies={"https": proxy.get_secret_value()} if proxy else None,
    )
    is_alone = slots is not None and not _is_patched()  # a child of prefork: nothing else runs while it sleeps
    most_sleep = MOST_SLEEP_ALONE_SECONDS if is_alone else MOST_SLEEP_SECONDS
    gate = _gate(settings, slots=slots, processes=processes, most_sleep=most_sleep, is_stopping=is_stopping)
    return Connections(settings, gate, _resolver(settings, postgres), session, most_sleep_seconds=most_sleep)


def _gate(
    settings: Settings,
    *,
    slots: int | None,
    processes: Count | None,
    most_sleep: float,
    is_stopping: Callable[[], bool],
) -> Gate:
    return Gate.from_url(
        settings.redis_url.get_secret_value(),
        slots=slots,
        outage=settings.gate_outage,
        workers=processes.get if processes else None,
        listener=GateEvents(),
        queue_class=_queue_class(),
        most_sleep=most_sleep,
        is_stopping=is_stopping,
    )


def _queue_class() -> type[Any]:
    """What a pool of connections waits in: under gevent its own, whose waiters it never forgets."""
    return gevent.queue.LifoQueue if _is_patched() else queue.LifoQueue


def _is_patched() -> bool:
    return bool(monkey.is_module_patched("threading"))


def _resolver(settings: Settings, postgres: Postgres) -> Resolve:
    """Opens credentials; that the key ring is set matters only to those who use one."""

    @cache
    def resolver() -> CredentialResolver:
        return CredentialResolver(postgres, Vault(RingKeys(settings.require_credential_keys())))

    return lambda org_id, credential_id, stamp: resolver().resolve(org_id, credential_id, stamp)


def redis_client(url: str, connections: int) -> redis.Redis:
    """A client whose every call has a deadline and whose pool waits instead of failing when it is full."""
    pool = redis.BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=REDIS_TIMEOUT_SECONDS,
        socket_timeout=REDIS_TIMEOUT_SECONDS,
        socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
        socket_keepalive=True,
        health_check_interval=25,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), 2),
    )
    return redis.Redis(connection_pool=pool)


_current: Runtime | None = None


def install(runtime: Runtime) -> None:
    """Make `runtime` this process's own."""
    global _current
    _current = runtime


def current() -> Runtime:
    """This process's runtime. Raises RuntimeError where none was installed: the worker was not started by us."""
    if _current is None:
        raise RuntimeError(
            "no runtime is installed: start workers by `dev-hops worker` or `celery --app worker_app worker`"
        )
    return _current

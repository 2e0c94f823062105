"""Runtime: what one process holds. Built once, closed once; tasks and doors take it from here, nothing else keeps state."""

import mmap
import socket
from dataclasses import dataclass, field

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from worker_app.providers import registry
from worker_app.records import Reader
from worker_app.settings import Settings
from worker_app.store.postgres import Postgres
from worker_app.sync.batch import Bounds
from worker_app.sync.outbox import Relay

REDIS_TIMEOUT_SECONDS = 5.0
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


@dataclass(slots=True)
class Runtime:
    """The stores, the relay and the drain flag of this process."""

    settings: Settings
    postgres: Postgres
    locks: redis.Redis  # the Redis of fences and gates
    broker: redis.Redis  # the Redis that carries the messages: queue depth, presence, its epoch
    name: str  # of this process, for ledgers and logs
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

    def reader(self, provider: str, dataset: str) -> Reader:
        """Who reads a dataset of a provider."""
        return registry.provider(provider).reader(self.settings, dataset)

    def wake_relay(self) -> None:
        """Tell the relay that this process has just committed a message that is owed."""
        if self.relay is not None:
            self.relay.wake()

    def close(self) -> None:
        """Give everything back. What the outbox owes stays for another process."""
        if self.relay is not None:
            self.relay.stop()
        self.postgres.close()
        self.locks.close()
        self.broker.close()


def build(settings: Settings, *, role: str, pool_size: int = DOOR_CONNECTIONS) -> Runtime:
    """The runtime of a process in `role`, with at most `pool_size` connections to Postgres. Nothing is connected yet.

    Raises SettingsError when no database is set.
    """
    return Runtime(
        settings=settings,
        postgres=Postgres(settings.require_database(), pool_size=pool_size, application_name=f"dev-hops-{role}"),
        locks=redis_client(settings.redis_url.get_secret_value(), connections=pool_size),
        broker=redis_client(settings.broker_url, connections=pool_size),
        name=f"{role}@{socket.gethostname()}",
    )


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

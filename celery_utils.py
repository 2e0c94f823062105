"""The performance profile of a Celery worker, and how a Celery app is built from it.

This file imports nothing of `worker_app`, so another project can use it alone:

    profile = PerformanceProfile(pool="gevent", autoscale=(20, 2))
    app = create_worker_app("shop", profile, broker_url="redis://localhost/0", queues=["default"])

Every field says which failure it prevents, whether the gevent pool honours it, and the page it follows. `gevent="by us"`
means that Celery alone does not keep the promise under gevent and that the caller passes the part that does.
Figures in the reasons were measured with Celery 5.7, kombu 5.7 and Redis 7 on two cores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from celery import Celery
from kombu.entity import Queue

CONFIGURATION = "https://docs.celeryq.dev/en/stable/userguide/configuration.html"
OPTIMIZING = "https://docs.celeryq.dev/en/stable/userguide/optimizing.html"
WORKERS = "https://docs.celeryq.dev/en/stable/userguide/workers.html"
REDIS_TRANSPORT = "https://docs.celeryq.dev/projects/kombu/en/stable/reference/kombu.transport.redis.html"

SPARE_CONNECTIONS = 10  # beside one per slot: the consumer's own, remote control, restores, heartbeats
SPARE_SQL_CONNECTIONS = 5  # beside one per slot: relay, heartbeat, probes
VISIBILITY_MARGIN_SECONDS = 300  # between the longest hard limit and the moment another worker may take the message

Honours = Literal["yes", "no", "by us"]


class ProfileError(ValueError):
    """The profile contradicts itself; the message holds every fault, one a line, with the arithmetic."""


def _promise(default: Any, *, celery: str | None, prevents: str, gevent: Honours, source: str) -> Any:
    return field(default=default, metadata={"celery": celery, "prevents": prevents, "gevent": gevent, "source": source})


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceProfile:
    """What one worker process promises. Frozen and checked when it is made; raises ProfileError with all faults."""

    pool: Literal["gevent", "prefork", "threads", "solo"] = _promise(
        "gevent",
        celery=None,
        gevent="yes",
        source=f"{WORKERS}#concurrency",
        prevents="a process per task that only waits for the network. The pool stays on the command line: Celery patches "
        "nothing when it comes from the configuration",
    )
    concurrency: int = _promise(
        4,
        celery=None,
        gevent="yes",
        source=f"{WORKERS}#concurrency",
        prevents="more running tasks than connections; slots of the pool when autoscale is not set",
    )
    autoscale: tuple[int, int] | None = _promise(
        None,
        celery=None,
        gevent="by us",
        source=f"{WORKERS}#autoscaling",
        prevents="idle slots that hold memory; (max, min) slots, wins over concurrency. Stock gevent grows by one slot a second",
    )
    prefetch_multiplier: int = _promise(
        1,
        celery="worker_prefetch_multiplier",
        gevent="yes",
        source=f"{OPTIMIZING}#prefetch-limits",
        prevents="a busy worker that hoards messages which an idle one could run: the window is multiplier x slots",
    )
    max_tasks_per_child: int = _promise(
        100,
        celery="worker_max_tasks_per_child",
        gevent="by us",
        source=f"{WORKERS}#max-tasks-per-child-setting",
        prevents="slow leaks that never end. Tasks per slot; stock gevent ignores it (60 tasks at limit 10: one process)",
    )
    max_memory_per_child_mb: int | None = _promise(
        None,
        celery="worker_max_memory_per_child",
        gevent="by us",
        source=f"{WORKERS}#max-memory-per-child-setting",
        prevents="the kernel's OOM kill. Megabytes; stock gevent ignores it (limit 100 MB: grew to 445 MB)",
    )
    acks_late: bool = _promise(
        True,
        celery="task_acks_late",
        gevent="yes",
        source=f"{CONFIGURATION}#task-acks-late",
        prevents="running tasks lost with a killed worker; tasks are idempotent through their lease",
    )
    reject_on_worker_lost: bool = _promise(
        True,
        celery="task_reject_on_worker_lost",
        gevent="no",
        source=f"{CONFIGURATION}#task-reject-on-worker-lost",
        prevents="a task acknowledged although its process died; prefork alone reaches it, gevent has one process",
    )
    ignore_result: bool = _promise(
        True,
        celery="task_ignore_result",
        gevent="yes",
        source=f"{CONFIGURATION}#task-ignore-result",
        prevents="connections and Redis memory for results that nobody reads; a task opts in",
    )
    result_expires_seconds: int = _promise(
        3600,
        celery="result_expires",
        gevent="yes",
        source=f"{CONFIGURATION}#result-expires",
        prevents="a Redis that fills with old results",
    )
    result_backend_max_retries: int = _promise(
        3,
        celery="result_backend_max_retries",
        gevent="yes",
        source=f"{CONFIGURATION}#result-backend-max-retries",
        prevents="a result lost to one lost connection. Dead without result_backend_always_retry: Celery asks that one first",
    )
    result_backend_always_retry: bool = _promise(
        True,
        celery="result_backend_always_retry",
        gevent="yes",
        source=f"{CONFIGURATION}#result-backend-always-retry",
        prevents="retries that are configured and never made",
    )
    result_backend_thread_safe: bool = _promise(
        True,
        celery="result_backend_thread_safe",
        gevent="yes",
        source=f"{CONFIGURATION}#result-backend-thread-safe",
        prevents="one new Redis connection per task: a thread-local backend is greenlet-local (380 connections for 400 tasks)",
    )
    broker_pool_limit: int = _promise(
        10,
        celery="broker_pool_limit",
        gevent="yes",
        source=f"{CONFIGURATION}#broker-pool-limit",
        prevents="connection storms of publishers. It bounds publishing, not consuming",
    )
    redis_max_connections: int | None = _promise(
        None,
        celery="redis_max_connections",
        gevent="yes",
        source=f"{CONFIGURATION}#redis-max-connections",
        prevents="unbounded result connections. None: max(50, slots + 10); below slots + 10 stores fail and are refused here",
    )
    visibility_timeout_seconds: int = _promise(
        3600,
        celery="broker_transport_options.visibility_timeout",
        gevent="by us",
        source=f"{REDIS_TRANSPORT}",
        prevents="a task that runs twice because it is longer than the timeout; stock gevent never gives a message back at all",
    )
    task_time_limit_seconds: int = _promise(
        3000,
        celery="task_time_limit",
        gevent="yes",
        source=f"{CONFIGURATION}#task-time-limit",
        prevents="a slot wedged for ever. Under gevent it fires when the task yields; soft limits never fire there",
    )
    eta_task_limit: int = _promise(
        1000,
        celery="worker_eta_task_limit",
        gevent="yes",
        source=f"{CONFIGURATION}#worker-eta-task-limit",
        prevents="memory full of countdown messages that a foreign producer sent",
    )
    send_task_events: bool = _promise(
        False,
        celery="worker_send_task_events",
        gevent="yes",
        source=f"{CONFIGURATION}#worker-send-task-events",
        prevents="event traffic without a reader; on where Flower watches",
    )
    cancel_on_connection_loss: bool = _promise(
        False,
        celery="worker_cancel_long_running_tasks_on_connection_loss",
        gevent="no",
        source=f"{CONFIGURATION}#worker-cancel-long-running-tasks-on-connection-loss",
        prevents="work thrown away in a short outage: the lease outlives it",
    )
    disable_prefetch: bool = _promise(
        False,
        celery="worker_disable_prefetch",
        gevent="no",
        source=f"{CONFIGURATION}#worker-disable-prefetch",
        prevents="idle gaps of two seconds per full window (36 s where 2 s are enough)",
    )

    def __post_init__(self) -> None:
        """Refuse a contradictory profile as a whole."""
        if faults := tuple(self.faults()):
            raise ProfileError("\n".join(faults))

    @property
    def slots(self) -> int:
        """The most tasks that run at once in this process: the maximum of autoscale, or the concurrency."""
        return self.autoscale[0] if self.autoscale else self.concurrency

    @property
    def broker_connections(self) -> int:
        """Connections that the broker transport may open: one acknowledgement per slot at once, and the spare ones.

        kombu's own 10 lost 8 to 16 acknowledgements per 400 tasks at 20 slots, and each lost one is a slot lost. Workers
        that settle through `worker_app.worker.deliveries` need four; the bound stays for those that do not.
        """
        return self.slots + SPARE_CONNECTIONS

    @property
    def result_connections(self) -> int:
        """Connections that the result backend may open."""
        return self.redis_max_connections or max(50, self.slots + SPARE_CONNECTIONS)

    @property
    def sql_pool_size(self) -> int:
        """Connections of the SQL pool; with fewer than slots the last greenlets wait for a connection and fail."""
        return self.slots + SPARE_SQL_CONNECTIONS

    def faults(self) -> list[str]:
        """Everything that is wrong with this profile, each with the value and the remedy; empty when it holds."""
        found = [
            f"{name} is {value}: it must be at least 1"
            for name in (
                "concurrency",
                "prefetch_multiplier",
                "max_tasks_per_child",
                "broker_pool_limit",
                "result_expires_seconds",
            )
            if (value := getattr(self, name)) < 1
        ]
        found += self._autoscale_faults()
        if self.result_connections < self.slots + SPARE_CONNECTIONS:
            found.append(
                f"redis_max_connections is {self.redis_max_connections}: {self.slots} slots + {SPARE_CONNECTIONS} spare "
                f"= {self.slots + SPARE_CONNECTIONS} are needed; raise it or leave it unset"
            )
        if self.visibility_timeout_seconds < self.task_time_limit_seconds + VISIBILITY_MARGIN_SECONDS:
            found.append(
                f"visibility_timeout_seconds is {self.visibility_timeout_seconds}: the longest hard limit "
                f"{self.task_time_limit_seconds} + {VISIBILITY_MARGIN_SECONDS} margin = "
                f"{self.task_time_limit_seconds + VISIBILITY_MARGIN_SECONDS} is the least; raise it or lower the limit"
            )
        if self.disable_prefetch:
            found.append(
                "disable_prefetch is true: it makes the worker idle for two seconds per full window; leave it false"
            )
        return found

    def _autoscale_faults(self) -> list[str]:
        if self.autoscale is None:
            return []
        highest, lowest = self.autoscale
        found = []
        if self.pool not in ("gevent", "prefork"):
            found.append(
                f"autoscale is set and pool is {self.pool}: only gevent and prefork can grow; unset one of them"
            )
        if not 1 <= lowest <= highest:
            found.append(f"autoscale is {highest},{lowest}: it is max,min with max >= min >= 1, as 20,2")
        return found

    def celery_settings(self) -> dict[str, Any]:
        """This profile in Celery's own setting names."""
        named = {
            item.metadata["celery"]: getattr(self, item.name)
            for item in fields(self)
            if item.metadata["celery"] and "." not in item.metadata["celery"]
        }
        megabytes = named.pop("worker_max_memory_per_child")
        return (
            named
            | {
                "redis_max_connections": self.result_connections,
                "worker_max_memory_per_child": None
                if megabytes is None
                else megabytes * 1024,  # Celery counts kibibytes
                "broker_transport_options": {
                    "max_connections": self.broker_connections,
                    "visibility_timeout": self.visibility_timeout_seconds,
                    # kombu's own sweep, which prefork has and gevent never reaches: every 10 s instead of every 100 s
                    "unacked_restore_throttle": 1,
                    "unacked_restore_interval": 10,
                    "socket_timeout": 30,  # seconds; with the check below, a half-open connection is seen instead of waited on
                    "socket_connect_timeout": 5,
                    "socket_keepalive": True,
                    "health_check_interval": 25,
                },
            }
        )


FIXED_SETTINGS: Mapping[str, Any] = {
    "task_serializer": "json",  # nothing that is pickled crosses the broker
    "result_serializer": "json",
    "accept_content": ["json"],
    "result_extended": False,  # results hold no arguments
    "task_track_started": False,
    "timezone": "UTC",
    "enable_utc": True,
    "broker_connection_retry": True,
    "broker_connection_retry_on_startup": True,  # a worker born in an outage waits
    "broker_connection_max_retries": None,  # and goes on waiting: a restart would cure nothing
    "worker_hijack_root_logger": False,
    "worker_proc_alive_timeout": 30.0,  # seconds; prefork children that import much need more than Celery's four
    "event_queue_expires": 60,  # seconds; events that nobody reads vanish
    "event_queue_ttl": 5,
    "task_create_missing_queues": False,  # a typed-over queue name is refused, not born without a consumer
    "task_default_queue_type": "classic",
}


def create_worker_app(
    name: str,
    profile: PerformanceProfile,
    *,
    broker_url: str,
    result_backend: str | None = None,
    queues: Sequence[str] = ("celery",),
    default_queue: str | None = None,
    include: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    app_class: type[Celery] = Celery,
) -> Celery:
    """A Celery app that keeps `profile`.

    `queues` are declared and no others are made; `default_queue` is the first of them unless named. `include` are the
    modules that hold the tasks. `settings` are Celery settings of the caller and win over the profile's.
    """
    app = app_class(name, include=list(include))
    app.conf.update(
        {
            "broker_url": broker_url,
            "result_backend": result_backend or broker_url,
            "task_queues": [Queue(queue) for queue in queues],
            "task_default_queue": default_queue or queues[0],
        }
    )
    app.conf.update(FIXED_SETTINGS)
    app.conf.update(profile.celery_settings())
    app.conf.update(settings or {})
    return app


def create_broker_app(name: str, *, broker_url: str, queues: Sequence[str] = ("celery",)) -> Celery:
    """A Celery app that knows the broker and nothing else: for Flower, which needs no tasks, database or results."""
    app = Celery(name)
    app.conf.update(FIXED_SETTINGS)
    app.conf.update(
        {
            "broker_url": broker_url,
            "result_backend": None,
            "task_queues": [Queue(queue) for queue in queues],
            "task_default_queue": queues[0],
        }
    )
    return app

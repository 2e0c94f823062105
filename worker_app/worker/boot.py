"""Boot: how a Celery worker becomes one of ours: one step of its blueprint, and Celery's signals for what comes after.

The checks, the schema, the key ring and the runtime are a step and no `worker_init` handler, because Celery logs what a handler
raises and goes on. gevent never sends `worker_process_init`, so there the step builds the runtime; prefork builds one in each
child, since no connection survives a fork. A worker that may not start says why and takes no message.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import redis
import structlog
from celery import Celery, bootsteps, signals
from celery.worker import WorkController
from prometheus_client import CollectorRegistry

from worker_app import broker_health, errors, fleets, logs, queues, runtime, telemetry, telemetry_children
from worker_app.credentials import canary
from worker_app.migrate import gate
from worker_app.settings import Settings
from worker_app.sync.outbox import Relay
from worker_app.worker import publish, running
from worker_app.worker.checks import EXIT_CONFIGURATION, refuse
from worker_app.worker.heartbeat import Heartbeat, Intake, ProbeFiles
from worker_app.worker.promises import Promises

EXIT_LATER = 75  # of sysexits.h: starting again later may do
CHILD_CONNECTIONS = 4  # of a prefork child: one task, its lease, the relay, one spare

log = structlog.get_logger(__name__)


class Boot:
    """The life of one worker process, as Celery's signals tell it."""

    def __init__(self, app: Celery, settings: Settings, kept: Promises) -> None:
        self.app = app
        self.settings = settings
        self.kept = kept
        self.profile = kept.profile
        self.heartbeat: Heartbeat | None = None
        self.broker: redis.Redis | None = None
        self.clock: publish.RedisClock | None = None
        self.node = ""
        self.draining = runtime.Flag()  # made before any fork
        self.processes = runtime.Count()  # of all fleets; made before any fork
        self.has_children = kept.profile.pool == "prefork"

    def connect(self) -> None:
        """Join the worker's blueprint and listen to its signals."""
        boot = self

        class BootStep(bootsteps.StartStopStep):
            """Waits for the schema and builds the runtime in a worker that may start; gives signs of life from then on."""

            requires = (boot.kept.step,)

            def create(self, parent: WorkController) -> None:
                boot.on_init(parent)

            def start(self, _: WorkController) -> None:
                if boot.heartbeat is not None:  # before the broker answers: a worker born in an outage waits and lives
                    boot.heartbeat.start()

        self.app.steps["worker"].add(BootStep)
        signals.worker_ready.connect(self.on_ready, weak=False)
        signals.worker_shutting_down.connect(self.on_shutting_down, weak=False)
        signals.worker_shutdown.connect(self.on_shutdown, weak=False)
        signals.worker_process_init.connect(self.on_child_init, weak=False)
        signals.worker_process_shutdown.connect(self.on_child_shutdown, weak=False)

    def on_init(self, sender: WorkController) -> None:
        """Refuse wrong settings (78), wait for the schema (75), try the key ring (78), then build what this process holds."""
        self.node = str(sender.hostname)
        try:
            consumed = self.settings.consumed_queues
            built = self._build(self.profile.sql_pool_size)
            telemetry.serve(self.settings.metrics_host, self.settings.metrics_port, self._numbers())
        except errors.SettingsError as error:
            refuse(str(error), EXIT_CONFIGURATION)
        files = ProbeFiles(self.settings.run_dir, "worker")
        files.ready(is_ready=False)
        files.alive()
        with refusals():
            gate.await_schema(self.settings, warn)
            require = canary.require if self._resolves else canary.require_of_given
            require(built.postgres, self.settings)
        telemetry.WORKER_SLOTS.set(self.profile.slots)
        self.broker, self.clock = built.broker, publish.RedisClock(built.broker)
        self.clock.refresh()  # children of prefork know what their parent has read
        self.app.enqueue_clock = self.clock.about_now
        running.connect(self.clock.about_now)
        if self.has_children:
            built.postgres.close()
        else:
            self._install(built)
        self.heartbeat = Heartbeat(
            files,
            built.broker,
            self.node,
            self._presence,
            intake=self._intake if self.profile.pool == "gevent" else None,
            consumed=consumed,
            watchdog_seconds=self.settings.worker_watchdog_seconds,
            processes=self.profile.slots if self.has_children else 1,
            heard_of=self._on_heard,
        )

    def on_ready(self, **_: Any) -> None:
        """Say that this worker takes work, and begin to publish what is owed; what may lose it is told."""
        if self.broker is not None:
            _tell_of_eviction(self.broker)
        if self.heartbeat is not None:
            self.heartbeat.takes_work(True)
        if not self.has_children:
            self._start_relay(runtime.current())

    def on_shutting_down(self, **_: Any) -> None:
        """Let running batches give themselves back at their next page. Runs inside a signal handler: only flags."""
        if self.heartbeat is not None:
            self.heartbeat.takes_work(False)
        self.draining.set()

    def on_shutdown(self, **_: Any) -> None:
        """Give everything back."""
        if self.heartbeat is not None:
            self.heartbeat.stop()
        if not self.has_children:
            runtime.current().close()
        elif self.settings.prometheus_multiproc_dir is not None:
            telemetry_children.remove(self.settings.prometheus_multiproc_dir)

    def on_child_init(self, **_: Any) -> None:
        """Build what one prefork child holds; a pool without children sends this signal for itself."""
        if self.has_children:
            built = self._build(CHILD_CONNECTIONS)
            self._install(built)
            self._start_relay(built)

    def on_child_shutdown(self, **_: Any) -> None:
        """Give back what the child held."""
        if self.has_children:
            runtime.current().close()

    @property
    def _resolves(self) -> bool:
        """Whether this worker opens credentials: batches of providers do."""
        return any(queue.startswith(queues.BATCH_PREFIX) for queue in self.settings.consumed_queues)

    def _build(self, pool_size: int) -> runtime.Runtime:
        slots = 1 if self.has_children else self.profile.slots
        return runtime.build(
            self.settings,
            role=self.settings.dev_hops_fleet,
            pool_size=pool_size,
            slots=slots,
            processes=self.processes,
            draining=self.draining,
        )

    def _install(self, built: runtime.Runtime) -> None:
        if fleets.publishes(self.settings.dev_hops_fleets[self.settings.dev_hops_fleet]):
            held = publish.held_queues(built.broker, queues.ALL_QUEUES, self.settings.outbox_max_depth)
            send = publish.publisher(self.app, built.broker, None if self.has_children else self.clock)
            built.relay = Relay(built.postgres, send, held, self.settings.outbox_poll_seconds)
        runtime.install(built)

    def _start_relay(self, built: runtime.Runtime) -> None:
        if built.relay is not None:
            built.relay.start()
            built.relay.wake()

    def _numbers(self) -> CollectorRegistry:
        """What this worker tells of itself; on prefork that of its children too."""
        folder = self.settings.prometheus_multiproc_dir
        if not self.has_children or not self.settings.metrics_port:
            return telemetry.WORKER
        if folder is None:
            log.warning(
                "telemetry.children_uncounted",
                reason=f"{telemetry_children.VARIABLE} is not set",
                remedy="start the worker by `dev-hops worker`, or set it to an empty folder of this worker alone",
            )
            return telemetry.WORKER
        return telemetry_children.registry(folder)

    def _on_heard(self, processes: int) -> None:
        """Redis has just answered the heartbeat."""
        self.processes.set(processes)
        if self.has_children and (folder := self.settings.prometheus_multiproc_dir):
            with suppress(OSError, ValueError):  # somebody has tidied up: no reason to give no sign of life any more
                telemetry_children.fold_dead(folder)
        if self.clock is not None:
            self.clock.refresh()

    def _presence(self) -> dict[str, object]:
        return {
            "fleet": self.settings.dev_hops_fleet,
            "queues": list(self.settings.consumed_queues),
            "slots": self.profile.slots,
            "running": running.by_queue(),
            **self.kept.hub_lag.presence(),
        }

    def _intake(self) -> Intake:
        return Intake(free_slots=self.kept.free_slots, last_received_at=self.kept.deliveries.last_taken_at)


@contextmanager
def refusals() -> Iterator[None]:
    """End the process for what keeps it from starting: 78 for what a person has to mend, 75 for what time may."""
    try:
        yield
    except (errors.SchemaAhead, errors.SettingsError, errors.StoreRefused) as error:
        refuse(str(error), EXIT_CONFIGURATION)
    except errors.TransientError as error:
        refuse(str(error), EXIT_LATER)


def _tell_of_eviction(broker: redis.Redis) -> None:
    """A line that nobody overlooks for a broker that throws messages away when it is full."""
    try:
        found = broker_health.capacity(broker)
    except errors.StoreAway:
        return
    if found.is_policy_safe is False:
        log.critical(
            "broker.may_evict",
            policy=found.eviction_policy,
            follows="a Redis that is full throws messages away",
            remedy="set maxmemory-policy noeviction",
        )


def warn(reason: str) -> None:
    """One line about a schema that is waited for."""
    log.warning("schema.not_current", reason=reason)


def configure_logs(settings: Settings) -> None:
    """Make Celery leave logging to us."""

    def configure(**_: Any) -> None:
        logs.configure(settings.log_level, settings.log_format)

    signals.setup_logging.connect(configure, weak=False)

"""The exporter: gauges of the whole fleet, read from Redis and Postgres when somebody asks for `/metrics`.

Every replica tells the same, so a query takes `max`, never `sum`. A source that does not answer takes its gauges with it: a
missing number raises an alert, an old one hides the fault.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import prometheus_client
import redis
import structlog
from prometheus_client import Gauge, Metric
from prometheus_client.registry import Collector

from worker_app import errors, queue_depth, telemetry
from worker_app.api import deadline
from worker_app.gate.gate import Gate
from worker_app.migrate import status
from worker_app.migrate.steps import Series
from worker_app.store import outbox, overview, vault_keys
from worker_app.store.postgres import Postgres
from worker_app.sync import gates

CACHE_SECONDS = 5.0  # two Prometheis and a person together cost one look at the stores
SOURCE_SECONDS = 2.0  # each; all three together stay below the 10 s that a scrape waits
QUEUE_GAUGES = (telemetry.QUEUE_READY, telemetry.QUEUE_OLDEST_AGE, telemetry.QUEUE_RUNNING, telemetry.QUEUE_CONSUMERS)
GATE_GAUGES = (telemetry.GATE_CLOSED, telemetry.GATE_RESUME, telemetry.GATE_BUDGET)
SCHEMA_GAUGES = (telemetry.SCHEMA_VERSION, telemetry.SCHEMA_CURRENT)
WORK_GAUGES = (
    telemetry.OUTBOX_ROWS,
    telemetry.OUTBOX_OLDEST_AGE,
    telemetry.SCHEDULE_LAG,
    telemetry.RUNS_STUCK,
    telemetry.SCHEDULES_QUARANTINED,
    telemetry.CREDENTIAL_ROWS,
)

log = structlog.get_logger(__name__)


class Exporter(Collector):
    """The registry of this process, with the gauges of the fleet at most five seconds old."""

    def __init__(
        self,
        postgres: Postgres,
        client: redis.Redis,
        gate: Gate,
        wanted: Sequence[Series],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._postgres = postgres
        self._wanted = wanted
        self._redis = client
        self._gate = gate
        self._clock = clock
        self._lock = threading.Lock()
        self._fresh_until = float("-inf")
        self._away: set[str] = set()
        self._known: set[str] = set()  # names of gauges that hold a value of now

    def text(self) -> bytes:
        """All of it in the text format of Prometheus. Answers whatever the stores do; one caller at a time reads them."""
        with self._lock:
            if self._clock() >= self._fresh_until:
                self._known.clear()
                self._read("redis", self._read_redis)
                self._read("gate", self._read_gate)
                self._read("postgres", self._read_postgres)
                self._fresh_until = self._clock() + CACHE_SECONDS
            return prometheus_client.generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """What stands in the registry, without the gauges of a source that is away."""
        # A gauge without labels always has a value, so it cannot be cleared: it is left out here.
        gauges = {_name(gauge) for gauge in (*QUEUE_GAUGES, *GATE_GAUGES, *SCHEMA_GAUGES, *WORK_GAUGES)}
        return (metric for metric in telemetry.EXPORTER.collect() if metric.name not in gauges - self._known)

    def _read(self, source: str, read: Callable[[], None]) -> None:
        try:
            with deadline.within(SOURCE_SECONDS, source):
                read()
        except errors.StoreAway as error:
            telemetry.EXPORTER_UP.labels(source).set(0)
            if source not in self._away:
                log.warning("exporter.source_away", source=source, error=str(error))
            self._away.add(source)
        else:
            telemetry.EXPORTER_UP.labels(source).set(1)
            if source in self._away:
                log.warning("exporter.source_back", source=source)
            self._away.discard(source)

    def _read_redis(self) -> None:
        found = queue_depth.depths(self._redis)
        for gauge in QUEUE_GAUGES:
            gauge.clear()
        for item in found:
            telemetry.QUEUE_READY.labels(item.queue).set(item.ready)
            telemetry.QUEUE_RUNNING.labels(item.queue).set(item.running)
            telemetry.QUEUE_CONSUMERS.labels(item.queue).set(item.consumers)
            if item.oldest_age_seconds is not None or not item.ready:  # else a foreign message, whose age nobody knows
                telemetry.QUEUE_OLDEST_AGE.labels(item.queue).set(item.oldest_age_seconds or 0.0)
        self._know(QUEUE_GAUGES)

    def _read_gate(self) -> None:
        """Over all organisations: how many keys are closed, when the last one opens, and the least that is left."""
        found = gates.views(gates.states(self._gate), ())
        for gauge in GATE_GAUGES:
            gauge.clear()
        closed = {view.key for view in found if view.is_closed}
        for key in {view.key for view in found}:
            telemetry.GATE_CLOSED.labels(key.provider, key.host).inc(key in closed)
        now = time.time()
        for view in reversed(found):  # the longest wait comes last
            if view.is_closed:
                telemetry.GATE_RESUME.labels(view.provider, view.host).set(now + view.retry_in)
        for view in sorted(found, key=lambda view: view.remaining or 0, reverse=True):  # the least comes last
            if view.remaining is not None:
                telemetry.GATE_BUDGET.labels(view.provider, view.host, view.bucket).set(view.remaining)
        self._know(GATE_GAUGES)

    def _read_postgres(self) -> None:
        usable = {}
        for seen in status.look(self._postgres, self._wanted):
            telemetry.SCHEMA_VERSION.labels(seen.store).set(seen.have)
            usable[seen.store] = seen.state in status.USABLE
        telemetry.SCHEMA_CURRENT.set(int(all(usable.values())))
        self._know(SCHEMA_GAUGES)
        if not usable["postgres"]:
            return  # the tables below may not be there
        with self._postgres.transaction() as tx:
            backlog = outbox.backlog(tx)
            lag = overview.schedule_lag_seconds(tx)
            stuck, quarantined = overview.stuck_runs(tx), overview.quarantined_schedules(tx)
            keys = vault_keys.uses(tx)
        telemetry.OUTBOX_ROWS.set(backlog.rows)
        telemetry.OUTBOX_OLDEST_AGE.set(backlog.oldest_age_seconds)
        telemetry.SCHEDULE_LAG.set(lag)
        telemetry.RUNS_STUCK.set(stuck)
        telemetry.SCHEDULES_QUARANTINED.set(quarantined)
        telemetry.CREDENTIAL_ROWS.clear()
        for use in keys:
            telemetry.CREDENTIAL_ROWS.labels(use.key_id).set(use.rows)
        self._know(WORK_GAUGES)

    def _know(self, gauges: tuple[Gauge, ...]) -> None:
        self._known.update(_name(gauge) for gauge in gauges)


def _name(gauge: Gauge) -> str:
    return str(next(iter(gauge.describe())).name)

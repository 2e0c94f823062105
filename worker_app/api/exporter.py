"""The exporter: gauges of the whole fleet, read from Redis and Postgres when somebody asks for `/metrics`.

Every replica tells the same, so a query takes `max`, never `sum`. A source that does not answer takes its gauges with it: a
missing number raises an alert, an old one hides the fault.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import prometheus_client
import redis
import structlog
from prometheus_client import Gauge, Metric
from prometheus_client.registry import Collector

from worker_app import broker_health, errors, queue_depth, telemetry
from worker_app.api import deadline, gauges
from worker_app.api.fresh import Fresh, Spans
from worker_app.fleets import BUILT_IN, Fleets
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateState
from worker_app.migrate import status
from worker_app.migrate.steps import Series
from worker_app.queue_depth import QueueDepth, Worker
from worker_app.store import freshness, outbox, overview, vault_keys
from worker_app.store.postgres import Postgres
from worker_app.sync import gates

CACHE_SECONDS = 5.0  # two Prometheis and a person together cost one look at the stores
KEPT = Spans(value=CACHE_SECONDS, fault=0.0, patience=10.0)  # a scrape waits no longer
SOURCE_SECONDS = 2.0  # each; all three together stay below the 10 s that a scrape waits
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


def _name(gauge: Gauge) -> str:
    return str(next(iter(gauge.describe())).name)


READ_GAUGES = frozenset(_name(gauge) for group in (*gauges.ALL, SCHEMA_GAUGES, WORK_GAUGES) for gauge in group)


class Exporter(Collector):
    """The registry of this process, with the gauges of the fleet at most five seconds old."""

    def __init__(
        self,
        postgres: Postgres,
        client: redis.Redis,
        gate: Gate,
        wanted: Sequence[Series],
        fleets: Fleets = BUILT_IN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._postgres = postgres
        self._wanted = wanted
        self._redis = client
        self._gate = gate
        self._fleets = fleets
        self._look = Fresh(self._read_all, KEPT, clock)
        self._away: set[str] = set()
        self._known: set[str] = set()  # names of gauges that hold a value of now
        self._present: list[Worker] = []
        self._depths: list[QueueDepth] = []
        self._states: list[GateState] = []
        self._has_tables = False
        self._has_told = False  # that Redis keeps to itself what a gauge needs

    def text(self) -> bytes:
        """All of it in the text format of Prometheus. Answers whatever the stores do; one caller at a time reads them.

        Raises StoreAway where that one does not come back.
        """
        self._look.get()
        return prometheus_client.generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """What stands in the registry, without the gauges whose source has not told them."""
        # A gauge without labels always has a value, so it cannot be cleared: it is left out here.
        return (metric for metric in telemetry.EXPORTER.collect() if metric.name not in READ_GAUGES - self._known)

    def _read_all(self) -> None:
        self._known.clear()
        answers = [
            self._read("redis", self._read_redis),
            self._read("gate", self._read_gate),
            self._read("postgres", self._read_postgres),
        ]
        if all(answers) and self._has_tables:
            self._read("postgres", self._read_fleets)

    def _read(self, source: str, read: Callable[[], None]) -> bool:
        """Whether the source has answered."""
        try:
            with deadline.within(SOURCE_SECONDS, source):
                read()
        except errors.StoreAway as error:
            telemetry.EXPORTER_UP.labels(source).set(0)
            if source not in self._away:
                log.warning("exporter.source_away", source=source, error=str(error))
            self._away.add(source)
            return False
        telemetry.EXPORTER_UP.labels(source).set(1)
        if source in self._away:
            log.warning("exporter.source_back", source=source)
        self._away.discard(source)
        return True

    def _read_redis(self) -> None:
        self._present = queue_depth.workers(self._redis)
        self._depths = queue_depth.depths(self._redis, present=self._present)
        self._know(gauges.tell_queues(self._depths))
        self._know(gauges.tell_unacked(broker_health.unacked(self._redis)))
        found = broker_health.capacity(self._redis)
        self._know(gauges.tell_capacity(found))
        if not self._has_told and None in (found.is_policy_safe, found.clients_ratio):
            self._has_told = True
            log.warning(
                "exporter.redis_tells_little", missing="eviction policy or maxclients", remedy="allow INFO or CONFIG"
            )

    def _read_gate(self) -> None:
        self._states = gates.states(self._gate)
        self._know(gauges.tell_gates(gates.views(self._states, ())))

    def _read_fleets(self) -> None:
        """The work of the fleets: told only where all three sources have answered."""
        held = queue_depth.held(self._states, self._postgres.transaction)
        depths = [replace(item, held=min(held.get(item.queue, 0), item.ready)) for item in self._depths]
        self._know(gauges.tell_fleets(queue_depth.by_fleet(self._fleets, depths, self._present), depths))

    def _read_postgres(self) -> None:
        usable = {}
        for seen in status.look(self._postgres, self._wanted):
            telemetry.SCHEMA_VERSION.labels(seen.store).set(seen.have)
            usable[seen.store] = seen.state in status.USABLE
        telemetry.SCHEMA_CURRENT.set(int(all(usable.values())))
        self._know(SCHEMA_GAUGES)
        self._has_tables = usable["postgres"]
        if self._has_tables:
            self._read_tables()

    def _read_tables(self) -> None:
        with self._postgres.transaction() as tx:
            backlog = outbox.backlog(tx)
            lag = overview.schedule_lag_seconds(tx)
            stuck, quarantined = overview.stuck_runs(tx), overview.quarantined_schedules(tx)
            keys = vault_keys.uses(tx)
            deferred, ages = freshness.deferred_batches(tx), freshness.watermark_ages(tx)
        telemetry.OUTBOX_ROWS.set(backlog.rows)
        telemetry.OUTBOX_OLDEST_AGE.set(backlog.oldest_age_seconds)
        telemetry.SCHEDULE_LAG.set(lag)
        telemetry.RUNS_STUCK.set(stuck)
        telemetry.SCHEDULES_QUARANTINED.set(quarantined)
        telemetry.CREDENTIAL_ROWS.clear()
        for use in keys:
            telemetry.CREDENTIAL_ROWS.labels(use.key_id).set(use.rows)
        self._know((*WORK_GAUGES, *gauges.tell_freshness(deferred, ages)))

    def _know(self, told: Sequence[Gauge]) -> None:
        self._known.update(_name(gauge) for gauge in told)

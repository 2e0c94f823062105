"""Autoscale: how much work a fleet has, for what decides how many workers it gets, and whether each fleet has any.

No number is better than a wrong one: a store that does not answer is a 503, and what was true before is not told again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import redis
from flask import Response, jsonify
from werkzeug.exceptions import NotFound

from worker_app import errors, queue_depth
from worker_app.api import deadline
from worker_app.api.fresh import Fresh, Spans
from worker_app.cli.output import document
from worker_app.fleets import Fleets
from worker_app.gate.gate import Gate
from worker_app.migrate import status
from worker_app.queue_depth import FleetDepth, Worker
from worker_app.store.postgres import Postgres
from worker_app.sync import gates

STORE_SECONDS = 1.0  # each; both stay below the 3 s that KEDA waits
KEPT = Spans(value=5.0, fault=1.0, patience=2.5)  # seconds; every fleet is asked for each 15 s, and all cost one look


@dataclass(frozen=True, slots=True)
class FleetWork:
    """What the autoscaler reads. The field names are public."""

    work: int  # messages ready + tasks running, without what a closed gate holds back
    oldest_age_seconds: float | None  # of what is ready and not held back; None: nobody can tell


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """Who is there of a fleet. The field names are public."""

    fleet: str
    workers: int
    slots: int


@dataclass(frozen=True, slots=True)
class WorkersHealth:
    """All fleets. The field names are public."""

    status: str  # ok, or unavailable where a fleet has no worker
    fleets: tuple[FleetHealth, ...]


class Autoscale:
    """The views of `/autoscale/{fleet}` and `/healthz/workers`; all requests of a moment share one look at the stores."""

    def __init__(
        self,
        postgres: Postgres,
        client: redis.Redis,
        gate: Gate,
        known: Fleets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._postgres = postgres
        self._redis = client
        self._gate = gate
        self._known = known
        self._depths = Fresh(self._read_depths, KEPT, clock)
        self._present = Fresh(self._read_present, KEPT, clock)

    def views(self) -> dict[str, Callable[..., Response]]:
        """The views by the names of their operations."""
        return {"autoscale": self.fleet, "workers_health": self.workers}

    def fleet(self, fleet: str) -> Response:
        """The work of one fleet and the age of its oldest message."""
        if fleet not in self._known:
            raise NotFound(f"there is no fleet {fleet}; there are {', '.join(self._known)}")
        found = self._depths.get()[fleet]
        return jsonify(document(FleetWork(found.work, found.oldest_age_seconds)))

    def workers(self) -> Response:
        """The fleets with their workers and slots; 503 where one has no worker."""
        present = self._present.get()
        found = tuple(_health(name, present) for name in self._known)
        is_served = all(item.workers for item in found)
        answer = jsonify(document(WorkersHealth("ok" if is_served else "unavailable", found)))
        answer.status_code = 200 if is_served else 503
        return answer

    def _read_depths(self) -> Mapping[str, FleetDepth]:
        with deadline.within(STORE_SECONDS, "Postgres"):  # asked even where no gate is closed and nothing depends on it
            schema = status.of_postgres(self._postgres)
        if schema.state not in status.USABLE:
            raise errors.SchemaBehind(schema.message)
        with deadline.within(STORE_SECONDS, "a store"):
            found = queue_depth.fleet_depths(
                self._redis, self._known, gates.states(self._gate), self._postgres.transaction
            )
        return {item.fleet: item for item in found}

    def _read_present(self) -> list[Worker]:
        with deadline.within(STORE_SECONDS, "Redis"):
            return queue_depth.workers(self._redis)


def _health(name: str, present: list[Worker]) -> FleetHealth:
    members = [worker for worker in present if worker.fleet == name]
    return FleetHealth(name, len(members), sum(worker.slots for worker in members))

"""Status: the whole service on one page, or as one document. Read only; a store that is away leaves its part out.

`gather` reads, `warnings` judges, `templates/status.html` draws. The page needs no script: it asks the browser to load it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import redis
from flask import Response, jsonify, make_response, render_template, request

from worker_app import errors, queue_depth
from worker_app.api import asking, deadline, progress, warnings
from worker_app.api.progress import RunProgress
from worker_app.cli.output import document
from worker_app.fleets import BUILT_IN, Fleets
from worker_app.gate.gate import Gate
from worker_app.gate.key import WHOLE_KEY, GateState
from worker_app.migrate import status as schemas
from worker_app.migrate.status import Status as Schema
from worker_app.migrate.steps import Series
from worker_app.queue_depth import QueueDepth, Worker
from worker_app.store import fence, overview, sources
from worker_app.store.overview import SHOWN, Overview
from worker_app.store.postgres import Postgres
from worker_app.store.sources import Org
from worker_app.sync import gates
from worker_app.sync.gates import GateView

REFRESH_SECONDS = 5
REDIS_SECONDS, POSTGRES_SECONDS = 2.0, 3.0  # together what a person waits for a page that shows a fault
OK = "ok"  # what a store that answers says
LAG_FACTOR = 2  # dispatch periods; a slot may wait for one of them


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet as its workers tell. The field names are public."""

    fleet: str
    workers: int
    slots: int
    running: int  # tasks
    work: int | None  # messages ready + tasks running - what is held back; None: it cannot be told
    oldest_age_seconds: float | None  # of what is ready and not held back; 0.0: nothing is. None: nobody can tell
    unserved: tuple[str, ...]  # its queues that no worker of any fleet consumes


@dataclass(frozen=True, slots=True)
class Gates:
    """What the gate knows. The field names are public."""

    known: int  # keys: a provider, an organisation, a host
    closed: int  # of them
    shown: tuple[GateView, ...]  # closed buckets first, the longest wait on top, then open ones whose quota is known


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """Everything that the page shows. The field names are public; what a store that is away would tell is None."""

    at: datetime
    warnings: tuple[str, ...]  # what needs a person, each with its remedy
    postgres: str  # ok, or why not
    redis: str  # ok, or why not
    schema: Schema | None  # of Postgres
    fleets: tuple[Fleet, ...] | None
    queues: tuple[QueueDepth, ...] | None
    gates: Gates | None
    work: Overview | None
    progress: tuple[RunProgress, ...] | None  # of the open runs of `work`, in their order


class StatusPage:
    """The view of `/status`."""

    def __init__(
        self,
        postgres: Postgres,
        client: redis.Redis,
        locks: redis.Redis,
        gate: Gate,
        wanted: Sequence[Series],
        *,
        dispatch_interval_seconds: int,
        known: Fleets = BUILT_IN,
    ) -> None:
        self._postgres = postgres
        self._redis = client
        self._locks = locks
        self._gate = gate
        self._wanted = wanted
        self._known = known
        self._latest_lag_seconds = LAG_FACTOR * dispatch_interval_seconds

    def show(self) -> Response:
        """The page, or the document where JSON is asked for."""
        asked = asking.query()
        form = asked["format"] or request.accept_mimetypes.best_match(["text/html", "application/json"])
        if form in ("json", "application/json"):
            return jsonify(document(self.gather()))
        refresh = REFRESH_SECONDS if asked["refresh"] != "off" else None
        return make_response(render_template("status.html", status=self.gather(), refresh_seconds=refresh))

    def gather(self) -> ServiceStatus:
        """Read both stores, each with its own deadline, and judge what they hold."""
        postgres_said, seen, work, orgs = self._of_postgres()
        states = self._of_gate()
        redis_said, depths, present = self._of_redis(self._held(states, work))
        found = [said for said in (postgres_said, redis_said) if said != OK]
        found += warnings.of_gates(states is not None) if redis_said == OK else ()
        found += warnings.of_queues(depths or (), self._known)
        found += warnings.of_beat(self._is_beat_there()) if depths is not None else ()
        found += [said for schema in seen for said in warnings.of_schema(schema)]
        found += warnings.of_work(work, self._latest_lag_seconds) if work else ()
        return ServiceStatus(
            at=work.at if work else datetime.now(UTC),
            warnings=tuple(found),
            postgres=postgres_said,
            redis=redis_said,
            schema=seen[0] if seen else None,
            fleets=None if present is None else fleets_of(present, depths or (), self._known),
            queues=depths,
            gates=None if states is None else gates_of(gates.views(states, orgs)),
            work=work,
            progress=progress.of_runs(work.open_runs, work.waits, work.at) if work else None,
        )

    def _of_redis(
        self, held: Mapping[str, int] | None
    ) -> tuple[str, tuple[QueueDepth, ...] | None, list[Worker] | None]:
        try:
            with deadline.within(REDIS_SECONDS, "Redis"):
                return OK, tuple(queue_depth.depths(self._redis, held=held)), queue_depth.workers(self._redis)
        except errors.StoreAway as error:
            return f"{error}; nothing is lost, only late", None, None

    def _of_gate(self) -> list[GateState] | None:
        """What the gate knows; None where its Redis does not say."""
        try:
            with deadline.within(REDIS_SECONDS, "Redis"):
                return gates.states(self._gate)
        except errors.StoreAway:
            return None

    def _held(self, states: Sequence[GateState] | None, work: Overview | None) -> dict[str, int] | None:
        """What gates hold back; None where a store does not tell."""
        if states is None or work is None:
            return None
        try:
            with deadline.within(POSTGRES_SECONDS, "Postgres"):
                return queue_depth.held(states, self._postgres.transaction)
        except errors.StoreAway:
            return None

    def _is_beat_there(self) -> bool | None:
        """Whether a beat holds the lock; None where its Redis does not say."""
        try:
            with deadline.within(REDIS_SECONDS, "Redis"):
                return fence.is_taken(self._locks, "beat")
        except (errors.StoreAway, redis.RedisError):
            return None

    def _of_postgres(self) -> tuple[str, tuple[Schema, ...], Overview | None, list[Org]]:
        seen: tuple[Schema, ...] = ()
        try:
            with deadline.within(POSTGRES_SECONDS, "Postgres"):
                seen = schemas.look(self._postgres, self._wanted)
                if seen[0].state not in schemas.USABLE:
                    return OK, seen, None, []
                with self._postgres.transaction() as tx:
                    return OK, seen, overview.read(tx), sources.orgs(tx)
        except errors.StoreAway as error:
            return f"{error}; look whether it runs and whether DATABASE_URL leads to it", seen, None, []


def fleets_of(present: Sequence[Worker], depths: Sequence[QueueDepth], known: Fleets) -> tuple[Fleet, ...]:
    """The fleets that this program knows, those without a worker included, and those that only a worker names."""
    every = {name: known.get(name, ()) for name in (*known, *sorted(worker.fleet for worker in present))}
    consumed = {queue for worker in present for queue in worker.queues}
    is_held_told = all(item.held is not None for item in depths)
    return tuple(
        Fleet(
            fleet=found.fleet,
            workers=found.workers,
            slots=found.slots,
            running=found.running,
            work=found.work if is_held_told else None,
            oldest_age_seconds=found.oldest_age_seconds,
            unserved=tuple(queue for queue in every[found.fleet] if queue not in consumed),
        )
        for found in queue_depth.by_fleet(every, depths, present)
    )


def gates_of(views: Sequence[GateView]) -> Gates:
    """What the page shows of the gates: an open key as a whole has nothing to tell beside its buckets."""
    telling = [view for view in views if view.is_closed or (view.bucket != WHOLE_KEY and view.limit is not None)]
    return Gates(
        known=len({view.key for view in views}),
        closed=len({view.key for view in views if view.is_closed}),
        shown=tuple(telling[:SHOWN]),
    )

"""Resources: queues, runs, schedules and sources as JSON, by the same names as `--json` of the command line, and sync now."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import NotFound, RequestEntityTooLarge

from worker_app import errors, jobs, queue_depth
from worker_app.api import deadline, problems, reading
from worker_app.cli.output import document
from worker_app.records import Source
from worker_app.runtime import Runtime
from worker_app.store import runs, schedules, sources
from worker_app.store.postgres import Transaction
from worker_app.sync import gates

HIGHEST_LIMIT = 1000  # runs
LONGEST_KEY = 255  # characters of an idempotency key


@dataclass(frozen=True, slots=True)
class SyncOrder:
    """What `POST /syncs` asks for."""

    source: str  # name or id
    org: str | None  # name or id
    key: str | None  # Idempotency-Key: the same one twice is one run


class Resources:
    """The JSON views. Each reads its stores and returns what they hold."""

    def __init__(self, runtime: Runtime, reader: reading.Reader) -> None:
        self._runtime = runtime
        self._reader = reader

    def install(self, app: Flask) -> None:
        """Add the routes."""
        routes: tuple[tuple[str, Callable[..., Response], str], ...] = (
            ("/queues", self.queues, "GET"),
            ("/runs", self.runs, "GET"),
            ("/runs/<uuid:run_id>", self.run, "GET"),
            ("/schedules", self.schedules, "GET"),
            ("/sources", self.sources, "GET"),
            ("/syncs", self.sync, "POST"),
        )
        for path, view, method in routes:
            app.add_url_rule(path, view_func=view, methods=[method])

    def queues(self) -> Response:
        """Every queue: ready, age, running, held by a closed gate, consumers."""
        reading.parameters()
        held = self._held()
        with deadline.within(reading.REQUEST_SECONDS, "Redis"):
            return jsonify(document(queue_depth.depths(self._runtime.broker, held=held)))

    def runs(self) -> Response:
        """The latest runs, the newest first."""
        given = reading.parameters("limit", "org")
        limit = reading.whole_number(given, "limit", 20, HIGHEST_LIMIT)
        with self._reader.transaction() as tx:
            return jsonify(document(runs.views(tx, org_id=_org_id(tx, given.get("org")), limit=limit)))

    def run(self, run_id: UUID) -> Response:
        """One run."""
        reading.parameters()
        with self._reader.transaction() as tx:
            found = runs.views(tx, run_id=run_id)
        if not found:
            raise NotFound(f"there is no run {run_id}; GET /runs shows the latest")
        return jsonify(document(found[0]))

    def schedules(self) -> Response:
        """The scheduled jobs, the next one first."""
        given = reading.parameters("org")
        with self._reader.transaction() as tx:
            return jsonify(document(schedules.schedules(tx, _org_id(tx, given.get("org")))))

    def sources(self) -> Response:
        """The sources with their state."""
        given = reading.parameters("org")
        with self._reader.transaction() as tx:
            return jsonify(document(sources.sources(tx, _org_id(tx, given.get("org")))))

    def sync(self) -> Response:
        """Ask for a run of one source now: 202 with its id, or 409 with the id of the run that is active."""
        order = _order()
        with self._reader.transaction() as tx:
            found = _source(tx, order)
            run_id = jobs.keyed_run_id(found.org_id, order.key) if order.key else uuid4()
            try:
                runs.add_manual(tx, found.org_id, found.provider, found.id, run_id)
            except errors.Conflict:
                active = runs.active_run(tx, found.id)
                if active is not None:
                    return _busy(active)
                runs.add_manual(tx, found.org_id, found.provider, found.id, run_id)  # it ended between the two looks
        self._runtime.wake_relay()
        answer = jsonify({"run_id": str(run_id)})
        answer.status_code = 202
        answer.headers["Location"] = f"/runs/{run_id}"
        return answer

    def _held(self) -> dict[str, int] | None:
        """What gates hold back; None where a store does not tell."""
        try:
            with deadline.within(reading.REQUEST_SECONDS, "Redis"):
                states = gates.states(self._runtime.gate)
            return queue_depth.held(states, self._reader.transaction)
        except (errors.TransientError, errors.SchemaAhead):
            return None


def _busy(active: UUID) -> Response:
    said = f"run {active} of this source is active; GET /runs/{active} shows how far it is"
    return problems.response(409, said, kind="run-active", active_run_id=str(active))


def _order() -> SyncOrder:
    """The order in the body. Raises UsageError naming the field, its value and the remedy."""
    if len(request.get_data()) >= (request.max_content_length or 0):
        raise RequestEntityTooLarge  # a body in chunks is cut there without a word
    body = request.get_json()
    if not isinstance(body, dict):
        raise errors.UsageError('the body is no object: send {"source": NAME_OR_ID}')
    if unknown := sorted(body.keys() - {"source", "org"}):
        raise errors.UsageError(f"{unknown[0]} is no field of a sync: there are source and org")
    source, org, key = body.get("source"), body.get("org"), request.headers.get("Idempotency-Key")
    if not isinstance(source, str) or not source:
        raise errors.UsageError(f"source is {source!r}: give the name or the id of a source, from GET /sources")
    if org is not None and not isinstance(org, str):
        raise errors.UsageError(f"org is {org!r}: give the name or the id of an organisation, or leave it out")
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        raise errors.UsageError(f"Idempotency-Key has {len(key)} characters: give 1 to {LONGEST_KEY}")
    return SyncOrder(source, org, key)


def _org_id(tx: Transaction, org: str | None) -> UUID | None:
    with _naming("org", org):
        return None if org is None else sources.org(tx, org).id


def _source(tx: Transaction, order: SyncOrder) -> Source:
    org_id = _org_id(tx, order.org)
    with _naming("source", order.source):
        return sources.source(tx, order.source, org_id)


@contextmanager
def _naming(field: str, value: str | None) -> Iterator[None]:
    """Say which field a store's UsageError is about."""
    try:
        yield
    except errors.UsageError as error:
        raise errors.UsageError(f"{field} is {value!r}: {error}") from error

"""Resources: queues and sources as JSON, by the same names as `--json` of the command line."""

from collections.abc import Callable

from flask import Response, jsonify

from worker_app import errors, queue_depth
from worker_app.api import asking, deadline, naming, reading
from worker_app.cli.output import document
from worker_app.runtime import Runtime
from worker_app.store import sources
from worker_app.sync import gates


class Resources:
    """The views of `/queues` and `/sources`. Each reads its store and returns what it holds."""

    def __init__(self, runtime: Runtime, reader: reading.Reader) -> None:
        self._runtime = runtime
        self._reader = reader

    def views(self) -> dict[str, Callable[..., Response]]:
        """The views by the names of their operations."""
        return {"queues": self.queues, "sources": self.sources}

    def queues(self) -> Response:
        """Every queue: ready, age, running, held by a closed gate, consumers."""
        held = self._held()
        with deadline.within(reading.REQUEST_SECONDS, "Redis"):
            return jsonify(document(queue_depth.depths(self._runtime.broker, held=held)))

    def sources(self) -> Response:
        """The sources with their state."""
        with self._reader.transaction() as tx:
            return jsonify(document(sources.sources(tx, naming.org_id(tx, asking.query()["org"]))))

    def _held(self) -> dict[str, int] | None:
        """What gates hold back; None where a store does not tell."""
        try:
            with deadline.within(reading.REQUEST_SECONDS, "Redis"):
                states = gates.states(self._runtime.gate)
            return queue_depth.held(states, self._reader.transaction)
        except (errors.TransientError, errors.SchemaAhead):
            return None

"""Gates over HTTP: what is known of each, as `dev-hops gate list --json` prints it, and an end before its time."""

from collections.abc import Callable

from flask import Response, jsonify, request

from worker_app.api import asking, deadline, reading
from worker_app.cli.output import document
from worker_app.runtime import Runtime
from worker_app.store import sources
from worker_app.sync import gates


class Gates:
    """The views of `/gates`."""

    def __init__(self, runtime: Runtime, reader: reading.Reader) -> None:
        self._runtime = runtime
        self._reader = reader

    def views(self) -> dict[str, Callable[..., Response]]:
        """The views by the names of their operations."""
        return {"gates": self.list, "clear_gate": self.clear}

    def list(self) -> Response:
        """Every bucket of every gate, the closed ones first."""
        with deadline.within(reading.REQUEST_SECONDS, "Redis"):
            states = gates.states(self._runtime.gate)
        with self._reader.transaction() as tx:
            return jsonify(document(gates.views(states, sources.orgs(tx))))

    def clear(self, provider: str, org: str, host: str) -> Response:
        """Open a gate before its time: what was open, and how many batches go on."""
        bucket = asking.query()["bucket"]
        with self._reader.transaction() as tx:
            key = gates.key_of(provider, org, host, sources.orgs(tx))
        by = f"HTTP from {request.remote_addr}"
        with deadline.within(reading.REQUEST_SECONDS, "Redis or Postgres"):
            done = gates.clear(self._runtime.postgres, self._runtime.gate, key, bucket, by=by)
        self._runtime.wake_relay()
        return jsonify(document(done))

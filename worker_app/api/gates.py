"""Gates over HTTP: what is known of each, as `dev-hops gate list --json` prints it, and an end before its time."""

from flask import Flask, Response, jsonify, request

from worker_app.api import deadline, reading
from worker_app.cli.output import document
from worker_app.gate.key import WHOLE_KEY
from worker_app.runtime import Runtime
from worker_app.store import sources
from worker_app.sync import gates


class Gates:
    """The views of `/gates`."""

    def __init__(self, runtime: Runtime, reader: reading.Reader) -> None:
        self._runtime = runtime
        self._reader = reader

    def install(self, app: Flask) -> None:
        """Add the routes."""
        app.add_url_rule("/gates", endpoint="gates", view_func=self.list)
        app.add_url_rule("/gates/<provider>/<org>/<host>", endpoint="gate", view_func=self.clear, methods=["DELETE"])

    def list(self) -> Response:
        """Every bucket of every gate, the closed ones first."""
        reading.parameters()
        with deadline.within(reading.REQUEST_SECONDS, "Redis"):
            states = gates.states(self._runtime.gate)
        with self._reader.transaction() as tx:
            return jsonify(document(gates.views(states, sources.orgs(tx))))

    def clear(self, provider: str, org: str, host: str) -> Response:
        """Open a gate before its time: what was open, and how many batches go on."""
        bucket = reading.parameters("bucket").get("bucket", WHOLE_KEY)
        with self._reader.transaction() as tx:
            key = gates.key_of(provider, org, host, sources.orgs(tx))
        by = f"HTTP from {request.remote_addr}"
        with deadline.within(reading.REQUEST_SECONDS, "Redis or Postgres"):
            done = gates.clear(self._runtime.postgres, self._runtime.gate, key, bucket, by=by)
        self._runtime.wake_relay()
        return jsonify(document(done))

"""Runs over HTTP: listed, shown with their batches and their reasons, asked for, ended and tried again."""

from collections.abc import Callable
from uuid import UUID, uuid4

from flask import Response, jsonify
from werkzeug.exceptions import NotFound

from worker_app import errors, jobs
from worker_app.api import asking, deadline, naming, paging, problems, reading
from worker_app.api.answers import Asked
from worker_app.api.bodies import SyncOrder
from worker_app.cli.explain import bounds_of
from worker_app.cli.output import document
from worker_app.jobs import RunState
from worker_app.runtime import Runtime
from worker_app.store import batch_views, runs
from worker_app.store.postgres import Transaction
from worker_app.store.runs import RunView
from worker_app.sync import control, explain


class Runs:
    """The views of `/runs` and `/syncs`."""

    def __init__(self, runtime: Runtime, reader: reading.Reader) -> None:
        self._runtime = runtime
        self._reader = reader

    def views(self) -> dict[str, Callable[..., Response]]:
        """The views by the names of their operations."""
        return {
            "runs": self.list,
            "run": self.show,
            "run_batches": self.batches,
            "explain_run": self.explain,
            "cancel_run": self.cancel,
            "retry_run": self.retry,
            "sync": self.sync,
        }

    def list(self) -> Response:
        """A page of the runs, the newest first."""
        asked = asking.query()
        limit, after = asked["limit"], paging.mark(asked["cursor"])
        with self._reader.transaction() as tx:
            org_id, source_id = naming.org_id(tx, asked["org"]), None
            if asked["source"] is not None:
                source = naming.source(tx, asked["source"], asked["org"])
                org_id, source_id = source.org_id, source.id
            state = None if asked["state"] is None else RunState(asked["state"])
            found = runs.views(tx, org_id=org_id, limit=limit + 1, source_id=source_id, state=state, after=after)
        return paging.page(found, limit)

    def show(self, run_id: UUID) -> Response:
        """One run."""
        with self._reader.transaction() as tx:
            return jsonify(document(_run(tx, run_id)))

    def batches(self, run_id: UUID) -> Response:
        """A page of the batches of a run."""
        asked = asking.query()
        limit, after = asked["limit"], paging.mark(asked["cursor"])
        with self._reader.transaction() as tx:
            _run(tx, run_id)
            found = batch_views.of_run(tx, run_id, limit=limit + 1, after=after)
        return paging.page(found, limit)

    def explain(self, run_id: UUID) -> Response:
        """Why a run is where it is."""
        with self._reader.transaction() as tx:
            _run(tx, run_id)
        over = self._runtime
        with deadline.within(reading.REQUEST_SECONDS, "Postgres or Redis"):
            found = explain.explain(over.postgres, over.broker, over.locks, bounds_of(over.settings), str(run_id))
        return jsonify(document(found))

    def cancel(self, run_id: UUID) -> Response:
        """End a run: 202 with the run, whose running batches end after their page."""
        return self._changed(run_id, control.cancel)

    def retry(self, run_id: UUID) -> Response:
        """Try again what failed of a run: 202 with the run, which is open again."""
        return self._changed(run_id, control.retry)

    def sync(self) -> Response:
        """Ask for a run of one source now: 202 with its id, or 409 with the id of the run that is active."""
        order, key = asking.body(SyncOrder), asking.key()
        with self._reader.transaction() as tx:
            found = naming.source(tx, order.source, order.org)
            run_id = jobs.keyed_run_id(found.org_id, key) if key else uuid4()
            try:
                runs.add_manual(tx, found.org_id, found.provider, found.id, run_id)
            except errors.Conflict:
                active = runs.active_run(tx, found.id)
                if active is not None:
                    return _busy(active)
                runs.add_manual(tx, found.org_id, found.provider, found.id, run_id)  # it ended between the two looks
        self._runtime.wake_relay()
        answer = jsonify(document(Asked(run_id)))
        answer.status_code = 202
        answer.headers["Location"] = f"/runs/{run_id}"
        return answer

    def _changed(self, run_id: UUID, change: Callable[..., object]) -> Response:
        """Apply a change of `sync.control` to a run that is there, and show it."""
        with self._reader.transaction() as tx:
            _run(tx, run_id)
        with deadline.within(reading.REQUEST_SECONDS, "Postgres"):
            change(self._runtime.postgres, run_id, cap=self._runtime.settings.sync_concurrency_per_provider)
        self._runtime.wake_relay()
        with self._reader.transaction() as tx:
            answer = jsonify(document(_run(tx, run_id)))
        answer.status_code = 202
        return answer


def _run(tx: Transaction, run_id: UUID) -> RunView:
    found = runs.views(tx, run_id=run_id)
    if not found:
        raise NotFound(f"run_id is {run_id}: there is no such run; GET /runs shows the latest")
    return found[0]


def _busy(active: UUID) -> Response:
    said = f"run {active} of this source is active; GET /runs/{active} shows how far it is"
    return problems.response(409, said, kind="run-active", active_run_id=str(active))

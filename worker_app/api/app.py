"""The Flask application: which paths there are, who may ask, and what every answer carries."""

import secrets
import time
from collections.abc import Callable
from importlib import metadata

import jinja2
import prometheus_client
import structlog
from flask import Flask, Response, g, jsonify, redirect, request
from flask.json.provider import DefaultJSONProvider
from werkzeug.wrappers import Response as AnyResponse

from worker_app.api import (
    asking,
    auth,
    autoscale,
    exporter,
    gates,
    health,
    openapi,
    problems,
    readable,
    reading,
    resources,
    routes,
    runs,
    schedules,
    status,
)
from worker_app.api.answers import Alive, Ready
from worker_app.cli.output import document
from worker_app.migrate import steps
from worker_app.runtime import Runtime
from worker_app.store.postgres import Postgres
from worker_app.sync.explain_findings import countdown

LARGEST_BODY_BYTES = 1 << 20
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",  # every answer is of this moment, and most are for one person
}
# Nothing is loaded and nothing runs: the style stands in the page under a number used once, the icon is part of the page.
POLICY = (
    "default-src 'none'; style-src 'nonce-{nonce}'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
FILTERS = ("duration", "relative", "moment", "later", "count", "states", "short_name")  # of `readable`, for templates

log = structlog.get_logger(__name__)


class _FieldOrder(DefaultJSONProvider):
    sort_keys = False  # the order of the fields is that of the command line


def create_app(runtime: Runtime, probing: Postgres, sleep: Callable[[float], None] = time.sleep) -> Flask:
    """The door over `runtime`. `probing` is a pool of its own for probes and scrapes: busy requests must not fail them.

    `sleep` makes a wrong token wait. Nothing is connected before the first request.
    """
    app = _bare()
    guard = _guard(runtime, sleep)
    app.before_request(_begin)
    app.before_request(guard.check)
    app.before_request(asking.check)
    app.after_request(_end)
    app.context_processor(lambda: {"nonce": g.nonce})
    problems.install(app)
    _install_probes(app, runtime, probing)
    described = openapi.document(routes.OPERATIONS, routes.PLACES, metadata.version("dev-hops"))
    routes.install(
        app,
        {
            "login": guard.login,
            "root": lambda: redirect("/status", 303),
            "status": _page(runtime).show,
            "openapi": lambda: jsonify(described),
        },
    )
    scaling = autoscale.Autoscale(probing, runtime.broker, runtime.gate, runtime.settings.dev_hops_fleets)
    routes.install(app, scaling.views())
    reader = reading.Reader(runtime.postgres)
    for part in (resources.Resources, runs.Runs, schedules.Schedules, gates.Gates):
        routes.install(app, part(runtime, reader).views())
    return app


def _bare() -> Flask:
    """An application without a path."""
    app = Flask("worker_app.api", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY_BYTES
    app.json = _FieldOrder(app)
    app.jinja_env.undefined = jinja2.StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters |= {name: getattr(readable, name) for name in FILTERS} | {"countdown": countdown}
    return app


def _guard(runtime: Runtime, sleep: Callable[[float], None]) -> auth.Guard:
    token, autoscale_token = runtime.settings.api_token, runtime.settings.autoscale_token
    return auth.Guard(
        token.get_secret_value() if token else None,
        sleep,
        autoscale_token=autoscale_token.get_secret_value() if autoscale_token else None,
    )


def _page(runtime: Runtime) -> status.StatusPage:
    return status.StatusPage(
        runtime.postgres,
        runtime.broker,
        runtime.locks,
        runtime.gate,
        steps.configured(runtime.settings),
        dispatch_interval_seconds=runtime.settings.dispatch_interval_seconds,
        known=runtime.settings.dev_hops_fleets,
    )


def _install_probes(app: Flask, runtime: Runtime, probing: Postgres) -> None:
    """The open paths."""
    wanted = steps.configured(runtime.settings)
    readiness = health.Readiness(probing, runtime.broker, wanted)
    exported = exporter.Exporter(probing, runtime.broker, runtime.gate, wanted, runtime.settings.dev_hops_fleets)

    def livez() -> Response:
        return jsonify(document(Alive("ok")))

    def readyz() -> Response:
        is_ready, parts = readiness.look()
        answer = jsonify(document(Ready("ok" if is_ready else "unavailable", parts)))
        answer.status_code = 200 if is_ready else 503
        return answer

    def metrics() -> Response:
        return Response(exported.text(), content_type=prometheus_client.CONTENT_TYPE_LATEST)

    routes.install(app, {"livez": livez, "readyz": readyz, "metrics": metrics})


def _begin() -> None:
    g.began = time.perf_counter()
    g.nonce = secrets.token_urlsafe(16)


def _end(answer: AnyResponse) -> AnyResponse:
    """Harden the answer, and write one line about it: no query and no header, since both may hold a secret."""
    answer.headers.update(HEADERS)
    answer.headers["Content-Security-Policy"] = POLICY.format(nonce=g.nonce)
    is_asked_often = request.endpoint in auth.OPEN_ENDPOINTS or request.endpoint == auth.AUTOSCALE_ENDPOINT
    is_routine = is_asked_often and answer.status_code == 200
    (log.debug if is_routine else log.info)(
        "http.request",
        method=request.method,
        path=request.path,
        status=answer.status_code,
        seconds=round(time.perf_counter() - g.began, 4),
        remote=request.remote_addr,
    )
    return answer

"""The Flask application: which paths there are, who may ask, and what every answer carries."""

import secrets
import time
from collections.abc import Callable

import jinja2
import prometheus_client
import structlog
from flask import Flask, Response, g, jsonify, redirect, request
from flask.json.provider import DefaultJSONProvider
from werkzeug.wrappers import Response as AnyResponse

from worker_app.api import auth, exporter, gates, health, problems, readable, reading, resources, status
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

log = structlog.get_logger(__name__)


class _FieldOrder(DefaultJSONProvider):
    sort_keys = False  # the order of the fields is that of the command line


def create_app(runtime: Runtime, probing: Postgres, sleep: Callable[[float], None] = time.sleep) -> Flask:
    """The door over `runtime`. `probing` is a pool of its own for probes and scrapes: busy requests must not fail them.

    `sleep` makes a wrong token wait. Nothing is connected before the first request.
    """
    app = Flask("worker_app.api", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY_BYTES
    app.json = _FieldOrder(app)
    app.jinja_env.undefined = jinja2.StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters |= {
        name: getattr(readable, name) for name in ("duration", "relative", "moment", "count", "states", "short_name")
    } | {"countdown": countdown}
    token = runtime.settings.api_token
    guard = auth.Guard(token.get_secret_value() if token else None, sleep)
    app.before_request(_begin)
    app.before_request(guard.check)
    app.after_request(_end)
    app.context_processor(lambda: {"nonce": g.nonce})
    problems.install(app)
    _install_probes(app, runtime, probing)
    app.add_url_rule("/login", endpoint="login", view_func=guard.login, methods=["POST"])
    page = status.StatusPage(
        runtime.postgres,
        runtime.broker,
        runtime.locks,
        runtime.gate,
        steps.configured(runtime.settings),
        dispatch_interval_seconds=runtime.settings.dispatch_interval_seconds,
    )
    app.add_url_rule("/status", view_func=page.show)
    app.add_url_rule("/", endpoint="root", view_func=lambda: redirect("/status", 303))
    reader = reading.Reader(runtime.postgres)
    resources.Resources(runtime, reader).install(app)
    gates.Gates(runtime, reader).install(app)
    return app


def _install_probes(app: Flask, runtime: Runtime, probing: Postgres) -> None:
    """The open paths."""
    wanted = steps.configured(runtime.settings)
    readiness = health.Readiness(probing, runtime.broker, wanted)
    exported = exporter.Exporter(probing, runtime.broker, runtime.gate, wanted)

    def livez() -> Response:
        return jsonify({"status": "ok"})

    def readyz() -> Response:
        is_ready, parts = readiness.look()
        answer = jsonify({"status": "ok" if is_ready else "unavailable", "parts": document(parts)})
        answer.status_code = 200 if is_ready else 503
        return answer

    def metrics() -> Response:
        return Response(exported.text(), content_type=prometheus_client.CONTENT_TYPE_LATEST)

    for view in (livez, readyz, metrics):
        app.add_url_rule(f"/{view.__name__}", view_func=view)


def _begin() -> None:
    g.began = time.perf_counter()
    g.nonce = secrets.token_urlsafe(16)


def _end(answer: AnyResponse) -> AnyResponse:
    """Harden the answer, and write one line about it: no query and no header, since both may hold a secret."""
    answer.headers.update(HEADERS)
    answer.headers["Content-Security-Policy"] = POLICY.format(nonce=g.nonce)
    is_routine = request.endpoint in auth.OPEN_ENDPOINTS and answer.status_code == 200
    (log.debug if is_routine else log.info)(
        "http.request",
        method=request.method,
        path=request.path,
        status=answer.status_code,
        seconds=round(time.perf_counter() - g.began, 4),
        remote=request.remote_addr,
    )
    return answer

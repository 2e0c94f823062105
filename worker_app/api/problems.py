"""Problems: every error of the door as one small JSON document that says what to do, and never what is inside.

Page: https://www.rfc-editor.org/rfc/rfc9457
"""

from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask, Response, json, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from worker_app import errors, secret
from worker_app.api.operation import PROBLEM

RETRY_SECONDS = "5"  # a store that restarts is back by then
BLANK = "about:blank"
PREFIX = "urn:dev-hops:"
DETAILS = {  # what werkzeug says of these speaks to a browser, or of our code
    400: "the request cannot be read: its body has to be valid JSON",
    404: "there is nothing at {path}; ids are given whole here, and GET /openapi.json lists what there is",
    405: "{path} does not take {method}",
    413: "the body is larger than {limit} bytes; send less",
    415: "the body is not JSON; send it with Content-Type: application/json",
    500: "this is a fault of the program; its log says more",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A `type` that tells programs apart what the status does not."""

    status: int
    says: str  # when it comes
    remedy: str


KINDS: dict[str, Kind] = {
    "run-active": Kind(
        409, "the source is busy: `active_run_id` names its run", "wait for that run, or cancel it, then ask again"
    ),
    "store-away": Kind(
        503, "Postgres or Redis does not answer", "ask again after `Retry-After` seconds; nothing is lost"
    ),
    "schema": Kind(503, "the schema is behind, or newer than this program can use", "run the migration job"),
    "token-not-set": Kind(
        401, "the operator has set no token, so nobody comes in", "give `API_TOKEN` or `API_TOKEN_FILE` to the API"
    ),
}


@dataclass(frozen=True, slots=True)
class Mapped:
    """How a class of our errors, and each class below it, is answered."""

    error: type[errors.DevHopsError]
    status: int
    kind: str | None = None


# The closest class above an error decides; what has none here is a fault of the program, a 500.
MAPPED: tuple[Mapped, ...] = (
    Mapped(errors.UsageError, 400),
    Mapped(errors.Conflict, 409),
    Mapped(errors.TransientError, 503, "store-away"),
    Mapped(errors.SchemaBehind, 503, "schema"),
    Mapped(errors.SchemaAhead, 503, "schema"),
)


def response(status: int, detail: str, *, kind: str | None = None, **members: object) -> Response:
    """A problem document, redacted. `kind` is a stable word for programs where the status alone does not tell enough."""
    body = {
        "type": f"{PREFIX}{kind}" if kind else BLANK,
        "title": HTTP_STATUS_CODES[status],
        "status": status,
        "detail": secret.sanitized(detail),
        **members,
    }
    answer = Response(json.dumps(body), status, mimetype=PROBLEM)
    if status == 503:
        answer.headers["Retry-After"] = RETRY_SECONDS
    return answer


def install(app: Flask) -> None:
    """Answer every error of `app` by a problem document. What nobody foresaw is logged by Flask and is a 500."""
    for mapped in MAPPED:
        app.register_error_handler(mapped.error, _answerer(mapped))
    app.register_error_handler(HTTPException, _http)


def _answerer(mapped: Mapped) -> Callable[[Exception], Response]:
    return lambda error: response(mapped.status, str(error), kind=mapped.kind)


def _http(error: HTTPException) -> Response:
    status = error.code or 500
    words = {"path": request.path, "method": request.method, "limit": request.max_content_length}
    is_said = status == 404 and request.url_rule is not None  # by a view of ours, which knows what is missing
    said = str(error.description) if is_said or status not in DETAILS else DETAILS[status].format(**words)
    answer = response(status, said)
    for name, value in error.get_headers():
        if name != "Content-Type":
            answer.headers[name] = value  # Allow, with 405
    return answer

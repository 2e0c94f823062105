"""Problems: every error of the door as one small JSON document that says what to do, and never what is inside.

Page: https://www.rfc-editor.org/rfc/rfc9457
"""

from flask import Flask, Response, json, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from worker_app import errors, secret

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = "5"  # a store that restarts is back by then
DETAILS = {  # what werkzeug says of these speaks to a browser, or of our code
    400: "the request cannot be read: its body has to be valid JSON",
    404: "there is nothing at {path}; there are /status, /queues, /gates, /runs, /runs/ID, /schedules, /sources and POST /syncs",
    405: "{path} does not take {method}",
    413: "the body is larger than {limit} bytes; send less",
    415: "the body is not JSON; send it with Content-Type: application/json",
    500: "this is a fault of the program; its log says more",
}


def response(status: int, detail: str, *, kind: str | None = None, **members: object) -> Response:
    """A problem document, redacted. `kind` is a stable word for programs where the status alone does not tell enough."""
    body = {
        "type": f"urn:dev-hops:{kind}" if kind else "about:blank",
        "title": HTTP_STATUS_CODES[status],
        "status": status,
        "detail": secret.sanitized(detail),
        **members,
    }
    return Response(json.dumps(body), status, mimetype=MEDIA_TYPE)


def install(app: Flask) -> None:
    """Answer every error of `app` by a problem document. What nobody foresaw is logged by Flask and is a 500."""
    app.register_error_handler(errors.UsageError, lambda error: response(400, str(error)))
    app.register_error_handler(errors.Conflict, lambda error: response(409, str(error)))
    app.register_error_handler(errors.TransientError, _later)
    app.register_error_handler(errors.SchemaAhead, lambda error: response(503, str(error), kind="schema"))
    app.register_error_handler(HTTPException, _http)


def _later(error: Exception) -> Response:
    kind = "schema" if isinstance(error, errors.SchemaBehind) else "store-away"
    answer = response(503, str(error), kind=kind)
    answer.headers["Retry-After"] = RETRY_SECONDS
    return answer


def _http(error: HTTPException) -> Response:
    status = error.code or 500
    words = {"path": request.path, "method": request.method, "limit": request.max_content_length}
    said = DETAILS[status].format(**words) if status in DETAILS else str(error.description)
    answer = response(status, said)
    for name, value in error.get_headers():
        if name != "Content-Type":
            answer.headers[name] = value  # Allow, with 405
    return answer

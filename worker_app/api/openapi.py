"""OpenAPI: the document of the door, made from the operations and from the dataclasses that they return.

It is behind the token like everything that is no probe: the contract opens the three probes and nothing else, and whoever
makes a client has the token anyway. Pure: the operations in, a document out.
Page: https://spec.openapis.org/oas/v3.1.1.html
"""

from collections.abc import Iterable, Mapping
from typing import Any

from werkzeug.http import HTTP_STATUS_CODES

from worker_app.api import problems
from worker_app.api.asking import LONGEST_KEY
from worker_app.api.operation import HTML, JSON, PROBLEM, Access, Answer, Operation, Parameter
from worker_app.api.schemas import Schemas

VERSION = "3.1.1"
SECURITY: dict[Access, list[dict[str, list[str]]]] = {
    Access.OPEN: [],
    Access.TOKEN: [{"token": []}],
    Access.AUTOSCALE: [{"autoscale": []}, {"token": []}],
}
COOKIE: tuple[dict[str, list[str]], ...] = ({"cookie": []},)
SCHEMES: dict[str, dict[str, str]] = {
    "token": {"type": "http", "scheme": "bearer", "description": "the value of `API_TOKEN`"},
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "dev_hops_proof",
        "description": "given to a browser by `POST /login` for 12 hours; it may read and nothing else",
    },
    "autoscale": {
        "type": "http",
        "scheme": "bearer",
        "description": "the value of `AUTOSCALE_TOKEN`; it opens `/autoscale` and nothing else",
    },
}
HEADERS: dict[str, str] = {
    "Link": 'the next page as `<ADDRESS>; rel="next"`; left out on the last one',
    "Location": "where it is",
    "Set-Cookie": "the cookie",
}
SEEN = {  # what a problem status means here
    400: "a parameter or field is unknown or wrong; `detail` names it, its value and the remedy",
    401: "no token, or not the token",
    404: "there is no such thing",
    409: "it is busy, over, or exists already; `detail` names it",
    413: "the body is too large",
    415: "the body is not JSON",
    503: "a store is away, or its schema cannot be used",
}
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "What went wrong, as RFC 9457 has it.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {
            "type": "string",
            "description": "tells apart what the status does not",
            "enum": [problems.BLANK, *(f"{problems.PREFIX}{kind}" for kind in problems.KINDS)],
        },
        "title": {"type": "string", "description": "the status in words"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what is wrong, and what to do; never a secret"},
        "active_run_id": {"type": "string", "format": "uuid", "description": "of `urn:dev-hops:run-active`"},
    },
    "additionalProperties": False,
}


def document(operations: Iterable[Operation], places: Mapping[str, str], version: str) -> dict[str, Any]:
    """The document of these operations; `places` says what each parameter of a path is."""
    schemas = Schemas()
    schemas.components["Problem"] = PROBLEM_SCHEMA
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, places, schemas)
    return {
        "openapi": VERSION,
        "info": {"title": "dev-hops", "version": version, "description": "Runs, schedules, sources, queues and gates."},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.components.items())), "securitySchemes": SCHEMES},
    }


def _operation(operation: Operation, places: Mapping[str, str], schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.group],
        "summary": operation.says,
        "security": _security(operation),
        "responses": _responses(operation, schemas),
    }
    if parameters := _parameters(operation, places):
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": schemas.of(operation.body)}}}
    if operation.form:
        described["requestBody"] = {"content": {"application/x-www-form-urlencoded": {"schema": _form(operation.form)}}}
    return described


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    is_read = operation.access is Access.TOKEN and operation.method == "GET"
    return [*SECURITY[operation.access], *(COOKIE if is_read else ())]


def _form(names: Iterable[str]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def _parameters(operation: Operation, places: Mapping[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "description": places[name], "schema": _place(kind)}
        for name, kind in operation.places.items()
    ]
    found += [
        {"name": item.name, "in": "query", "description": item.says, "schema": _schema(item)}
        for item in operation.parameters
    ]
    if operation.is_keyed:
        said = "the same key twice is one and the same thing, so that a request may be sent again"
        bounds = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY}
        found.append({"name": "Idempotency-Key", "in": "header", "description": said, "schema": bounds})
    return found


def _place(kind: str) -> dict[str, Any]:
    return {"type": "string", "format": "uuid"} if kind == "uuid" else {"type": "string", "minLength": 1}


def _schema(item: Parameter) -> dict[str, Any]:
    given = {"enum": list(item.choices) or None, "default": item.default, "minimum": item.least, "maximum": item.most}
    kind = {"type": "integer" if item.kind is int else "string"}
    return kind | {name: value for name, value in given.items() if value is not None}


def _responses(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    found = {str(answer.status): _answer(answer, schemas) for answer in operation.answers}
    for status in operation.problem_statuses:
        found[str(status)] = _both(found.get(str(status)), _problem(status))
    return dict(sorted(found.items()))


def _both(answer: dict[str, Any] | None, problem: dict[str, Any]) -> dict[str, Any]:
    """A status that an answer and a problem share; the media type tells them apart."""
    if answer is None:
        return problem
    said = f"{answer['description']}; or {problem['description']}"
    return {**problem, "description": said, "content": {**answer["content"], **problem["content"]}}


def _answer(answer: Answer, schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.says}
    if answer.media:
        described["content"] = {
            media: {"schema": schemas.of(answer.holds) if media == JSON else {"type": "string"}}
            for media in answer.media
        }
    if answer.headers:
        described["headers"] = {
            name: {"description": HEADERS[name], "schema": {"type": "string"}} for name in answer.headers
        }
    return described


def _problem(status: int) -> dict[str, Any]:
    content: dict[str, Any] = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if status == 401:  # a browser gets the form
        content[HTML] = {"schema": {"type": "string"}}
    described: dict[str, Any] = {"description": SEEN.get(status, HTTP_STATUS_CODES[status]), "content": content}
    if status == 503:
        described["headers"] = {
            "Retry-After": {"description": "seconds until it is worth another try", "schema": {"type": "string"}}
        }
    return described

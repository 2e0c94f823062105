"""GitHub's official description as a check that a fake takes: `FakeGitHub(world, check=github_description.reduced())`.

Requests and responses are both examined, REST by OpenAPI and GraphQL by the schema. Statuses that the description leaves out
and its prose has for every operation are in `EVERYWHERE`; any other one may only come from a fault.
"""

import json
import re
from functools import cache, lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from graphql import (
    GraphQLAbstractType,
    GraphQLError,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLSchema,
    InlineFragmentNode,
    build_schema,
    execute_sync,
    parse,
    validate,
)
from openapi_schema_validator import OAS30Validator, oas30_format_checker
from referencing import Registry
from referencing.jsonschema import DRAFT4

import worker_app.demo
from worker_app.demo.messages import Request, Response

PAYLOADS = Path(__file__).parent / "payloads" / "github"
WHOLE = Path(__file__).parent.parent / ".cache" / "npm"  # what `make contract-test` unpacks
URI = "urn:github:openapi"
EVERYWHERE = {
    "301": "https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects",
    "304": "https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api",
    "401": "https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api",
    "403": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api",
    "404": "https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api",
    "410": "https://docs.github.com/rest/issues/issues: issues are disabled",
    "429": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api",
}
PERIODS = {"created"}  # called a date-time there; the prose has the periods of a search: >=2026-01-01


class Description:
    """One version of the description."""

    def __init__(self, openapi: dict[str, Any], schema: GraphQLSchema) -> None:
        self._openapi = _with_null(openapi)
        self._paths: dict[str, Any] = self._openapi["paths"]
        self._schema = schema
        self._registry: Registry[Any] = Registry().with_resource(URI, DRAFT4.create_resource(self._openapi))
        self._validator = lru_cache(maxsize=512)(self._make_validator)
        self._refusals = lru_cache(maxsize=64)(self._validate_query)

    def __call__(self, request: Request, response: Response) -> None:
        """AssertionError where the request or the response breaks the description."""
        if request.path == "/graphql":
            self._check_query(request)
            if not response.is_misbehaviour:
                self._check_data(request, response)
            return
        template = self._template(request)
        operation = self._paths[template][request.method.lower()]

        self._check_parameters(request, operation)
        if not response.is_misbehaviour:
            self._check_response(request, response, operation)

    def _check_query(self, request: Request) -> None:
        text = (request.document or {}).get("query", "")
        refusals = self._refusals(text)
        assert not refusals, f"GraphQL query: {refusals[0]}"

    def _check_data(self, request: Request, response: Response) -> None:
        """The data is what the schema allows for the query: executed once more with the answer as its root, it stays the same."""
        if str(response.status) in EVERYWHERE:
            return
        answer = json.loads(response.body or b"null")
        assert response.status == HTTPStatus.OK, f"GraphQL response {response.status}"
        assert {"data", "errors"} & set(answer), "GraphQL response without data and errors"
        if answer.get("data") is None:
            return
        again = execute_sync(
            self._schema,
            parse(request.document["query"]),
            root_value=answer["data"],
            variable_values=request.document.get("variables") or {},
            field_resolver=lambda value, info, **_: value[info.path.key],
            type_resolver=_kind,
        )
        assert not again.errors, f"GraphQL response: {again.errors and again.errors[0]}"
        assert again.data == answer["data"], "GraphQL response: not what the query asks for"

    def _validate_query(self, text: str) -> tuple[str, ...]:
        try:
            return tuple(refusal.message for refusal in validate(self._schema, parse(text)))
        except GraphQLError as refused:
            return (refused.message,)

    def _template(self, request: Request) -> str:
        path = re.sub(r"^/repositories/\d+", "/repos/owner/name", request.path)
        path = re.sub(r"^/organizations/\d+/", "/orgs/name/", re.sub(r"^/user/\d+/", "/users/name/", path))
        fitting = [
            template
            for template, operations in self._paths.items()
            if request.method.lower() in operations and _pattern(template).fullmatch(path)
        ]
        assert fitting, (
            f"{request.method} {request.path} is no operation of the description (see openapi_operations.txt)"
        )
        return min(fitting, key=lambda template: template.count("{"))

    def _check_parameters(self, request: Request, operation: dict[str, Any]) -> None:
        known = [self._followed(one) for one in operation.get("parameters", ())]
        schemas = {one["name"]: one["schema"] for one in known if one["in"] == "query"}
        for name, value in request.query:
            where = f"{request.method} {request.path}: parameter {name}={value}"
            assert name in schemas, f"{where} is not in the description"
            if name in PERIODS:
                continue
            validator = OAS30Validator(schemas[name], format_checker=oas30_format_checker)
            fault = next(validator.iter_errors(_number(value, schemas[name])), None)
            assert fault is None, f"{where}: {fault and fault.message}"

    def _check_response(self, request: Request, response: Response, operation: dict[str, Any]) -> None:
        status, where = str(response.status), f"{request.method} {request.path}: response {response.status}"
        described = operation["responses"].get(status)
        assert described or status in EVERYWHERE, f"{where} is not in the description"
        content = self._followed(described).get("content", {}) if described else {}
        if "application/json" in content:
            self._check_body(response, content["application/json"]["schema"], where)

    def _check_body(self, response: Response, schema: dict[str, Any], where: str) -> None:
        fault = next(self._validator(json.dumps(schema)).iter_errors(json.loads(response.body or b"null")), None)
        if fault is not None:
            place = "/".join(map(str, fault.absolute_path))
            raise AssertionError(f"{where}: {place}: {fault.message[:300]}")

    def _make_validator(self, schema: str) -> OAS30Validator:
        absolute = json.loads(schema.replace('"#/', f'"{URI}#/'))
        return OAS30Validator(absolute, registry=self._registry, format_checker=oas30_format_checker)

    def _followed(self, part: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in part:
            return part
        _, _, kind, name = part["$ref"].split("/")
        found: dict[str, Any] = self._openapi["components"][kind][name]
        return found


def _with_null(part: Any) -> Any:
    """A copy in which what is `nullable` may be null although its `enum` or `oneOf` forgot it, as recorded answers have it."""
    if isinstance(part, list):
        return [_with_null(one) for one in part]
    if not isinstance(part, dict):
        return part
    copied = {key: _with_null(value) for key, value in part.items()}
    if copied.get("nullable") is True and isinstance(copied.get("enum"), list):
        copied["enum"].append(None)
    if copied.get("nullable") is True and isinstance(copied.get("oneOf"), list):
        copied["oneOf"].append({"enum": [None], "nullable": True})
    return copied


def _kind(value: Any, info: GraphQLResolveInfo[Any], abstract: GraphQLAbstractType) -> str:
    """The type of a value of an abstract type: its `__typename`, else the one that the query has a fragment for, else any."""
    if "__typename" in value:
        return str(value["__typename"])
    fragments = [
        part.type_condition.name.value
        for field in info.field_nodes
        for part in (field.selection_set.selections if field.selection_set else ())
        if isinstance(part, InlineFragmentNode) and part.type_condition
    ]
    concrete = [name for name in fragments if isinstance(info.schema.type_map[name], GraphQLObjectType)]
    return concrete[0] if len(set(concrete)) == 1 else info.schema.get_possible_types(abstract)[0].name


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", template))


def _escaped(template: str) -> str:
    return template.replace("~", "~0").replace("/", "~1")


def _number(value: str, schema: dict[str, Any]) -> object:
    """The value as its schema has it: in a query everything is text."""
    kind = schema.get("type")
    if kind == "integer" and re.fullmatch(r"-?\d+", value):
        return int(value)
    return {"true": True, "false": False}.get(value, value) if kind == "boolean" else value


@cache
def reduced() -> Description:
    """The parts that are kept beside the tests."""
    schema = (Path(worker_app.demo.__file__).parent / "github.graphql").read_text()
    return Description(json.loads((PAYLOADS / "openapi.json").read_text()), build_schema(schema, assume_valid=True))


@cache
def whole() -> Description:
    """Everything, as `make contract-test` took it from npm. FileNotFoundError where it has not."""
    openapi = json.loads((WHOLE / "openapi" / "generated" / "api.github.com.json").read_text())
    schema = (WHOLE / "graphql-schema" / "schema.graphql").read_text()
    return Description(openapi, build_schema(schema, assume_valid=True))

"""The GraphQL door: official types, real queries, GitHub's errors. Execution is graphql-core's; the fields are ours.

A refusal of the query itself is status 200 with `errors`, as at GitHub.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import resources
from typing import Any

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
    execute_sync,
    parse,
    validate,
)

from worker_app.demo import graphql_cost
from worker_app.demo.graphql_cost import Cost
from worker_app.demo.graphql_fields import FIELDS, type_of
from worker_app.demo.graphql_lists import Call


def load_schema() -> GraphQLSchema:
    """The reduced official schema, its fields bound to the world."""
    schema = build_schema(resources.files("worker_app.demo").joinpath("github.graphql").read_text(), assume_valid=True)
    for name, kind in schema.type_map.items():
        if isinstance(kind, GraphQLInterfaceType | GraphQLUnionType):
            kind.resolve_type = _resolve_type
        if isinstance(kind, GraphQLObjectType):
            for field, read in FIELDS.get(name, {}).items():
                if field in kind.fields:
                    kind.fields[field].resolve = partial(_read, read)
    return schema


def _resolve_type(thing: object, *_: object) -> str:
    return type_of(thing)


def _read(read: Callable[..., Any], thing: object, info: GraphQLResolveInfo[Call], **arguments: Any) -> Any:
    return read(thing, info.context, **arguments)


class GraphQLDoor:
    """Plans and executes queries. Texts that were seen before are neither parsed nor validated again."""

    def __init__(self) -> None:
        self._schema = load_schema()
        self._parsed = lru_cache(maxsize=256)(self._parse)

    def cost(self, query: object) -> Cost:
        """What a request's document costs; one point where it is no valid query."""
        try:
            document, variables = self._read(query)
            return graphql_cost.cost(document, variables)
        except (GraphQLError, StopIteration):
            return Cost(points=1, nodes=0)

    def answer(self, query: object, call: Call) -> dict[str, Any]:
        """The document that answers `query`, which is the parsed body of the request."""
        try:
            document, variables = self._read(query)
        except GraphQLError as refused:
            return {"errors": [_shown(refused)]}
        price = graphql_cost.cost(document, variables)
        if price.nodes > graphql_cost.NODES_MOST:
            return {"errors": [_too_many(price.nodes)]}
        result = execute_sync(self._schema, document, context_value=call, variable_values=dict(variables))
        answer: dict[str, Any] = {"data": result.data}
        if result.errors:
            answer["errors"] = [_shown(_ours(one)) for one in result.errors]
        return answer

    def _read(self, query: object) -> tuple[DocumentNode, Mapping[str, Any]]:
        text = query.get("query") if isinstance(query, dict) else None
        if not isinstance(text, str):
            raise GraphQLError("A query attribute must be specified and must be a string.")
        parsed = self._parsed(text)
        if isinstance(parsed, GraphQLError):
            raise parsed
        variables = query.get("variables") if isinstance(query, dict) else None
        return parsed, variables if isinstance(variables, dict) else {}

    def _parse(self, text: str) -> DocumentNode | GraphQLError:
        try:
            document = parse(text)
        except GraphQLError as refused:
            return refused
        refusals = validate(self._schema, document)
        return refusals[0] if refusals else document


def _ours(refused: GraphQLError) -> GraphQLError:
    """The same error. A defect of a field, which is no error of GraphQL, goes through as what it is."""
    if refused.original_error is not None and not isinstance(refused.original_error, GraphQLError):
        raise refused.original_error
    return refused


def _shown(refused: GraphQLError) -> dict[str, Any]:
    """An error with GitHub's `type` beside the message."""
    formatted: dict[str, Any] = dict(refused.formatted)
    extensions = dict(formatted.pop("extensions", None) or {})
    kind = {"type": extensions.pop("type")} if "type" in extensions else {}
    return kind | formatted | ({"extensions": extensions} if extensions else {})


def _too_many(nodes: int) -> dict[str, Any]:
    return {
        "type": "MAX_NODE_LIMIT_EXCEEDED",
        "message": f"This query requests up to {nodes:,} possible nodes which exceeds the maximum limit of 500,000.",
    }

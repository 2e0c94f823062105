"""What a GraphQL query costs: the requests that its connections would take, divided by 100, and the nodes it may return.

https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from graphql import DocumentNode, FieldNode, FragmentDefinitionNode, OperationDefinitionNode, SelectionSetNode
from graphql.language import ast

NODES_MOST = 500_000


class Cost(NamedTuple):
    """Of one query."""

    points: int
    nodes: int


def cost(document: DocumentNode, variables: Mapping[str, Any]) -> Cost:
    """The cost of the first operation of `document`."""
    fragments = {found.name.value: found for found in document.definitions if isinstance(found, FragmentDefinitionNode)}
    operation = next(found for found in document.definitions if isinstance(found, OperationDefinitionNode))
    defaults = {
        found.variable.name.value: _value(found.default_value, {}) for found in operation.variable_definitions or ()
    }
    requests, nodes = 0, 0
    for multiplier, first in _connections(operation.selection_set, fragments, {**defaults, **variables}, 1):
        requests += multiplier
        nodes += multiplier * first
    return Cost(max(1, round(requests / 100)), nodes)


def _connections(
    selections: SelectionSetNode | None,
    fragments: Mapping[str, FragmentDefinitionNode],
    variables: Mapping[str, Any],
    multiplier: int,
) -> Iterator[tuple[int, int]]:
    """How often each connection is asked for, and how many items each time."""
    for selection in selections.selections if selections else ():
        if isinstance(selection, FieldNode):
            first = _size(selection, variables)
            if first:
                yield multiplier, first
            yield from _connections(selection.selection_set, fragments, variables, multiplier * (first or 1))
        elif isinstance(selection, ast.InlineFragmentNode):
            yield from _connections(selection.selection_set, fragments, variables, multiplier)
        elif isinstance(selection, ast.FragmentSpreadNode):
            yield from _connections(fragments[selection.name.value].selection_set, fragments, variables, multiplier)


def _size(field: FieldNode, variables: Mapping[str, Any]) -> int | None:
    for argument in field.arguments or ():
        if argument.name.value in {"first", "last"}:
            value = _value(argument.value, variables)
            return value if isinstance(value, int) else None
        if argument.name.value == "ids":
            value = _value(argument.value, variables)
            return len(value) if isinstance(value, list) else None
    return None


def _value(node: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.VariableNode):
        return variables.get(node.name.value)
    if isinstance(node, ast.IntValueNode):
        return int(node.value)
    if isinstance(node, ast.ListValueNode):
        return [_value(value, variables) for value in node.values]
    return None

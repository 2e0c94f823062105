"""Reduce GitHub's GraphQL schema to what the fake serves: `python -m tests.payloads.github.reduce_graphql PACKAGE TARGET`.

PACKAGE is the unpacked npm package `@octokit/graphql-schema`; TARGET is the file that is written. The fields that stay are listed
in `graphql_fields.txt`; arguments, inputs, enums and scalars follow from them. Descriptions are left out.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphql import NamedTypeNode, parse, print_ast
from graphql.language import ast

FIELDS = Path(__file__).with_name("graphql_fields.txt")
LEAVES = (ast.ScalarTypeDefinitionNode, ast.EnumTypeDefinitionNode, ast.InputObjectTypeDefinitionNode)
HEAD = """\
# Reduced from schema.graphql of npm @octokit/graphql-schema {version} by tests/payloads/github/reduce_graphql.py.
# MIT licence, text in graphql.LICENSE beside this file.
"""


def kept_fields() -> dict[str, set[str]]:
    """Type name to the names of the fields, or of the members of a union, that stay."""
    lines = [line for line in FIELDS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: set(rest.split()) for name, _, rest in (line.partition(":") for line in lines)}


def reduce(schema: str, kept: dict[str, set[str]]) -> str:
    """The schema text with only the types and fields of `kept` and what these need."""
    definitions = {
        node.name.value: node for node in parse(schema, no_location=True).definitions if hasattr(node, "name")
    }
    chosen = {name: _cut(definitions[name], kept[name], kept) for name in kept}
    waiting = [name for node in chosen.values() for name in _mentioned(node)]
    while waiting:
        name = waiting.pop()
        if name in chosen or not isinstance(definitions.get(name), LEAVES):
            continue
        chosen[name] = _cut(definitions[name], None, kept)
        waiting += _mentioned(chosen[name])
    return "\n\n".join(print_ast(chosen[name]) for name in sorted(chosen)) + "\n"


def _cut(node: Any, fields: set[str] | None, kept: dict[str, set[str]]) -> Any:
    """A copy of `node` without descriptions and without what does not stay. `fields` None: all of them stay."""
    kind = type(node)
    if kind is ast.UnionTypeDefinitionNode:
        members = tuple(member for member in node.types if fields and member.name.value in fields)
        return replace(node, description=None, directives=(), types=members)
    parts: dict[str, Any] = {"description": None}
    if kind is ast.EnumTypeDefinitionNode:
        parts["values"] = tuple(replace(value, description=None) for value in node.values)
    elif kind is not ast.ScalarTypeDefinitionNode:
        _check(node, fields or set())
        chosen = [field for field in node.fields if fields is None or field.name.value in fields]
        parts["fields"] = tuple(_plain(field) for field in chosen)
    if kind in {ast.ObjectTypeDefinitionNode, ast.InterfaceTypeDefinitionNode}:
        parts["interfaces"] = tuple(one for one in node.interfaces or () if one.name.value in kept)
    return replace(node, directives=(), **parts)


def _check(node: Any, fields: set[str]) -> None:
    missing = fields - {field.name.value for field in node.fields}
    assert not missing, f"{node.name.value} has no {', '.join(sorted(missing))}"


def _plain(field: Any) -> Any:
    if not getattr(field, "arguments", None):
        return replace(field, description=None)
    arguments = tuple(replace(argument, description=None) for argument in field.arguments)
    return replace(field, description=None, arguments=arguments)


def _mentioned(node: Any) -> Iterator[str]:
    """Names of the types that the fields and arguments of `node` have."""
    for field in getattr(node, "fields", None) or ():
        yield _named(field.type)
        for argument in getattr(field, "arguments", None) or ():
            yield _named(argument.type)


def _named(node: Any) -> str:
    while not isinstance(node, NamedTypeNode):
        node = node.type
    return node.name.value


def main(package: Path, target: Path) -> None:
    """Write the reduced schema and the licence beside it."""
    version = json.loads((package / "package.json").read_text())["version"]
    reduced = reduce((package / "schema.graphql").read_text(), kept_fields())
    target.write_text(HEAD.format(version=version) + "\n" + reduced)
    target.with_suffix(".LICENSE").write_text((package / "LICENSE.md").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""The values of the chart as rows for a page: path, default, what it may be, meaning. Read by docs/generate.py.

`helm/values.yaml` gives path, default and meaning (the comment above each value), `helm/values.schema.json` what it may be.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

COMMENT = re.compile(r" *# (?P<is_first>-- )?(?P<text>.*)")
VALUE = re.compile(r"(?P<indent> *)(?P<key>[\w-]+):(?: (?P<default>.+))?")
INDENT = 2
WORDS = {
    "object": "map",
    "array": "list",
    "integer": "number",
    "boolean": "true, false",
    "string": "text",
    "null": "null",
}

Row = tuple[str, str, str, str]  # path, default, what it may be, meaning
Schema = Mapping[str, Any]


def rows(values: str, schema: Schema) -> Iterator[Row]:
    """Every value in the order of the file. Raises ValueError for one without a comment, or that the schema lacks."""
    path: list[str] = []
    comment: list[str] = []
    for line in values.splitlines():
        if found := COMMENT.fullmatch(line):
            comment = [found["text"]] if found["is_first"] else [*comment, found["text"]] if comment else []
            continue
        if found := VALUE.fullmatch(line):
            path = [*path[: len(found["indent"]) // INDENT], found["key"]]
            if comment or found["default"] is not None:
                yield _row(path, found["default"] or "", comment, schema)
        comment = []


def settings(schema: Schema) -> Iterator[tuple[str, str]]:
    """The names that `config` takes, and what each may be."""
    return ((name, _kinds(of)) for name, of in schema["properties"]["config"]["properties"].items())


def _row(path: list[str], default: str, comment: list[str], schema: Schema) -> Row:
    name = ".".join(path)
    if not comment:
        raise ValueError(f"helm/values.yaml: {name} has no comment; write `# -- …` above it")
    return name, default.strip('"'), _kinds(_schema_of(path, schema)), " ".join(comment)


def _schema_of(path: list[str], schema: Schema) -> Schema:
    """The part of the schema that a value has to obey. Raises ValueError where there is none."""
    found = schema
    for key in path:
        found = _resolved(found, schema)
        below = found.get("properties", {}).get(key) or found.get("additionalProperties")
        if not below:
            raise ValueError(f"helm/values.schema.json: there is no {'.'.join(path)}")
        found = below
    return _resolved(found, schema)


def _resolved(part: Schema, schema: Schema) -> Schema:
    """A part with its reference followed; of several that have to hold the first, which says most."""
    part = part["allOf"][0] if "allOf" in part else part
    return schema["definitions"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part


def _kinds(part: Schema) -> str:
    """What a value may be, in words."""
    if "const" in part:
        return json.dumps(part["const"])
    if "enum" in part:
        return ", ".join(part["enum"])
    kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
    return " or ".join(WORDS[kind] for kind in kinds) + _bounds(part)


def _bounds(part: Schema) -> str:
    least, most = part.get("minimum"), part.get("maximum")
    if least is None:
        return ""
    return f", {least} or more" if most is None else f", {least} to {most}"

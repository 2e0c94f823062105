"""Schemas: the JSON schema of a dataclass, read from its annotations: what is returned and what is described cannot differ.

Page: https://json-schema.org/draft/2020-12/schema
"""

import dataclasses
from datetime import date, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from worker_app.records import CredentialStamp

SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    UUID: {"type": "string", "format": "uuid"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Any: {},
}
NEVER_SENT = (CredentialStamp,)  # a listed source has none: what marks its secret stays inside


class Schemas:
    """Collects the components that the schemas it gives out refer to."""

    def __init__(self) -> None:
        self.components: dict[str, dict[str, Any]] = {}

    def of(self, annotation: Any) -> dict[str, Any]:
        """The schema of a type. Raises TypeError for one that becomes no JSON."""
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin in (Union, UnionType):
            return self._either(parts)
        if origin is Literal:
            return {"enum": list(parts)}
        if origin in (list, tuple):
            return {"type": "array", "items": self.of(parts[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(parts[1])}
        if dataclasses.is_dataclass(annotation):
            return self._component(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            return {"type": "string", "enum": [item.value for item in annotation]}
        if annotation not in SCALARS:
            raise TypeError(f"{annotation!r} has no JSON schema")
        return dict(SCALARS[annotation])

    def _either(self, parts: tuple[Any, ...]) -> dict[str, Any]:
        """One of several types; of a single one beside None a type that takes null, which most generators understand."""
        wanted = [self.of(part) for part in parts if part is not NoneType and part not in NEVER_SENT]
        if not wanted:
            return {"type": "null"}
        if NoneType not in parts:
            return {"anyOf": wanted}
        if len(wanted) == 1 and isinstance(wanted[0].get("type"), str):
            nullable = {**wanted[0], "type": [wanted[0]["type"], "null"]}
            return {**nullable, "enum": [*nullable["enum"], None]} if "enum" in nullable else nullable
        return {"anyOf": [*wanted, {"type": "null"}]}

    def _component(self, record: Any) -> dict[str, Any]:
        name = record.__name__
        if name not in self.components:
            self.components[name] = {}  # known before its fields are read: one may hold another of its kind
            self.components[name] = self._object(record)
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, record: Any) -> dict[str, Any]:
        """Every field is there, and no other."""
        hints = get_type_hints(record)
        fields = dataclasses.fields(record)
        described: dict[str, Any] = {
            "type": "object",
            "description": (record.__doc__ or "").split("\n\n")[0].split(" The field names are public")[0].strip(),
            "properties": {item.name: self._field(item, hints[item.name]) for item in fields},
            "additionalProperties": False,
        }
        if required := [item.name for item in fields if not item.metadata.get("is_optional")]:
            described["required"] = required
        return described

    def _field(self, item: "dataclasses.Field[Any]", annotation: Any) -> dict[str, Any]:
        """The schema of a field, with the bounds that its metadata names."""
        schema, given = self.of(annotation), item.metadata
        names = {"says": "description", "least": "minimum", "most": "maximum", "shortest": "minLength"}
        schema |= {names[name]: given[name] for name in names if name in given}
        if "choices" in given:
            schema["enum"] = [*given["choices"], *([None] if given.get("is_optional") else [])]
        return schema

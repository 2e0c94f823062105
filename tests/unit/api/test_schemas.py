from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import pytest

from worker_app.api.schemas import Schemas
from worker_app.jobs import BatchState
from worker_app.records import CredentialStamp, Source


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf.

    More about it.
    """

    size: int | None


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree. The field names are public."""

    leaves: tuple[Leaf, ...]
    best: Leaf | None
    count: int = field(metadata={"is_optional": True, "least": 1, "most": 3, "says": "how many"})


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (float | None, {"type": ["number", "null"]}),
        (UUID, {"type": "string", "format": "uuid"}),
        (datetime | None, {"type": ["string", "null"], "format": "date-time"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, Any], {"type": "object", "additionalProperties": {}}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (BatchState, {"type": "string", "enum": [state.value for state in BatchState]}),
        (BatchState | None, {"type": ["string", "null"], "enum": [*(state.value for state in BatchState), None]}),
        (str | int, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (CredentialStamp | None, {"type": "null"}),
    ],
)
def test_schema_of_a_type(annotation: Any, schema: dict[str, Any]) -> None:
    assert Schemas().of(annotation) == schema


def test_dataclass_is_a_component_with_all_its_fields() -> None:
    schemas = Schemas()
    assert schemas.of(list[Tree]) == {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}
    assert list(schemas.components) == ["Tree", "Leaf"]
    assert schemas.components["Leaf"] == {
        "type": "object",
        "description": "A leaf.",
        "properties": {"size": {"type": ["integer", "null"]}},
        "additionalProperties": False,
        "required": ["size"],
    }
    tree = schemas.components["Tree"]
    assert tree["description"] == "A tree."
    assert tree["required"] == ["leaves", "best"]
    assert tree["properties"]["best"] == {"anyOf": [{"$ref": "#/components/schemas/Leaf"}, {"type": "null"}]}
    assert tree["properties"]["count"] == {"type": "integer", "minimum": 1, "maximum": 3, "description": "how many"}


def test_mark_of_a_secret_is_in_no_schema() -> None:
    schemas = Schemas()
    schemas.of(Source)
    assert list(schemas.components) == ["Source"]


def test_type_that_becomes_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        Schemas().of(bytes)

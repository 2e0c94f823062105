import json
import tomllib
from pathlib import Path

import pytest
import yaml

from docs import helm_values

TOP = Path(__file__).resolve().parents[2]

SCHEMA = {
    "properties": {
        "image": {"properties": {"tag": {"type": "string"}, "pullPolicy": {"enum": ["Always", "Never"]}}},
        "fleets": {
            "properties": {"one": {"allOf": [{"$ref": "#/definitions/fleet"}, {}]}},
            "additionalProperties": {"properties": {"slots": {"type": "integer"}}},
        },
        "config": {
            "properties": {"LOG_LEVEL": {"enum": ["DEBUG", "INFO"]}, "HISTORY_DAYS": {"type": "integer", "minimum": 1}}
        },
        "users": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
    },
    "definitions": {"fleet": {"properties": {"slots": {"const": 1}}}},
}


def test_helm_values_are_rows_of_path_default_kind_and_comment() -> None:
    values = """
image:
  # -- First line
  # and the second.
  tag: "1"
  # -- When.
  pullPolicy: Always
# -- How many.
users: null
"""
    assert list(helm_values.rows(values, SCHEMA)) == [
        ("image.tag", "1", "text", "First line and the second."),
        ("image.pullPolicy", "Always", "Always, Never", "When."),
        ("users", "null", "number or null, 1 to 9", "How many."),
    ]


def test_helm_values_follow_a_reference_of_the_schema() -> None:
    (row,) = helm_values.rows("fleets:\n  one:\n    # -- Always 1.\n    slots: 1\n", SCHEMA)
    assert row == ("fleets.one.slots", "1", "1", "Always 1.")


def test_helm_values_follow_what_holds_for_any_name() -> None:
    (row,) = helm_values.rows("fleets:\n  other:\n    # -- Some.\n    slots: 2\n", SCHEMA)
    assert row == ("fleets.other.slots", "2", "number", "Some.")


@pytest.mark.parametrize("above", ["", "# a remark\n  ", "# -- Of another value.\n\n  "])
def test_helm_values_refuse_a_value_without_a_comment(above: str) -> None:
    with pytest.raises(ValueError, match=r"image\.tag has no comment"):
        list(helm_values.rows(f"image:\n  {above}tag: x\n", SCHEMA))


def test_helm_values_refuse_a_value_that_the_schema_lacks() -> None:
    with pytest.raises(ValueError, match=r"there is no image\.colour"):
        list(helm_values.rows("image:\n  # -- Red.\n  colour: red\n", SCHEMA))


def test_helm_values_list_the_names_of_config() -> None:
    assert list(helm_values.settings(SCHEMA)) == [("LOG_LEVEL", "DEBUG, INFO"), ("HISTORY_DAYS", "number, 1 or more")]


def test_helm_values_of_the_chart_are_all_in_the_page() -> None:
    schema = json.loads((TOP / "helm/values.schema.json").read_text(encoding="utf-8"))
    text = (TOP / "helm/values.yaml").read_text(encoding="utf-8")
    shown = {row[0]: row[1] for row in helm_values.rows(text, schema)}
    held = dict(_leaves("", yaml.safe_load(text)))
    assert held.keys() == shown.keys()
    assert held == {path: yaml.safe_load(default) if default else "" for path, default in shown.items()} | {
        "dashboards.labelValue": "1"  # text, which a page shows without its quotes
    }


def _leaves(path: str, value: object) -> list[tuple[str, object]]:
    """Path and value of everything in the file that has a line of its own."""
    if not isinstance(value, dict) or not value or path.endswith(".resources"):
        return [(path, value)]
    return [leaf for key, below in value.items() for leaf in _leaves(f"{path}.{key}".lstrip("."), below)]


def test_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((TOP / "helm/Chart.yaml").read_text(encoding="utf-8"))
    program = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == program["project"]["version"]

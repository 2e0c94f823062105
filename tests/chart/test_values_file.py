"""values.yaml: a comment for every value, nothing that the schema does not know, and figures that fit the program."""

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.chart import helm
from tests.chart.strict_yaml import documents_of

TEXT = (helm.CHART / "values.yaml").read_text(encoding="utf-8")


def _leaves(node: yaml.Node | None, path: str = "") -> Iterator[tuple[str, int]]:
    """Path and line of every value: a scalar, a list, an empty map or a map on one line."""
    assert isinstance(node, yaml.MappingNode)
    for key, value in node.value:
        below = f"{path}.{key.value}" if path else str(key.value)
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
            yield from _leaves(value, below)
        else:
            yield below, key.start_mark.line


def _is_commented(line: int) -> bool:
    """Whether a comment that begins with `# --` stands right above."""
    lines = TEXT.splitlines()
    while lines[line - 1].lstrip().startswith("#"):
        line -= 1
        if lines[line].lstrip().startswith("# -- "):
            return True
    return False


def test_every_value_has_a_comment() -> None:
    values = list(_leaves(yaml.compose(TEXT)))

    assert [path for path, line in values if not _is_commented(line)] == []
    assert len(values) > 100


def test_no_key_stands_twice_in_the_values() -> None:
    assert len(documents_of(TEXT)) == 1


def _schema_at(schema: dict[str, Any], path: list[str], whole: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a value, None where it is not described."""
    if "$ref" in schema:
        return _schema_at(whole["definitions"][schema["$ref"].rpartition("/")[2]], path, whole)
    if not path:
        return schema
    for candidate in schema.get("allOf", []):
        if found := _schema_at(candidate, path, whole):
            return found
    below = schema.get("properties", {}).get(path[0], schema.get("additionalProperties"))
    return _schema_at(below, path[1:], whole) if isinstance(below, dict) else None


def test_every_value_is_described_by_the_schema() -> None:
    whole = json.loads((helm.CHART / "values.schema.json").read_text(encoding="utf-8"))
    paths = [path for path, _ in _leaves(yaml.compose(TEXT))]

    assert [path for path in paths if _schema_at(whole, path.split("."), whole) is None] == []


def test_every_value_that_the_schema_describes_stands_in_the_file() -> None:
    """What a user may set can be read in one place; fleets take the keys of fleetDefaults and three of their own."""
    whole = json.loads((helm.CHART / "values.schema.json").read_text(encoding="utf-8"))
    (values,) = documents_of(TEXT)
    missing = set(_missing(whole, values, whole))

    assert missing == {".global"}  # helm's own


def _missing(schema: dict[str, Any], given: Any, whole: dict[str, Any], path: str = "") -> Iterator[str]:
    if "$ref" in schema:
        schema = whole["definitions"][schema["$ref"].rpartition("/")[2]]
    if path in (".fleets", ".config") or not isinstance(given, dict) or not given:
        return
    for key, below in schema.get("properties", {}).items():
        if key in given:
            yield from _missing(below, given[key], whole, f"{path}.{key}")
        elif "resources" not in path:
            yield f"{path}.{key}"


def test_the_trial_values_are_enough() -> None:
    (trial,) = documents_of((helm.CHART / "ci" / "trial-values.yaml").read_text(encoding="utf-8"))

    assert helm.render(trial) != []
    assert "0 chart(s) failed" in helm.lint(trial)


def test_the_version_of_the_chart_is_that_of_the_program() -> None:
    (chart,) = documents_of((helm.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (helm.CHART.parent / "pyproject.toml").read_text(encoding="utf-8")

    assert f'version = "{chart["appVersion"]}"' in project
    assert chart["kubeVersion"] == ">=1.25.0-0"


def test_a_template_holds_one_kind_and_is_short() -> None:
    for template in sorted((helm.CHART / "templates").iterdir()):
        assert len(template.read_text(encoding="utf-8").splitlines()) < 80, template.name

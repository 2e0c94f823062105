"""A `null` in the values: refused by name where the chart needs something, and never a fault within a template."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart import helm
from tests.chart.strict_yaml import documents_of
from tests.chart.values import over

(VALUES,) = documents_of((helm.CHART / "values.yaml").read_text(encoding="utf-8"))
MAY_BE_NULL = {"runAsUser"}  # beside what is null anyhow


def _sections(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Path of every map and every list."""
    for key, value in node.items():
        if isinstance(value, dict | list):
            yield (*path, key)
        if isinstance(value, dict):
            yield from _sections(value, (*path, key))


def _nulled(path: tuple[str, ...]) -> dict[str, Any]:
    (key, *rest) = path
    return {key: _nulled(tuple(rest)) if rest else None}


def _said(values: helm.Values) -> str:
    """What helm says when it refuses these values; empty where it takes them."""
    try:
        helm.render(values)
    except helm.Refused as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("path", list(_sections(VALUES)), ids=".".join)
def test_a_section_that_is_null_is_refused_by_name_or_does_not_matter(path: tuple[str, ...]) -> None:
    if said := _said(over(_nulled(path))):
        assert "values don't meet" in said or "contradict one another" in said
        assert (
            path[-2] if path[0] == "fleets" and len(path) > 1 else path[-1]
        ) in said  # whose queues nobody else takes


@pytest.mark.parametrize("path", [("image", "tag"), ("fleetDefaults", "drainSeconds"), ("secrets", "keys", "redisUrl")])
def test_a_single_value_that_is_null_is_refused_by_name(path: tuple[str, ...]) -> None:
    said = helm.refusal(over(_nulled(path)))

    assert f"at '/{'/'.join(path[:-1])}': missing property '{path[-1]}'" in said


def test_the_schema_wants_every_value_that_has_a_default() -> None:
    schema = json.loads((helm.CHART / "values.schema.json").read_text(encoding="utf-8"))

    assert schema["anyOf"] == [{"$ref": "#/definitions/whole"}]
    assert schema["definitions"]["whole"] == _whole(VALUES)


def _whole(node: dict[str, Any]) -> dict[str, Any]:
    """A schema that wants every value with a default; fleets lean on fleetDefaults, and resources may be empty."""
    wanted = [key for key, value in node.items() if value is not None and key not in MAY_BE_NULL]
    maps = {key: value for key, value in node.items() if isinstance(value, dict) and value}
    below = {key: _whole(value) for key, value in maps.items() if key not in ("fleets", "resources")}
    return {"required": wanted, **({"properties": below} if below else {})}


def test_a_fleet_falls_back_on_what_all_fleets_have() -> None:
    documents = helm.render(over({"fleets": {"worker-heavy": {"maxSurge": None, "resources": None}}}))

    (found,) = [
        each["spec"]
        for each in documents
        if each["metadata"]["name"].endswith("worker-heavy") and each["kind"] == "Deployment"
    ]
    assert found["strategy"]["rollingUpdate"]["maxSurge"] == VALUES["fleetDefaults"]["maxSurge"]
    (container,) = found["template"]["spec"]["containers"]
    assert container["resources"] == VALUES["fleetDefaults"]["resources"]

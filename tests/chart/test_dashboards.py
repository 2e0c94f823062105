"""The dashboards of helm/dashboards: they load anywhere, ask for what is told, and can be read."""

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import promql

TOP = Path(__file__).resolve().parents[2]
BOARDS = sorted((TOP / "helm/dashboards").glob("*.json"))
COLUMNS = 24  # of Grafana's grid
BUILT_IN = {"__rate_interval"}


@cache
def document(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture(params=BOARDS, ids=lambda path: path.stem)
def board(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in document(path)["panels"] if panel["type"] != "row"]


def targets(path: Path) -> Iterator[tuple[str, str, str]]:
    """Title of the panel, expression and legend of each question."""
    for panel in panels(path):
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


def values(item: Any, key: str) -> Iterator[Any]:
    """What stands under a key, anywhere in a document."""
    if isinstance(item, dict):
        yield from (value for name, value in item.items() if name == key)
    if isinstance(item, dict | list):
        for below in item.values() if isinstance(item, dict) else item:
            yield from values(below, key)


def without_variables(expression: str) -> str:
    return re.sub(r"\$\w+", "x", expression.replace("$__rate_interval", "5m"))


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


def test_the_three_dashboards_are_there() -> None:
    assert [path.stem for path in BOARDS] == ["overview", "providers", "runs"]


def test_dashboard_names_itself_alone(board: Path) -> None:
    found = document(board)
    assert found["uid"] == f"dev-hops-{board.stem}"
    assert "id" not in found  # which a Grafana gives
    assert found["title"].startswith("dev-hops / ")
    assert found["description"]
    assert found["schemaVersion"] >= 41  # Grafana 12; older ones read it too
    assert {source["uid"] for source in values(found, "datasource")} == {"${datasource}"}
    assert set(values(found, "uid")) == {found["uid"], "${datasource}"}


def test_data_source_is_chosen_by_its_kind(board: Path) -> None:
    first = document(board)["templating"]["list"][0]
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")


def test_variables_are_those_that_are_used(board: Path) -> None:
    found = document(board)
    given = {item["name"] for item in found["templating"]["list"]}
    text = json.dumps(found["panels"])
    assert set(re.findall(r"\$\{?(\w+)", text)) - BUILT_IN == given


def test_variables_list_what_is_told(board: Path) -> None:
    for item in document(board)["templating"]["list"][1:]:
        match = re.fullmatch(r"label_values\((\w+), (\w+)\)", item["query"]["query"])
        assert match, item["name"]
        assert match[2] in promql.known()[match[1]]
        assert item["allValue"] == ".*"  # a target without this label is shown too


def test_expressions_are_promql(board: Path, tmp_path: Path) -> None:
    records = [
        {"record": f"panel:{number}", "expr": without_variables(expression)}
        for number, (_, expression, _) in enumerate(targets(board))
    ]
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": board.stem, "rules": records}]}))
    done = promql.promtool("check", "rules", rules)
    assert done.returncode == 0, done.stderr
    assert f"{len(records)} rules found" in done.stdout


def test_expressions_name_what_is_told(board: Path) -> None:
    for title, expression, _ in targets(board):
        assert promql.faults(expression) == [], title


def test_expressions_stay_in_the_chosen_namespace(board: Path) -> None:
    for title, expression, _ in targets(board):
        names = len(re.findall(r"\b(?:dev_hops|process)_\w+", expression))
        assert names == expression.count('{namespace=~"$namespace"'), title


def test_numbers_of_the_api_are_not_added_up_over_its_replicas(board: Path) -> None:
    told_by_api = promql.told_by_api()
    for title, expression, _ in targets(board):
        for function, name in re.findall(r"(\w+)(?:\s+by\s+\([^)]*\))?\s*\((dev_hops_\w+)\{", expression):
            assert name not in told_by_api or function in ("max", "min"), title


def test_legends_name_labels_that_are_left(board: Path) -> None:
    for title, expression, legend in targets(board):
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= promql.listed(expression), title


def test_panels_say_what_they_show(board: Path) -> None:
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]


def test_panels_stand_side_by_side(board: Path) -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in document(board)["panels"]]
    for title, place in places:
        assert place["x"] >= 0, title
        assert place["x"] + place["w"] <= COLUMNS, title
    for (one, here), (other, there) in combinations(places, 2):
        assert not overlap(here, there), f"{one} and {other}"


def test_panels_have_numbers_and_titles_of_their_own(board: Path) -> None:
    found = document(board)["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    assert len({panel["title"] for panel in found}) == len(found)

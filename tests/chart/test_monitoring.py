"""What the chart makes of the alerts and dashboards, and whether the targets carry the label that both read."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.chart import helm
from tests.chart.documents import of_kind
from tests.chart.values import WATCHED, over

TOP = Path(__file__).resolve().parents[2]
RULES = TOP / "helm/alerts/rules.yaml"
BASE_URL = "https://docs.example/hops"  # of WATCHED


def rendered(kind: str, file: str) -> list[dict[str, Any]]:
    return [dict(found) for found in of_kind(helm.render(over(WATCHED), show_only=file), kind)]


def test_rule_of_the_operator_is_the_plain_file_with_other_runbooks() -> None:
    (rule,) = rendered("PrometheusRule", "prometheusrule.yaml")
    plain = RULES.read_text().replace("https://dev-hops.invalid/docs/howto", BASE_URL)
    assert f"{BASE_URL}/alerts.md#devhopshublag" in plain
    assert rule["spec"] == yaml.safe_load(plain)


def test_dashboards_are_the_files() -> None:
    carried = {name: text for found in rendered("ConfigMap", "dashboards.yaml") for name, text in found["data"].items()}
    files = {path.name: path.read_text() for path in (TOP / "helm/dashboards").glob("*.json")}
    assert {name: json.loads(text) for name, text in carried.items()} == {
        name: json.loads(text) for name, text in files.items()
    }


def test_sidecar_of_grafana_finds_every_dashboard() -> None:
    for found in rendered("ConfigMap", "dashboards.yaml"):
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_every_target_of_the_cluster_says_which_part_it_is() -> None:
    (monitor,) = rendered("PodMonitor", "podmonitor.yaml")
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        assert {
            "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
            "targetLabel": "component",
        } in endpoint["relabelings"]
        assert not endpoint.get("honorLabels")


def test_every_target_of_compose_says_which_part_it_is() -> None:
    for job in yaml.safe_load((TOP / "compose/prometheus.yaml").read_text())["scrape_configs"]:
        assert "component" in [item.get("target_label") for item in job["relabel_configs"]], job["job_name"]

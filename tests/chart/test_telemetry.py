"""What Prometheus and Grafana are given."""

import json
from typing import Any

import yaml

from tests.chart import helm
from tests.chart.documents import annotations, main_container, of_kind, pods
from tests.chart.values import FLOWER, MATRIX, WATCHED, over


def _monitor(values: helm.Values = MATRIX["watched"]) -> dict[str, Any]:
    (found,) = of_kind(helm.render(values), "PodMonitor")
    return found


def test_nothing_is_watched_unless_it_is_wanted() -> None:
    kinds = {each["kind"] for each in helm.render(over())}

    assert kinds.isdisjoint({"PodMonitor", "PrometheusRule"})
    assert not [each for each in of_kind(helm.render(over()), "ConfigMap") if "dashboard" in each["metadata"]["name"]]


def test_every_worker_beat_and_api_is_watched_on_the_port_that_it_has() -> None:
    monitor = _monitor()
    ports = {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]}
    for role, pod in pods(helm.render(over(WATCHED, FLOWER))).items():
        labels = pod["metadata"]["labels"]
        is_chosen = monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        own = {port["name"] for port in main_container(pod).get("ports", [])}
        assert (is_chosen and bool(own & ports)) == (role not in ("flower", "migrate")), role


def test_every_target_says_which_role_it_is() -> None:
    for endpoint in _monitor()["spec"]["podMetricsEndpoints"]:
        assert endpoint["path"] == "/metrics"
        assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("15s", "10s")
        assert {
            "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
            "targetLabel": "component",
        } in endpoint["relabelings"]


def test_how_often_is_a_value() -> None:
    values = over(WATCHED, {"podMonitor": {"interval": "1m", "scrapeTimeout": "60s"}})

    found = {(each["interval"], each["scrapeTimeout"]) for each in _monitor(values)["spec"]["podMetricsEndpoints"]}

    assert found == {("1m", "60s")}


def test_labels_by_which_prometheus_finds_them_are_values() -> None:
    documents = helm.render(over(WATCHED))
    for kind in ("PodMonitor", "PrometheusRule"):
        (found,) = of_kind(documents, kind)
        assert found["metadata"]["labels"]["release"] == "prometheus"


def _rules(values: helm.Values) -> list[dict[str, Any]]:
    (found,) = of_kind(helm.render(values), "PrometheusRule")
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def test_the_alerts_are_those_of_the_rule_file() -> None:
    written = yaml.safe_load((helm.CHART / "alerts" / "rules.yaml").read_text(encoding="utf-8"))

    values = over({"prometheusRule": {"enabled": True}})

    assert _rules(values) == [rule for group in written["groups"] for rule in group["rules"]]
    assert {rule["alert"] for rule in _rules(values) if "alert" in rule} >= {
        "DevHopsRedisEvictionPolicyWrong",
        "DevHopsHPAScalingInactive",
    }


def test_a_runbook_is_where_the_values_say() -> None:
    links = [rule["annotations"]["runbook_url"] for rule in _rules(MATRIX["watched"]) if "alert" in rule]

    assert links
    assert [link for link in links if not link.startswith("https://docs.example/hops/alerts.md#")] == []
    assert {rule["annotations"]["runbook_url"] for rule in _rules(MATRIX["watched"]) if "alert" in rule} == set(links)


def test_a_template_of_an_alert_is_not_taken_for_one_of_helm() -> None:
    texts = [text for rule in _rules(MATRIX["watched"]) for text in rule.get("annotations", {}).values()]

    assert [text for text in texts if "{{" in text]


def test_every_dashboard_is_a_config_map_that_grafana_finds() -> None:
    documents = helm.render(over(WATCHED))
    found = [each for each in of_kind(documents, "ConfigMap") if "grafana_dashboard" in each["metadata"]["labels"]]

    names = {name for each in found for name in each["data"]}

    assert names == {path.name for path in (helm.CHART / "dashboards").glob("*.json")}
    for each in found:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert annotations(each) == {"folder": "hops"}
        assert all(json.loads(text)["title"] for text in each["data"].values())


def test_the_label_by_which_grafana_finds_them_is_a_value() -> None:
    values = over({"dashboards": {"enabled": True, "label": "boards", "labelValue": "yes"}})
    found = [
        each for each in of_kind(helm.render(values), "ConfigMap") if each["metadata"]["labels"].get("boards") == "yes"
    ]

    assert len(found) == len(list((helm.CHART / "dashboards").glob("*.json")))
    assert [each for each in found if annotations(each)] == []

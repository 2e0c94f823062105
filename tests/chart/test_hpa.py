"""Autoscaling by the HPA: the number it looks at, and how fast it acts."""

from typing import Any

import pytest

from tests.chart import helm
from tests.chart.documents import annotations, by_role
from tests.chart.values import FOURTH_FLEET, MATRIX, fleet, over

WORKER_BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Percent", "value": 100, "periodSeconds": 30},
            {"type": "Pods", "value": 2, "periodSeconds": 30},
        ],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 600,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Percent", "value": 25, "periodSeconds": 120},
            {"type": "Pods", "value": 1, "periodSeconds": 120},
        ],
    },
}
HEAVY_BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 30,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 900,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 600}],
    },
}


def _hpa(role: str, values: helm.Values = MATRIX["default"]) -> dict[str, Any]:
    found: dict[str, Any] = by_role(helm.render(values), "HorizontalPodAutoscaler")[role]["spec"]
    return found


@pytest.mark.parametrize("name", [name for name, values in MATRIX.items() if "keda" not in name])
def test_keda_may_take_over_from_every_autoscaler_of_a_fleet(name: str) -> None:
    """Helm makes a ScaledObject before it deletes the HPA, and KEDA reads this off the HPA whether the two may meet."""
    for role, each in by_role(helm.render(MATRIX[name]), "HorizontalPodAutoscaler").items():
        mark = annotations(each).get("validations.keda.sh/hpa-ownership")
        assert mark == (None if role == "api" else "false"), role


def _work(name: str, target: str) -> dict[str, Any]:
    metric = {"name": "dev_hops_fleet_work", "selector": {"matchLabels": {"fleet": name}}}
    return {
        "type": "External",
        "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": target}},
    }


def test_the_fleet_of_workers_is_scaled_as_simulated() -> None:
    spec = _hpa("worker")

    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 10)
    assert spec["metrics"] == [_work("worker", "16")]
    assert spec["behavior"] == WORKER_BEHAVIOR


def test_the_heavy_fleet_is_scaled_as_simulated() -> None:
    spec = _hpa("worker-heavy")

    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 4)
    assert spec["metrics"] == [_work("worker-heavy", "4")]
    assert spec["behavior"] == HEAVY_BEHAVIOR


def test_the_api_is_scaled_by_its_cpu() -> None:
    spec = _hpa("api")

    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 6)
    (metric,) = spec["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    assert _hpa("api", over({"api": {"autoscaling": {"cpuPercent": 50}}}))["metrics"][0]["resource"]["target"] == {
        "type": "Utilization",
        "averageUtilization": 50,
    }


@pytest.mark.parametrize(
    ("slots", "target"), [(1, "1"), (2, "2"), (4, "4"), (10, "8"), (20, "16"), (21, "17"), (50, "40")]
)
def test_a_pod_is_there_for_four_fifths_of_its_slots(slots: int, target: str) -> None:
    assert _hpa("worker", over(fleet("worker", concurrency=slots)))["metrics"] == [_work("worker", target)]


def test_slots_are_the_most_of_a_worker_that_scales_itself() -> None:
    assert _hpa("worker", MATRIX["slots by autoscale"])["metrics"] == [_work("worker", "16")]


def test_the_share_may_be_chosen() -> None:
    assert _hpa("worker", over(fleet("worker", autoscaling={"workPerPod": 30})))["metrics"] == [_work("worker", "30")]


def test_the_age_of_the_oldest_is_a_second_metric_on_demand() -> None:
    first, second = _hpa("worker", over(fleet("worker", autoscaling={"oldestAgeSeconds": 60})))["metrics"]

    assert first == _work("worker", "16")
    assert second["external"] == {
        "metric": {"name": "dev_hops_fleet_oldest_age_seconds", "selector": {"matchLabels": {"fleet": "worker"}}},
        "target": {"type": "Value", "value": "60"},
    }


def test_each_queue_is_a_metric_on_demand() -> None:
    _, *queues = _hpa("worker-heavy", over(fleet("worker-heavy", autoscaling={"perQueue": True})))["metrics"]

    assert [each["external"] for each in queues] == [
        {
            "metric": {"name": "dev_hops_queue_ready", "selector": {"matchLabels": {"queue": queue}}},
            "target": {"type": "AverageValue", "averageValue": "8"},
        }
        for queue in ("metrics", "backfill")
    ]
    chosen = over(fleet("worker-heavy", autoscaling={"perQueue": True, "readyPerPod": 3}))
    assert {each["external"]["target"].get("averageValue") for each in _hpa("worker-heavy", chosen)["metrics"][1:]} == {
        "3"
    }


def test_a_part_of_the_behavior_may_be_chosen_and_the_rest_stays() -> None:
    chosen = over(fleet("worker", autoscaling={"behavior": {"scaleDown": {"stabilizationWindowSeconds": 1200}}}))

    spec = _hpa("worker", chosen)

    assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 1200
    assert spec["behavior"]["scaleDown"]["policies"] == WORKER_BEHAVIOR["scaleDown"]["policies"]
    assert spec["behavior"]["scaleUp"] == WORKER_BEHAVIOR["scaleUp"]


def test_a_zero_that_is_chosen_is_not_taken_for_nothing() -> None:
    chosen = over(fleet("worker-heavy", autoscaling={"behavior": {"scaleUp": {"stabilizationWindowSeconds": 0}}}))

    assert _hpa("worker-heavy", chosen)["behavior"]["scaleUp"]["stabilizationWindowSeconds"] == 0


@pytest.mark.parametrize("name", MATRIX)
def test_pods_are_taken_away_more_slowly_than_beat_dispatches(name: str) -> None:
    for role, hpa in by_role(helm.render(MATRIX[name]), "HorizontalPodAutoscaler").items():
        if role != "api":
            assert hpa["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] > 300


def test_a_fourth_fleet_is_scaled_by_its_own_work() -> None:
    assert _hpa("worker-webhooks", over(FOURTH_FLEET))["metrics"] == [_work("worker-webhooks", "8")]


def test_an_autoscaler_is_of_one_kind_alone() -> None:
    for name, values in MATRIX.items():
        documents = helm.render(values)
        twice = by_role(documents, "HorizontalPodAutoscaler").keys() & by_role(documents, "ScaledObject").keys()
        assert not twice, name

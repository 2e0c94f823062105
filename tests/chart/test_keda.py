"""Autoscaling by KEDA: four sources, and what each of them must not leave out."""

from typing import Any

import pytest

from tests.chart import helm
from tests.chart.documents import by_role, main_container, of_kind, pods
from tests.chart.helm import Document
from tests.chart.test_hpa import HEAVY_BEHAVIOR, WORKER_BEHAVIOR
from tests.chart.values import (
    KEDA,
    KEDA_PROMETHEUS,
    KEDA_REDIS,
    KEDA_REDIS_PLAIN,
    KEDA_SENTINEL,
    every_fleet,
    fleet,
    over,
)

SOURCES = {"api": KEDA, "prometheus": KEDA_PROMETHEUS, "redis": KEDA_REDIS, "redis-sentinel": KEDA_SENTINEL}


def _scaled(values: helm.Values, role: str = "worker") -> dict[str, Any]:
    found: dict[str, Any] = by_role(helm.render(values), "ScaledObject")[role]["spec"]
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_what_keda_leaves_open_is_said(source: str) -> None:
    spec = _scaled(SOURCES[source])

    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 10)
    assert (spec["pollingInterval"], spec["cooldownPeriod"]) == (15, 600)
    assert "idleReplicaCount" not in spec


@pytest.mark.parametrize("source", SOURCES)
def test_a_dead_source_takes_no_pod_away(source: str) -> None:
    wanted = {"failureThreshold": 4, "replicas": 4, "behavior": "currentReplicasIfHigher"}

    assert _scaled(SOURCES[source])["fallback"] == wanted
    assert _scaled(SOURCES[source], "worker-heavy")["fallback"] == {**wanted, "replicas": 2}


@pytest.mark.parametrize("source", SOURCES)
def test_the_behavior_is_that_of_the_hpa(source: str) -> None:
    for role, behavior in (("worker", WORKER_BEHAVIOR), ("worker-heavy", HEAVY_BEHAVIOR)):
        advanced = _scaled(SOURCES[source], role)["advanced"]
        assert advanced["restoreToOriginalReplicaCount"] is False
        assert advanced["horizontalPodAutoscalerConfig"]["behavior"] == behavior


@pytest.mark.parametrize("source", SOURCES)
def test_environment_is_never_taken_from_a_container_by_chance(source: str) -> None:
    documents = helm.render(SOURCES[source])
    for role, scaled in by_role(documents, "ScaledObject").items():
        target = scaled["spec"]["scaleTargetRef"]
        assert target["envSourceContainerName"] == main_container(pods(documents)[role])["name"]
        for trigger in scaled["spec"]["triggers"]:
            assert [key for key in trigger["metadata"] if key.endswith("FromEnv")] == []


@pytest.mark.parametrize("source", SOURCES)
def test_everything_in_a_trigger_is_text(source: str) -> None:
    for trigger in _scaled(SOURCES[source])["triggers"]:
        assert {type(value) for value in trigger["metadata"].values()} == {str}


def test_the_api_is_asked_for_work_with_a_token_of_its_own() -> None:
    (trigger,) = _scaled(KEDA)["triggers"]

    assert trigger == {
        "type": "metrics-api",
        "metricType": "AverageValue",
        "metadata": {
            "url": "http://hops-dev-hops-api.dev:8000/autoscale/worker",
            "format": "json",
            "valueLocation": "work",
            "targetValue": "16",
            "activationTargetValue": "0",
            "authMode": "bearer",
        },
        "authenticationRef": {"name": "hops-dev-hops-autoscale"},
    }
    (authentication,) = of_kind(helm.render(KEDA), "TriggerAuthentication")
    assert authentication["metadata"]["name"] == "hops-dev-hops-autoscale"
    assert authentication["spec"] == {
        "secretTargetRef": [{"parameter": "token", "name": "hops-secrets", "key": "AUTOSCALE_TOKEN"}]
    }


def test_the_api_is_asked_where_its_service_is() -> None:
    documents = helm.render(over(KEDA, {"api": {"service": {"port": 80}}, "fullnameOverride": "mine"}))
    (service,) = [each for each in of_kind(documents, "Service") if each["metadata"]["name"] == "mine-api"]

    assert service["spec"]["ports"][0]["port"] == 80
    for scaled in of_kind(documents, "ScaledObject"):
        assert scaled["spec"]["triggers"][0]["metadata"]["url"].startswith("http://mine-api.dev:80/autoscale/")


def test_the_api_is_asked_for_the_oldest_age_on_demand() -> None:
    _, second = _scaled(over(KEDA, fleet("worker", autoscaling={"oldestAgeSeconds": 60})))["triggers"]

    assert second["metricType"] == "Value"
    assert second["metadata"].items() >= {"valueLocation": "oldest_age_seconds", "targetValue": "60"}.items()


def test_prometheus_that_is_dead_is_not_taken_for_zero() -> None:
    work, age = _scaled(KEDA_PROMETHEUS)["triggers"]

    assert work["type"] == age["type"] == "prometheus"
    assert work["metadata"]["ignoreNullValues"] == age["metadata"]["ignoreNullValues"] == "false"
    assert work["metadata"]["serverAddress"] == "http://prometheus.monitoring:9090"
    assert (work["metricType"], work["metadata"]["threshold"]) == ("AverageValue", "16")
    assert (age["metricType"], age["metadata"]["threshold"]) == ("Value", "60")


def test_every_query_takes_the_greatest_of_all_replicas_of_the_api() -> None:
    values = over(KEDA_PROMETHEUS, every_fleet(autoscaling={"perQueue": True}))
    for scaled in of_kind(helm.render(values), "ScaledObject"):
        for trigger in scaled["spec"]["triggers"]:
            assert trigger["metadata"]["query"].startswith("max by (")
            assert 'namespace="dev"' in trigger["metadata"]["query"]


def test_prometheus_is_asked_for_each_queue_on_demand() -> None:
    values = over(KEDA_PROMETHEUS, fleet("worker-heavy", autoscaling={"perQueue": True, "oldestAgeSeconds": None}))
    _, *queues = _scaled(values, "worker-heavy")["triggers"]

    assert [("metrics" in each["metadata"]["query"], each["metadata"]["threshold"]) for each in queues] == [
        (True, "8"),
        (False, "8"),
    ]


def test_lists_of_redis_are_summed_one_named_trigger_each() -> None:
    spec = _scaled(KEDA_REDIS)
    names = [trigger["name"] for trigger in spec["triggers"]]

    assert len(names) == len(set(names)) == 11
    assert spec["advanced"]["scalingModifiers"] == {"formula": "+".join(names), "target": "40", "activationTarget": "0"}
    assert [trigger["metadata"]["listName"] for trigger in spec["triggers"]][:3] == ["default", "celery", "scheduler"]


def test_other_sources_sum_nothing() -> None:
    for source in ("api", "prometheus"):
        assert "scalingModifiers" not in _scaled(SOURCES[source])["advanced"]


def test_an_address_of_redis_is_host_and_port_and_tls_a_word() -> None:
    for trigger in _scaled(KEDA_REDIS)["triggers"]:
        assert trigger["type"] == "redis"
        assert trigger["metadata"]["address"] == "redis.example:6390"
        assert trigger["metadata"]["enableTLS"] == "true"
        assert trigger["metadata"]["databaseIndex"] == "3"
        assert trigger["authenticationRef"] == {"name": "hops-dev-hops-worker"}


def test_redis_without_tls_and_password_needs_no_authentication() -> None:
    for trigger in _scaled(KEDA_REDIS_PLAIN)["triggers"]:
        assert trigger["metadata"]["enableTLS"] == "false"
        assert trigger["metadata"]["databaseIndex"] == "0"
        assert "authenticationRef" not in trigger
    assert of_kind(helm.render(KEDA_REDIS_PLAIN), "TriggerAuthentication") == []


def _parameters(authentication: Document) -> dict[str, tuple[str, str]]:
    return {each["parameter"]: (each["name"], each["key"]) for each in authentication["spec"]["secretTargetRef"]}


def test_redis_is_opened_by_references_alone() -> None:
    found = by_role(helm.render(KEDA_REDIS), "TriggerAuthentication")

    assert set(found) == {"worker", "worker-heavy"}
    assert _parameters(found["worker"]) == {
        "username": ("hops-secrets", "REDIS_USER"),
        "password": ("hops-secrets", "REDIS_PASSWORD"),
        "ca": ("hops-secrets", "REDIS_CA"),
    }


def test_sentinels_are_a_list_of_hosts_and_ports() -> None:
    for trigger in _scaled(KEDA_SENTINEL)["triggers"]:
        assert trigger["type"] == "redis-sentinel"
        assert trigger["metadata"]["addresses"] == "s1.example:26379,s2.example:26379"
        assert trigger["metadata"]["sentinelMaster"] == "hops"
        assert trigger["metadata"]["databaseIndex"] == "2"
    (authentication, _) = of_kind(helm.render(KEDA_SENTINEL), "TriggerAuthentication")
    assert _parameters(authentication) == {"sentinelPassword": ("hops-secrets", "SENTINEL_PASSWORD")}


@pytest.mark.parametrize("source", SOURCES)
def test_every_authentication_that_is_named_is_there(source: str) -> None:
    documents = helm.render(SOURCES[source])
    there = {each["metadata"]["name"] for each in of_kind(documents, "TriggerAuthentication")}
    named = {
        trigger["authenticationRef"]["name"]
        for scaled in of_kind(documents, "ScaledObject")
        for trigger in scaled["spec"]["triggers"]
        if "authenticationRef" in trigger
    }

    assert named == there


def test_one_fleet_may_go_by_keda_and_another_by_the_hpa() -> None:
    documents = helm.render(over(fleet("worker", autoscaling={"kind": "keda"})))

    assert set(by_role(documents, "ScaledObject")) == {"worker"}
    assert set(by_role(documents, "HorizontalPodAutoscaler")) == {"worker-heavy", "api"}

"""A closed network: what may still come in, and where a pod may still go."""

from ipaddress import IPv4Network
from typing import Any

import pytest

from tests.chart import helm
from tests.chart.documents import of_kind, pods
from tests.chart.helm import Document
from tests.chart.values import CLOSED, CLOSED_TO_ALL, FLOWER, MATRIX, over

ALL = over(CLOSED, FLOWER)
METADATA = "169.254.169.254/32"
PRIVATE = {"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"}
Rule = dict[str, Any]


def _policies(values: helm.Values, role: str) -> list[Document]:
    """The policies that hold for the pods of a role."""
    documents = helm.render(values)
    labels = pods(documents)[role]["metadata"]["labels"]
    return [each for each in of_kind(documents, "NetworkPolicy") if _selects(each["spec"]["podSelector"], labels)]


def _selects(selector: Document, labels: dict[str, str]) -> bool:
    for expression in selector.get("matchExpressions", []):
        is_in = labels.get(expression["key"]) in expression["values"]
        if is_in != (expression["operator"] == "In"):
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def _rules(values: helm.Values, role: str, direction: str) -> list[Rule]:
    return [rule for each in _policies(values, role) for rule in each["spec"].get(direction) or []]


def _ports(rule: Rule) -> set[tuple[str, int]]:
    return {(port["protocol"], port["port"]) for port in rule["ports"]}


def _namespaces(rule: Rule) -> set[str]:
    selectors = [peer["namespaceSelector"]["matchLabels"] for peer in rule["from"] if "namespaceSelector" in peer]
    return {labels["kubernetes.io/metadata.name"] for labels in selectors}


def test_there_is_no_policy_unless_it_is_wanted() -> None:
    assert of_kind(helm.render(over()), "NetworkPolicy") == []


@pytest.mark.parametrize("role", ["worker", "worker-ingest", "worker-heavy", "beat", "api", "flower", "migrate"])
def test_every_pod_is_closed_both_ways(role: str) -> None:
    types = {kind for each in _policies(ALL, role) for kind in each["spec"]["policyTypes"]}

    assert types == {"Ingress", "Egress"}


@pytest.mark.parametrize("name", ["network closed", "network closed to all", "everything"])
def test_no_rule_is_open_by_having_nothing_in_it(name: str) -> None:
    for policy in of_kind(helm.render(MATRIX[name]), "NetworkPolicy"):
        for rule in policy["spec"].get("egress") or []:
            assert rule["ports"], policy["metadata"]["name"]
        for rule in policy["spec"].get("ingress") or []:
            assert rule["from"], policy["metadata"]["name"]
            assert rule["ports"], policy["metadata"]["name"]


def test_telemetry_is_open_to_its_namespace() -> None:
    (rule,) = [rule for rule in _rules(ALL, "worker", "ingress") if "monitoring" in _namespaces(rule)]

    assert _ports(rule) == {("TCP", 9464), ("TCP", 8000)}
    assert _namespaces(rule) == {"monitoring"}


def test_the_api_is_open_to_the_ingress_and_to_keda() -> None:
    (rule,) = [rule for rule in _rules(ALL, "api", "ingress") if "keda" in _namespaces(rule)]

    assert _ports(rule) == {("TCP", 8000)}
    assert _namespaces(rule) == {"keda", "ingress-nginx"}
    assert {"ipBlock": {"cidr": "10.1.2.0/24"}} in rule["from"]


def test_flower_is_open_to_a_namespace_that_is_named() -> None:
    (rule,) = [rule for rule in _rules(ALL, "flower", "ingress") if ("TCP", 5555) in _ports(rule)]

    assert _namespaces(rule) == {"office"}
    assert not [
        rule for rule in _rules(over(CLOSED_TO_ALL, FLOWER), "flower", "ingress") if ("TCP", 5555) in _ports(rule)
    ]


def test_nobody_comes_in_where_nobody_is_named() -> None:
    for role in ("worker", "beat", "api"):
        assert _rules(over(CLOSED_TO_ALL), role, "ingress") == []


@pytest.mark.parametrize("role", ["worker", "worker-ingest", "worker-heavy", "beat", "api", "flower", "migrate"])
def test_names_are_resolved_by_udp_and_by_tcp(role: str) -> None:
    reached = {port for rule in _rules(ALL, role, "egress") for port in _ports(rule)}

    assert {("UDP", 53), ("TCP", 53), ("UDP", 5353), ("TCP", 5353)} <= reached


@pytest.mark.parametrize("role", ["worker", "worker-ingest", "worker-heavy", "beat", "api", "migrate"])
def test_stores_and_traces_are_reached(role: str) -> None:
    reached = {port for rule in _rules(ALL, role, "egress") for port in _ports(rule)}

    assert {("TCP", 5432), ("TCP", 6379), ("TCP", 8123), ("TCP", 8443), ("TCP", 4318), ("TCP", 8080)} <= reached | (
        {("TCP", 8080)} if role == "migrate" else set()
    )


def test_a_job_that_is_no_hook_is_under_the_policy_of_the_roles() -> None:
    values = over(CLOSED, {"migrations": {"mode": "job"}})

    (policy,) = _policies(values, "migrate")

    assert policy in _policies(values, "beat")
    assert ("TCP", 5432) in {port for rule in policy["spec"]["egress"] for port in _ports(rule)}


def test_a_store_may_be_at_one_place_alone() -> None:
    peer = {"ipBlock": {"cidr": "10.0.0.7/32"}}
    values = over(CLOSED, {"networkPolicy": {"egress": {"stores": [{"port": 6432, "to": [peer]}]}}})

    (rule,) = [rule for rule in _rules(values, "worker", "egress") if ("TCP", 6432) in _ports(rule)]

    assert rule["to"] == [peer]
    assert ("TCP", 5432) not in {port for each in _rules(values, "worker", "egress") for port in _ports(each)}


def _to_providers(values: helm.Values, role: str) -> list[Rule]:
    return [rule for rule in _rules(values, role, "egress") if ("TCP", 443) in _ports(rule)]


@pytest.mark.parametrize("role", ["worker", "worker-ingest", "worker-heavy"])
def test_workers_reach_providers_but_not_what_gives_a_machine_its_rights(role: str) -> None:
    (rule,) = _to_providers(ALL, role)

    assert _ports(rule) == {("TCP", 443), ("TCP", 22)}
    (v4,) = [peer["ipBlock"] for peer in rule["to"] if peer["ipBlock"]["cidr"] == "0.0.0.0/0"]
    assert set(v4["except"]) == PRIVATE
    assert any(IPv4Network(METADATA).subnet_of(IPv4Network(each)) for each in v4["except"])
    (v6,) = [peer["ipBlock"] for peer in rule["to"] if peer["ipBlock"]["cidr"] == "::/0"]
    assert set(v6["except"]) == {"fc00::/7", "fe80::/10"}


def test_a_provider_in_a_private_network_may_be_reached() -> None:
    (rule,) = _to_providers(over(CLOSED, {"networkPolicy": {"egress": {"blockPrivateRanges": False}}}), "worker")

    (v4,) = [peer["ipBlock"] for peer in rule["to"] if peer["ipBlock"]["cidr"] == "0.0.0.0/0"]
    assert v4["except"] == [METADATA]


@pytest.mark.parametrize("role", ["beat", "api", "flower", "migrate"])
def test_nobody_but_workers_reaches_providers(role: str) -> None:
    assert _to_providers(ALL, role) == []


def test_a_fleet_of_one_s_own_reaches_providers_too() -> None:
    assert _to_providers(over(CLOSED, MATRIX["fourth fleet"]), "worker-webhooks") != []


def test_no_ports_of_providers_means_none() -> None:
    for rule in _rules(over(CLOSED_TO_ALL), "worker", "egress"):
        assert ("TCP", 443) not in _ports(rule)
        assert "0.0.0.0/0" not in str(rule.get("to"))

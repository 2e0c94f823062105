"""Services and the ingress: who can be asked, and where."""

import pytest

from tests.chart import helm
from tests.chart.documents import annotations, by_role, main_container, of_kind, pods
from tests.chart.values import DECORATED, FLOWER, INGRESS, MATRIX, over


@pytest.mark.parametrize("name", MATRIX)
def test_a_service_leads_to_a_port_that_its_pods_have(name: str) -> None:
    documents = helm.render(MATRIX[name])
    for role, service in by_role(documents, "Service").items():
        ports = {port["name"] for port in main_container(pods(documents)[role])["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
        assert service["spec"]["selector"].items() <= pods(documents)[role]["metadata"]["labels"].items()


def test_the_api_and_flower_have_services_and_nobody_else() -> None:
    assert set(by_role(helm.render(over(FLOWER)), "Service")) == {"api", "flower"}
    assert set(by_role(helm.render(over()), "Service")) == {"api"}
    assert of_kind(helm.render(MATRIX["no api"]), "Service") == []


def test_services_are_a_matter_of_values() -> None:
    chosen = {
        "api": {"service": {"type": "NodePort", "port": 80}},
        "flower": {"enabled": True, "service": {"port": 81}},
    }
    found = by_role(helm.render(over(chosen, DECORATED)), "Service")

    assert (found["api"]["spec"]["type"], found["api"]["spec"]["ports"][0]["port"]) == ("NodePort", 80)
    assert (found["flower"]["spec"]["type"], found["flower"]["spec"]["ports"][0]["port"]) == ("ClusterIP", 81)
    assert annotations(found["api"]) == annotations(found["flower"]) == {"a.example/s": "t"}


def test_the_default_ports_are_those_of_the_program() -> None:
    documents = helm.render(over(FLOWER))
    ports = {role: main_container(pod)["ports"] for role, pod in pods(documents).items() if role != "migrate"}

    assert {role: [port["containerPort"] for port in found] for role, found in ports.items()} == {
        "worker": [9464],
        "worker-ingest": [9464],
        "worker-heavy": [9464],
        "beat": [9464],
        "api": [8000],
        "flower": [5555],
    }


def test_the_ingress_is_closed_unless_it_is_wanted() -> None:
    assert of_kind(helm.render(over()), "Ingress") == []
    assert of_kind(helm.render(over(MATRIX["no api"], INGRESS)), "Ingress") == []


def test_the_ingress_opens_the_paths_that_are_named() -> None:
    (ingress,) = of_kind(helm.render(over(INGRESS)), "Ingress")

    spec = ingress["spec"]
    paths = {rule["host"]: [path["path"] for path in rule["http"]["paths"]] for rule in spec["rules"]}
    assert paths == {"hops.example": ["/status", "/runs"], "all.example": ["/"]}
    backends = [path["backend"]["service"] for rule in spec["rules"] for path in rule["http"]["paths"]]
    assert {(each["name"], each["port"]["name"]) for each in backends} == {("hops-dev-hops-api", "http")}
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"secretName": "hops-tls", "hosts": ["hops.example"]}]
    assert annotations(ingress) == {"a.example/b": "c"}


def test_the_ingress_leaves_to_the_cluster_what_nobody_chose() -> None:
    values = over({"api": {"ingress": {"enabled": True, "hosts": [{"host": "a.example"}]}}})
    (ingress,) = of_kind(helm.render(values), "Ingress")

    assert ingress["spec"].keys() == {"rules"}
    assert annotations(ingress) == {}


def test_a_service_account_has_no_rights_and_no_token() -> None:
    (account,) = of_kind(helm.render(over(DECORATED)), "ServiceAccount")

    assert account["automountServiceAccountToken"] is False
    assert annotations(account) == {"cloud.example/role": "hops"}
    kinds = {each["kind"] for values in MATRIX.values() for each in helm.render(values)}
    assert kinds.isdisjoint({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Secret"})


ACCOUNTS = [
    (over(), "hops-dev-hops", 1),
    (MATRIX["own service account"], "own", 1),
    (MATRIX["no service account"], "default", 0),
    (over({"serviceAccount": {"create": False, "name": "theirs"}}), "theirs", 0),
]


@pytest.mark.parametrize(("values", "name", "made"), ACCOUNTS)
def test_roles_run_as_the_account_that_is_chosen(values: helm.Values, name: str, made: int) -> None:
    documents = helm.render(values)

    assert [each["metadata"]["name"] for each in of_kind(documents, "ServiceAccount")] == [name] * made
    for deployment in of_kind(documents, "Deployment"):
        assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == name

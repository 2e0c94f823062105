"""How pods are replaced, how many there are, and how long they may take to end."""

from typing import Any

import pytest

from tests.chart import helm
from tests.chart.documents import annotations, by_role, configuration, main_container, pods, resolved
from tests.chart.helm import Document
from tests.chart.values import FLOWER, FOURTH_FLEET, KEDA, MATRIX, NO_AUTOSCALER, fleet, over

ONE_OF_A_KIND = ("beat", "worker-ingest")
WITH_FLOWER = over(FLOWER)


def _deployments(values: helm.Values = WITH_FLOWER) -> dict[str, Document]:
    return by_role(helm.render(values), "Deployment")


def test_the_default_release_has_one_deployment_for_each_role() -> None:
    assert set(_deployments()) == {"worker", "worker-ingest", "worker-heavy", "beat", "api", "flower"}
    assert set(_deployments(over())) == {"worker", "worker-ingest", "worker-heavy", "beat", "api"}


@pytest.mark.parametrize("role", [*ONE_OF_A_KIND, "flower"])
def test_one_of_a_kind_is_recreated(role: str) -> None:
    assert _deployments()[role]["spec"]["strategy"] == {"type": "Recreate"}
    assert _deployments()[role]["spec"]["replicas"] == 1


@pytest.mark.parametrize("name", MATRIX)
def test_beat_and_ingest_are_one_and_recreated_whatever_else_is_chosen(name: str) -> None:
    documents = helm.render(MATRIX[name])
    for role in ONE_OF_A_KIND:
        spec = by_role(documents, "Deployment")[role]["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


@pytest.mark.parametrize("name", MATRIX)
def test_no_autoscaler_aims_at_one_of_a_kind(name: str) -> None:
    documents = helm.render(MATRIX[name])

    scaled = set(by_role(documents, "HorizontalPodAutoscaler")) | set(by_role(documents, "ScaledObject"))

    assert scaled.isdisjoint({*ONE_OF_A_KIND, "flower"})


@pytest.mark.parametrize(("role", "surge"), [("worker", "25%"), ("worker-heavy", 1), ("api", "25%")])
def test_a_rolled_role_never_has_fewer_pods_than_wanted(role: str, surge: object) -> None:
    strategy = _deployments()[role]["spec"]["strategy"]

    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": surge}}


@pytest.mark.parametrize("name", MATRIX)
def test_replicas_are_left_out_under_an_autoscaler_and_only_there(name: str) -> None:
    documents = helm.render(MATRIX[name])
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in documents if "scaleTargetRef" in each.get("spec", {})}

    without = {each["metadata"]["name"] for each in documents if _lacks_replicas(each)}

    assert without == scaled


def _lacks_replicas(document: Document) -> bool:
    return document["kind"] == "Deployment" and "replicas" not in document["spec"]


@pytest.mark.parametrize("name", MATRIX)
def test_every_scaler_aims_at_a_deployment_that_is_there(name: str) -> None:
    documents = helm.render(MATRIX[name])
    there = {each["metadata"]["name"] for each in documents if each["kind"] == "Deployment"}

    targets = [each["spec"]["scaleTargetRef"] for each in documents if "scaleTargetRef" in each.get("spec", {})]

    assert {target["name"] for target in targets} <= there
    assert {target.get("kind", "Deployment") for target in targets} <= {"Deployment"}


def test_replicas_are_those_of_the_values_without_an_autoscaler() -> None:
    found = {role: each["spec"]["replicas"] for role, each in _deployments(NO_AUTOSCALER).items()}

    assert found == {"worker": 2, "worker-heavy": 2, "worker-ingest": 1, "beat": 1, "api": 2}
    assert _deployments(over(NO_AUTOSCALER, fleet("worker", replicas=7)))["worker"]["spec"]["replicas"] == 7


GRACE = {"worker": 300, "worker-ingest": 90, "worker-heavy": 600, "beat": 30, "api": 30, "flower": 30}


def test_grace_is_that_of_the_design() -> None:
    found = {role: _grace(each["spec"]["template"]) for role, each in _deployments().items()}

    assert found == GRACE


def _grace(pod: Document) -> int:
    return int(pod["spec"]["terminationGracePeriodSeconds"])


@pytest.mark.parametrize("name", MATRIX)
def test_every_pod_sets_its_grace(name: str) -> None:
    for role, pod in pods(helm.render(MATRIX[name])).items():
        assert 0 < _grace(pod) <= 600, role


DRAIN = {"worker": 240, "worker-ingest": 60, "worker-heavy": 540}


def test_drain_is_that_of_the_design_and_ends_before_the_grace() -> None:
    documents = helm.render(over())
    for role, drain in DRAIN.items():
        found = resolved(documents, main_container(pods(documents)[role]))
        assert found["WORKER_DRAIN_SECONDS"] == str(drain)
        assert drain < GRACE[role]


def test_the_api_closes_its_endpoint_before_it_ends() -> None:
    container = main_container(pods(helm.render(over()))["api"])

    assert _sleep(container) == 5
    longer = over({"api": {"preStopSeconds": 12}})
    assert _sleep(main_container(pods(helm.render(longer))["api"])) == 12


def _sleep(container: Document) -> int:
    """Seconds that it sleeps before SIGTERM; by a command, since the kubelet's own sleep is younger than 1.25."""
    command: list[str] = container["lifecycle"]["preStop"]["exec"]["command"]
    (seconds,) = [int(word) for word in " ".join(command).split() if word.isdecimal()]
    return seconds


def test_a_rollout_is_given_longer_than_grace_and_start() -> None:
    for role, deployment in _deployments().items():
        spec = deployment["spec"]
        assert spec["revisionHistoryLimit"] == 5, role
        assert spec["minReadySeconds"] == 10, role
        assert spec["progressDeadlineSeconds"] == 900 > GRACE[role] + 120, role


@pytest.mark.parametrize(("seconds", "wanted"), [(60, 900), (1800, 2400), (7200, 7800)])
def test_a_rollout_that_waits_for_a_migration_is_given_longer_than_that(seconds: int, wanted: int) -> None:
    for mode, expected in (("job", wanted), ("hook", 900)):
        values = over(FLOWER, {"migrations": {"mode": mode, "activeDeadlineSeconds": seconds}})
        found = {each["spec"]["progressDeadlineSeconds"] for each in _deployments(values).values()}
        assert found == {expected}, mode


@pytest.mark.parametrize("key", ["checksum/config", "cluster-autoscaler.kubernetes.io/safe-to-evict"])
def test_an_annotation_of_a_user_and_the_chart_stands_once(key: str) -> None:
    common, own = {"podAnnotations": {key: "common"}}, fleet("worker", podAnnotations={key: "own"})
    found = {role: annotations(pod)[key] for role, pod in pods(helm.render(over(FLOWER, common, own))).items()}

    assert found.pop("migrate") == "common"  # whose pod has none of the chart's
    is_ours = key == "checksum/config"
    assert (found.pop("worker") == "own") is not is_ours
    assert ("common" in found.values()) is not is_ours


def test_a_change_of_the_configuration_rolls_every_pod() -> None:
    one, other = (
        {role: annotations(pod) for role, pod in pods(helm.render(values)).items() if role != "migrate"}
        for values in (WITH_FLOWER, over(FLOWER, {"config": {"LOG_LEVEL": "DEBUG"}}))
    )

    changed = {role for role, found in one.items() if found["checksum/config"] != other[role]["checksum/config"]}

    assert changed == set(GRACE)


def test_a_change_that_is_not_of_the_configuration_rolls_nothing_by_its_checksum() -> None:
    values = over(FLOWER, {"api": {"autoscaling": {"max": 9}}})
    one, other = (
        {
            role: annotations(pod)["checksum/config"]
            for role, pod in pods(helm.render(each)).items()
            if role != "migrate"
        }
        for each in (WITH_FLOWER, values)
    )

    assert one == other


def test_a_reloader_may_be_told() -> None:
    note = {"reloader.stakater.com/auto": "true"}
    for deployment in _deployments(over({"deploymentAnnotations": note})).values():
        assert annotations(deployment).items() >= note.items()
    for deployment in _deployments().values():
        assert "reloader.stakater.com/auto" not in annotations(deployment)


def test_a_fourth_fleet_is_a_matter_of_values() -> None:
    documents = helm.render(over(FOURTH_FLEET))

    fleets = configuration(documents)["DEV_HOPS_FLEETS"].split(";")

    assert "worker-webhooks=webhooks" in fleets
    (worker,) = [each for each in fleets if each.startswith("worker=")]
    assert "webhooks" not in worker
    deployment = by_role(documents, "Deployment")["worker-webhooks"]
    environment = resolved(documents, main_container(deployment["spec"]["template"]))
    assert environment["DEV_HOPS_FLEET"] == "worker-webhooks"
    assert environment["CELERY_CONCURRENCY"] == "10"
    assert by_role(documents, "HorizontalPodAutoscaler")["worker-webhooks"]["spec"]["minReplicas"] == 2
    assert "worker-webhooks" in by_role(documents, "PodDisruptionBudget")


def test_a_fleet_may_go_when_another_takes_its_queues() -> None:
    queues = [*_queues("worker-heavy"), *_queues("worker")]
    values = over(fleet("worker", queues=queues), {"fleets": {"worker-heavy": None}})

    assert set(_deployments(values)) == {"worker", "worker-ingest", "beat", "api"}


def _queues(name: str) -> list[str]:
    found = configuration(helm.render(over()))["DEV_HOPS_FLEETS"].split(";")
    (listed,) = [each.partition("=")[2] for each in found if each.startswith(f"{name}=")]
    return listed.split(",")


BUDGETS: list[tuple[helm.Values, set[str]]] = [
    (over(), {"worker", "api"}),  # min of worker-heavy is 1
    (KEDA, {"worker", "api"}),
    (NO_AUTOSCALER, {"worker", "worker-heavy", "api"}),
    (over(NO_AUTOSCALER, fleet("worker", replicas=1)), {"worker-heavy", "api"}),
    (over(fleet("worker-heavy", autoscaling={"min": 2})), {"worker", "worker-heavy", "api"}),
    (over(fleet("worker", pdb=False)), {"api"}),
    (over({"api": {"autoscaling": {"min": 1}}}), {"worker"}),
    (over({"api": {"pdb": False}}), {"worker"}),
    (MATRIX["no api"], {"worker", "worker-heavy"}),
    (MATRIX["one pod of each"], set()),
]


@pytest.mark.parametrize(("values", "roles"), BUDGETS)
def test_a_disruption_budget_is_there_where_two_pods_are_and_lets_one_go(values: helm.Values, roles: set[str]) -> None:
    budgets = by_role(helm.render(values), "PodDisruptionBudget")

    assert set(budgets) == roles
    for budget in budgets.values():
        assert budget["spec"].keys() == {"maxUnavailable", "selector"}
        assert budget["spec"]["maxUnavailable"] == 1


def test_a_budget_covers_its_role_alone() -> None:
    documents = helm.render(over())
    for role, budget in by_role(documents, "PodDisruptionBudget").items():
        matching = [name for name, pod in pods(documents).items() if _selects(budget["spec"]["selector"], pod)]
        assert matching == [role]


def _selects(selector: dict[str, Any], pod: Document) -> bool:
    wanted: dict[str, str] = selector["matchLabels"]
    labels: dict[str, str] = pod["metadata"]["labels"]
    return wanted.items() <= labels.items()

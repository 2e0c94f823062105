"""Names and labels: selectors can never change, names have an end."""

import re
import shutil
from pathlib import Path

import pytest

from tests.chart import helm
from tests.chart.documents import by_role, of_kind, pods, texts
from tests.chart.helm import Document
from tests.chart.values import DECORATED, FLOWER, MATRIX, over

SELECTING = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}
LONGEST = "r" * 53  # helm takes no longer release


def _selectors(documents: list[Document]) -> dict[str, dict[str, str]]:
    deployments = by_role(documents, "Deployment")
    return {role: each["spec"]["selector"]["matchLabels"] for role, each in deployments.items()}


@pytest.mark.parametrize("name", MATRIX)
def test_selectors_hold_what_never_changes_and_nothing_else(name: str) -> None:
    documents = helm.render(MATRIX[name])
    for role, selector in _selectors(documents).items():
        assert set(selector) == SELECTING
        assert selector["app.kubernetes.io/component"] == role
        assert selector.items() <= pods(documents)[role]["metadata"]["labels"].items()
    for service in of_kind(documents, "Service"):
        assert set(service["spec"]["selector"]) == SELECTING


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """The chart, one version on."""
    chart = tmp_path / "helm"
    shutil.copytree(helm.CHART, chart)
    described = (chart / "Chart.yaml").read_text(encoding="utf-8")
    raised = re.sub(r"^(version|appVersion): .*$", r'\1: "9.9.9"', described, flags=re.MULTILINE)
    (chart / "Chart.yaml").write_text(raised, encoding="utf-8")
    return chart


def test_selectors_are_the_same_in_the_next_version(next_version: Path) -> None:
    before = helm.render(over(FLOWER))
    after = helm.render(over(FLOWER, DECORATED, {"image": {"tag": "9.9.9"}}), chart=next_version, is_upgrade=True)

    assert _selectors(after) == _selectors(before)
    assert _service_selectors(after) == _service_selectors(before)
    assert [each["metadata"]["name"] for each in of_kind(after, "Deployment")] == [
        each["metadata"]["name"] for each in of_kind(before, "Deployment")
    ]


def _service_selectors(documents: list[Document]) -> dict[str, dict[str, str]]:
    return {role: each["spec"]["selector"] for role, each in by_role(documents, "Service").items()}


def test_the_version_stands_in_labels_of_objects_and_moves(next_version: Path) -> None:
    values = over({"image": {"tag": "9.9.9"}})
    for document in helm.render(values, chart=next_version):
        labels = document["metadata"]["labels"]
        assert labels["app.kubernetes.io/version"] == "9.9.9", document["kind"]
        assert labels["helm.sh/chart"] == "dev-hops-9.9.9", document["kind"]


@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("release", [helm.RELEASE, LONGEST])
def test_names_are_short_enough_and_none_stands_twice(name: str, release: str) -> None:
    documents = helm.render(MATRIX[name], release=release)
    names = [(each["kind"], each["metadata"]["name"]) for each in documents]

    assert [each for each in names if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", each[1])] == []
    assert len(names) == len(set(names))
    assert {each["metadata"]["namespace"] for each in documents} == {helm.NAMESPACE}


@pytest.mark.parametrize("release", [helm.RELEASE, LONGEST])
def test_labels_are_ones_that_kubernetes_takes(release: str) -> None:
    for name, values in MATRIX.items():
        for document in helm.render(values, release=release):
            for value in document["metadata"]["labels"].values():
                assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value), (name, value)


@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("release", [helm.RELEASE, "production-development-metrics", LONGEST])
def test_a_deployment_s_name_survives_in_those_of_its_pods(name: str, release: str) -> None:
    """A pod is called DEPLOYMENT-HASH-XXXXX, cut to 58 before the last five letters; the hash has up to ten."""
    names = {each["metadata"]["name"] for each in of_kind(helm.render(MATRIX[name], release=release), "Deployment")}

    assert {f"{each}-{'7' * 10}-"[:58] for each in names} == {f"{each}-{'7' * 10}-" for each in names}


def test_a_digest_says_the_version_and_the_tag_that_loses_does_not() -> None:
    for document in helm.render(MATRIX["digest"]):
        assert document["metadata"]["labels"]["app.kubernetes.io/version"] == "0123456789ab", document["kind"]


@pytest.mark.parametrize("release", ["2024-hops", "my.rel"])
def test_a_release_whose_name_no_service_may_have_is_asked_for_another(release: str) -> None:
    with pytest.raises(helm.Refused, match="give fullnameOverride"):
        helm.render(over(), release=release)
    documents = helm.render(over(FLOWER, {"fullnameOverride": "hops"}), release=release)
    assert {each["metadata"]["name"] for each in of_kind(documents, "Service")} == {"hops-api", "hops-flower"}


def test_a_long_tag_is_cut_to_a_label() -> None:
    for document in helm.render(over({"image": {"tag": "t" * 62 + "-" + "u" * 40}})):
        assert document["metadata"]["labels"]["app.kubernetes.io/version"] == "t" * 62


def test_a_release_named_like_the_chart_says_its_name_once() -> None:
    names = {each["metadata"]["name"] for each in of_kind(helm.render(over(), release="dev-hops"), "Deployment")}

    assert "dev-hops-worker" in names


def test_a_name_by_hand_begins_every_name() -> None:
    values = over(FLOWER, {"fullnameOverride": "mine"})

    assert all(each["metadata"]["name"].startswith("mine") for each in helm.render(values))


def test_another_name_of_the_chart_stands_in_labels() -> None:
    for document in helm.render(over({"nameOverride": "other"})):
        assert document["metadata"]["labels"]["app.kubernetes.io/name"] == "other"


def test_labels_and_annotations_for_all_reach_all() -> None:
    documents = helm.render(over(DECORATED, FLOWER))
    for document in documents:
        assert document["metadata"]["labels"]["team"] == "hops", document["kind"]
    for role, pod in pods(documents).items():
        assert pod["metadata"]["labels"]["team"] == "hops", role
        assert pod["metadata"]["labels"]["pod.example/l"] == "m", role
        assert pod["metadata"]["annotations"]["pod.example/a"] == "b", role


def test_a_digest_wins_over_a_tag() -> None:
    images = {text for text in texts(helm.render(MATRIX["digest"])) if text.startswith("registry.example/")}

    assert images == {f"registry.example/dev-hops@{MATRIX['digest']['image']['digest']}"}


def test_every_container_runs_the_one_image() -> None:
    for values in MATRIX.values():
        for pod in pods(helm.render(values)).values():
            for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
                assert container["image"].startswith("registry.example/dev-hops")
                assert container["imagePullPolicy"] == "IfNotPresent"


def test_secrets_of_the_registry_are_named_by_either_value() -> None:
    for pod in pods(helm.render(over(DECORATED))).values():
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    for pod in pods(helm.render(over())).values():
        assert "imagePullSecrets" not in pod["spec"]

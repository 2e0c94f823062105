"""Every document of every shape of a release is one that its API takes."""

import functools
import json
from pathlib import Path

import pytest

from tests.chart import custom_resources, helm, kubernetes
from tests.chart.helm import Document
from tests.chart.values import MATRIX


@functools.cache
def _distinct() -> list[Document]:
    """The documents of the whole matrix, each once."""
    every = [document for values in MATRIX.values() for document in helm.render(values)]
    return list({json.dumps(document, sort_keys=True): document for document in every}.values())


def test_every_document_is_one_that_kubernetes_takes() -> None:
    own = [document for document in _distinct() if not custom_resources.is_custom(document)]
    places = [(version, each) for version in kubernetes.VERSIONS for each in own]

    found = {
        f"{version} {each['kind']} {each['metadata']['name']}": kubernetes.faults(each, version)
        for version, each in places
    }

    assert {name: faults for name, faults in found.items() if faults} == {}
    assert len(own) > 100


@pytest.mark.parametrize("version", kubernetes.VERSIONS)
def test_the_documents_are_the_same_for_every_kubernetes(version: str) -> None:
    assert helm.render(MATRIX["everything"], kube_version=version) == helm.render(MATRIX["everything"])


def test_a_kubernetes_that_is_too_old_is_refused() -> None:
    with pytest.raises(helm.Refused, match=r"1\.25"):
        helm.render(MATRIX["default"], kube_version="1.24.0")


def test_every_custom_resource_is_one_that_its_controller_takes(validators: Path) -> None:
    custom = [document for document in _distinct() if custom_resources.is_custom(document)]

    faults = custom_resources.faults(custom, validators)

    assert [fault for fault in faults if fault] == []
    assert {document["kind"] for document in custom} == set(custom_resources.KNOWN)


def test_no_custom_resource_has_a_key_that_its_controller_does_not_know() -> None:
    custom = [document for document in _distinct() if custom_resources.is_custom(document)]

    assert {
        each["metadata"]["name"]: unknown for each in custom if (unknown := custom_resources.unknown_keys(each))
    } == {}


def test_the_schemas_find_a_wrong_key_and_a_wrong_type() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"ports": [{"port": "x", "y": 1}]},
    }

    assert len(kubernetes.faults(service, kubernetes.VERSIONS[-1])) == 2


def test_the_validators_find_a_wrong_type_and_a_missing_field(validators: Path) -> None:
    wrong = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "a"},
        "spec": {"triggers": 1},
    }

    (fault,) = custom_resources.faults([wrong], validators)

    assert "triggers" in fault
    assert "scaleTargetRef" in fault


def test_the_lists_find_an_unknown_key() -> None:
    trigger = {"type": "metrics-api", "metadata": {"url": "http://a", "adress": "b"}, "colour": "red"}
    resource = {"kind": "ScaledObject", "spec": {"triggers": [trigger], "minReplicas": 1}}

    assert custom_resources.unknown_keys(resource) == [
        "spec.minReplicas",
        "spec.triggers.colour",
        "spec.triggers.metadata.adress",
    ]


@pytest.mark.parametrize("name", MATRIX)
def test_lint_finds_nothing(name: str) -> None:
    assert "0 chart(s) failed" in helm.lint(MATRIX[name])

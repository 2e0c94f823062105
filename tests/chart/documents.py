"""Parts of rendered documents: of which kind, of which role, and the pods in them."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.chart.helm import Document

COMPONENT = "app.kubernetes.io/component"
HOOK = "helm.sh/hook"


def of_kind(documents: Sequence[Document], kind: str) -> list[Document]:
    """The documents of one kind."""
    return [document for document in documents if document["kind"] == kind]


def by_role(documents: Sequence[Document], kind: str) -> dict[str, Document]:
    """Role (a fleet, beat, api, …) -> its document of one kind."""
    return {document["metadata"]["labels"][COMPONENT]: document for document in of_kind(documents, kind)}


def annotations(document: Document) -> dict[str, str]:
    """Its annotations, empty where it has none."""
    found: dict[str, str] = document["metadata"].get("annotations") or {}
    return found


def pods(documents: Sequence[Document]) -> dict[str, Document]:
    """Role -> pod template, of every Deployment and Job."""
    found = {**by_role(documents, "Deployment"), **by_role(documents, "Job")}
    return {role: document["spec"]["template"] for role, document in found.items()}


def containers(pod: Document) -> list[Document]:
    """Its containers, those for its start among them."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def main_container(pod: Document) -> Document:
    """Its one container."""
    (only,) = pod["spec"]["containers"]
    found: Document = only
    return found


def every_container(documents: Sequence[Document]) -> list[tuple[str, Document]]:
    """Role and container, of every pod."""
    return [(role, container) for role, pod in pods(documents).items() for container in containers(pod)]


def environment(container: Document) -> dict[str, Document]:
    """Name -> entry of its `env`."""
    return {entry["name"]: entry for entry in container.get("env") or []}


def configuration(documents: Sequence[Document]) -> dict[str, str]:
    """What the ConfigMap that every role reads says."""
    own = [document for document in of_kind(documents, "ConfigMap") if "DEV_HOPS_FLEETS" in document["data"]]
    (found,) = [document for document in own if HOOK not in annotations(document)]
    data: dict[str, str] = found["data"]
    return data


def resolved(documents: Sequence[Document], container: Document) -> dict[str, str]:
    """Name -> plain value that a container gets: its `envFrom` of our ConfigMap, below its `env`."""
    own = {name: entry["value"] for name, entry in environment(container).items() if "value" in entry}
    return {**configuration(documents), **own}


def texts(node: Any) -> Iterator[str]:
    """Every text in a document, keys among them."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from (str(key), *texts(value))
    elif isinstance(node, list):
        for item in node:
            yield from texts(item)
    elif isinstance(node, str):
        yield node

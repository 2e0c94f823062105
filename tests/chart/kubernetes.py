"""What Kubernetes of a given version says to a document, strictly: an unknown key is a fault. A bad quantity is not found."""

import functools
import json
import re
from importlib import resources
from typing import Any

import kubernetes_validate
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.chart.helm import Document

VERSIONS = ("1.25.0", "1.31.0", "1.37.0")


def faults(document: Document, version: str) -> list[str]:
    """What is wrong, each with its place."""
    found = _validator(document["kind"], document["apiVersion"], version).iter_errors(document)
    return [f"{fault.json_path}: {fault.message[:300]}" for fault in found]


@functools.cache
def _validator(kind: str, api_version: str, version: str) -> Draft202012Validator:
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)  # networking.k8s.io/v1 -> networking-v1
    schema = _read(version, f"{kind.lower()}-{group}.json")
    return Draft202012Validator(schema, registry=Resource.from_contents(schema) @ _definitions(version))


@functools.cache
def _definitions(version: str) -> "Registry[Any]":
    return Resource.from_contents(_read(version, "_definitions.json")) @ Registry()


def _read(version: str, name: str) -> Any:
    folder = resources.files(kubernetes_validate) / "kubernetes-json-schema" / f"v{version}-local-strict"
    return json.loads((folder / name).read_text(encoding="utf-8"))

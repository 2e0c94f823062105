"""What is wrong with custom resources: by the validators that npm carries, and by lists of the keys that we know.

The validators find wrong types and missing fields, never a key that does not exist; hence the lists.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.chart.helm import Document

SCRIPT = Path(__file__).parent / "npm" / "validators" / "validate.mjs"
TIMEOUT_SECONDS = 60
GROUPS = ("keda.sh/v1alpha1", "monitoring.coreos.com/v1")

Keys = dict[
    str, Any
]  # of an object: None below a key means whatever is there, a dict its keys, a list of one its items'

ANY: None = None
SCALING_RULES: Keys = {
    "stabilizationWindowSeconds": ANY,
    "selectPolicy": ANY,
    "policies": [{"type": ANY, "value": ANY, "periodSeconds": ANY}],
}
KNOWN: dict[str, Keys] = {
    "ScaledObject": {
        "scaleTargetRef": {"apiVersion": ANY, "kind": ANY, "name": ANY, "envSourceContainerName": ANY},
        "pollingInterval": ANY,
        "cooldownPeriod": ANY,
        "initialCooldownPeriod": ANY,
        "idleReplicaCount": ANY,
        "minReplicaCount": ANY,
        "maxReplicaCount": ANY,
        "fallback": {"failureThreshold": ANY, "replicas": ANY, "behavior": ANY},
        "advanced": {
            "restoreToOriginalReplicaCount": ANY,
            "horizontalPodAutoscalerConfig": {
                "name": ANY,
                "behavior": {"scaleUp": SCALING_RULES, "scaleDown": SCALING_RULES},
            },
            "scalingModifiers": {"formula": ANY, "target": ANY, "activationTarget": ANY, "metricType": ANY},
        },
        "triggers": [
            {
                "type": ANY,
                "name": ANY,
                "metricType": ANY,
                "useCachedMetrics": ANY,
                "metadata": ANY,
                "authenticationRef": {"name": ANY, "kind": ANY},
            }
        ],
    },
    "TriggerAuthentication": {
        "secretTargetRef": [{"parameter": ANY, "name": ANY, "key": ANY}],
        "env": [{"parameter": ANY, "name": ANY, "containerName": ANY}],
    },
    "PodMonitor": {
        "jobLabel": ANY,
        "podTargetLabels": ANY,
        "selector": {"matchLabels": ANY, "matchExpressions": ANY},
        "namespaceSelector": ANY,
        "podMetricsEndpoints": [
            {
                "port": ANY,
                "path": ANY,
                "interval": ANY,
                "scrapeTimeout": ANY,
                "honorLabels": ANY,
                "relabelings": ANY,
                "metricRelabelings": ANY,
            }
        ],
    },
    "PrometheusRule": {
        "groups": [
            {
                "name": ANY,
                "interval": ANY,
                "limit": ANY,
                "rules": [
                    {
                        "alert": ANY,
                        "record": ANY,
                        "expr": ANY,
                        "for": ANY,
                        "keep_firing_for": ANY,
                        "labels": ANY,
                        "annotations": ANY,
                    }
                ],
            }
        ]
    },
}
TRIGGER_METADATA = {
    "metrics-api": {"url", "format", "valueLocation", "targetValue", "activationTargetValue", "authMode", "unsafeSsl"},
    "prometheus": {"serverAddress", "query", "threshold", "activationThreshold", "ignoreNullValues", "unsafeSsl"},
    "redis": {"address", "listName", "listLength", "activationListLength", "databaseIndex", "enableTLS", "unsafeSsl"},
    "redis-sentinel": {
        "addresses",
        "sentinelMaster",
        "listName",
        "listLength",
        "activationListLength",
        "databaseIndex",
        "enableTLS",
        "unsafeSsl",
    },
}  # all that KEDA knows of a trigger and that we use, or might


def is_custom(document: Document) -> bool:
    """Whether it is a resource that Kubernetes itself does not know."""
    return document["apiVersion"] in GROUPS


def faults(resources: Sequence[Document], node_modules: Path) -> list[str]:
    """What is wrong with each, in the same order; empty where nothing is."""
    command = ["node", str(SCRIPT), str(node_modules)]
    done = subprocess.run(
        command, input=json.dumps(resources), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
    )
    return [str(fault) for fault in json.loads(done.stdout)]


def unknown_keys(resource: Document) -> list[str]:
    """The paths of keys in its `spec` that its kind does not have."""
    spec = resource["spec"]
    own = {f"spec.triggers.metadata.{key}" for key in _foreign_metadata(spec.get("triggers", []))}
    return sorted({*_unknown(spec, KNOWN[resource["kind"]], "spec"), *own})


def _unknown(value: Any, known: Any, path: str) -> Iterator[str]:
    if isinstance(known, list):
        for item in value:
            yield from _unknown(item, known[0], path)
    elif known is not ANY:
        for key, below in value.items():
            if key in known:
                yield from _unknown(below, known[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"


def _foreign_metadata(triggers: Sequence[Document]) -> Iterator[str]:
    for trigger in triggers:
        yield from set(trigger["metadata"]) - TRIGGER_METADATA.get(trigger["type"], set())

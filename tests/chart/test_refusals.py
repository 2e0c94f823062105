"""What the schema of the values refuses, and where it says the fault is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart import helm
from tests.chart.values import over

LONG = "a" * 31
REFUSED: list[tuple[str, helm.Values]] = [
    ("/beat/replicas", {"beat": {"replicas": 2}}),
    ("/beat/replicas", {"beat": {"replicas": 0}}),
    ("/beat/terminationGracePeriodSeconds", {"beat": {"terminationGracePeriodSeconds": 601}}),
    ("/beat", {"beat": {"autoscaling": {"kind": "hpa"}}}),
    ("/fleets/worker-ingest/concurrency", {"fleets": {"worker-ingest": {"concurrency": 2}}}),
    ("/fleets/worker-ingest/replicas", {"fleets": {"worker-ingest": {"replicas": 2}}}),
    ("/fleets/worker-ingest/autoscaling/kind", {"fleets": {"worker-ingest": {"autoscaling": {"kind": "hpa"}}}}),
    ("/fleets/worker-ingest/autoscaling/kind", {"fleets": {"worker-ingest": {"autoscaling": {"kind": "keda"}}}}),
    ("/fleets/worker/terminationGracePeriodSeconds", {"fleets": {"worker": {"terminationGracePeriodSeconds": 601}}}),
    ("/fleetDefaults/terminationGracePeriodSeconds", {"fleetDefaults": {"terminationGracePeriodSeconds": 601}}),
    ("/fleetDefaults/drainSeconds", {"fleetDefaults": {"drainSeconds": 0}}),
    ("/api/terminationGracePeriodSeconds", {"api": {"terminationGracePeriodSeconds": 3600}}),
    ("/flower/terminationGracePeriodSeconds", {"flower": {"terminationGracePeriodSeconds": 3600}}),
    ("/fleets/worker/queues", {"fleets": {"worker": {"queues": []}}}),
    ("/fleets/worker/queues/0", {"fleets": {"worker": {"queues": ["Sync"]}}}),
    ("/fleets/worker/queues/0", {"fleets": {"worker": {"queues": ["a,b"]}}}),
    ("/fleets/worker/queues/0", {"fleets": {"worker": {"queues": ["a;b=c"]}}}),
    ("/fleets/more", {"fleets": {"more": {"concurrency": 1}}}),
    ("/fleets/worker/concurrency", {"fleets": {"worker": {"concurrency": 0}}}),
    ("/fleets/worker/concurrency", {"fleets": {"worker": {"concurrency": "20"}}}),
    ("/fleets/worker/autoscale", {"fleets": {"worker": {"autoscale": "20"}}}),
    ("/fleets/worker/autoscale", {"fleets": {"worker": {"autoscale": "20, 2"}}}),
    ("/fleets/worker/pool", {"fleets": {"worker": {"pool": "eventlet"}}}),
    ("/fleetDefaults/pool", {"fleetDefaults": {"pool": "solo"}}),
    ("/fleets/worker/maxSurge", {"fleets": {"worker": {"maxSurge": 0}}}),
    ("/fleets/worker/replicas", {"fleets": {"worker": {"replicas": 0}}}),
    ("/fleets/worker/tmpSizeLimit", {"fleets": {"worker": {"tmpSizeLimit": "4 GB"}}}),
    ("/fleets/worker/autoscaling/kind", {"fleets": {"worker": {"autoscaling": {"kind": "both"}}}}),
    ("/fleets/worker/autoscaling/kind", {"fleets": {"worker": {"autoscaling": {"kind": ["hpa", "keda"]}}}}),
    ("/fleets/worker/autoscaling/min", {"fleets": {"worker": {"autoscaling": {"min": 0}}}}),
    ("/fleets/worker/autoscaling/workPerPod", {"fleets": {"worker": {"autoscaling": {"workPerPod": 0}}}}),
    (
        "/fleets/worker/autoscaling/behavior/scaleDown/stabilizationWindowSeconds",
        {"fleets": {"worker": {"autoscaling": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 3601}}}}}},
    ),
    (
        "/fleets/worker/autoscaling/behavior/scaleUp/policies/0/type",
        {
            "fleets": {
                "worker": {
                    "autoscaling": {
                        "behavior": {"scaleUp": {"policies": [{"type": "Pod", "value": 1, "periodSeconds": 30}]}}
                    }
                }
            }
        },
    ),
    ("/fleets/worker/keda/source", {"fleets": {"worker": {"keda": {"source": "rabbitmq"}}}}),
    ("/fleetDefaults/keda/source", {"fleetDefaults": {"keda": {"source": "redis-streams"}}}),
    (
        "/fleetDefaults/keda/prometheus/serverAddress",
        {"fleetDefaults": {"keda": {"prometheus": {"serverAddress": "prometheus:9090"}}}},
    ),
    ("/fleetDefaults/keda/redis/url", {"fleetDefaults": {"keda": {"redis": {"url": "redis.example:6379"}}}}),
    ("/api/replicas", {"api": {"replicas": 0}}),
    ("/api/autoscaling/kind", {"api": {"autoscaling": {"kind": "keda"}}}),
    ("/api/autoscaling/cpuPercent", {"api": {"autoscaling": {"cpuPercent": 0}}}),
    ("/api/service/type", {"api": {"service": {"type": "ExternalName"}}}),
    ("/api/service/port", {"api": {"service": {"port": 70000}}}),
    ("/api/ingress/hosts/0/paths/0", {"api": {"ingress": {"hosts": [{"host": "a.example", "paths": ["status"]}]}}}),
    ("/flower/service/port", {"flower": {"service": {"port": 0}}}),
    ("/migrations/mode", {"migrations": {"mode": "post-install"}}),
    ("/migrations/activeDeadlineSeconds", {"migrations": {"activeDeadlineSeconds": 0}}),
    ("/image/digest", {"image": {"digest": "sha256:abc"}}),
    ("/image/digest", {"image": {"digest": "A" * 64}}),
    ("/image/tag", {"image": {"tag": "a b"}}),
    ("/image/tag", {"image": {"tag": 1.2}}),
    ("/image/pullPolicy", {"image": {"pullPolicy": "Sometimes"}}),
    ("/image/pullSecrets/0", {"image": {"pullSecrets": ["registry"]}}),
    ("/fullnameOverride", {"fullnameOverride": LONG}),
    ("/fullnameOverride", {"fullnameOverride": "Hops"}),
    ("/runAsUser", {"runAsUser": 0}),
    ("/secrets/keys/databaseUrl", {"secrets": {"keys": {"databaseUrl": "a b"}}}),
    ("/config/LOG_LEVEL", {"config": {"LOG_LEVEL": "debug"}}),
    ("/config", {"config": {"CELERY_CONCURRENCY": 3}}),
    ("/config", {"config": {"AUTO_RUN_MIGRATIONS": True}}),
    ("/extraEnv/0/name", {"extraEnv": [{"name": "DEV_HOPS_FLEET", "value": "a"}]}),
    ("/extraEnv/0/name", {"extraEnv": [{"name": "WORKER_DRAIN_SECONDS", "value": "9"}]}),
    ("/extraEnv/0/name", {"extraEnv": [{"name": "a-b", "value": "9"}]}),
    ("/extraEnv/0/value", {"extraEnv": [{"name": "A", "value": 9}]}),
    ("/extraVolumes/0/name", {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}),
    ("/networkPolicy/egress/dnsPorts", {"networkPolicy": {"egress": {"dnsPorts": []}}}),
    ("/networkPolicy/egress/stores/0", {"networkPolicy": {"egress": {"stores": [{"to": []}]}}}),
    ("/podMonitor/interval", {"podMonitor": {"interval": "15"}}),
    ("/prometheusRule/runbookBaseUrl", {"prometheusRule": {"runbookBaseUrl": "docs.example"}}),
    ("/podLabels/a", {"podLabels": {"a": True}}),
    ("/commonLabels/a", {"commonLabels": {"a": 1}}),
]


@pytest.mark.parametrize(("place", "values"), REFUSED)
def test_a_wrong_value_is_refused_at_its_place(place: str, values: helm.Values) -> None:
    assert f"at '{place}'" in helm.refusal(over(values))


@pytest.mark.parametrize("name", ["Worker", "1st", "ends-", "a_b", "a" * 23])
def test_a_fleet_has_a_name_of_its_own_that_fits_into_those_of_objects(name: str) -> None:
    said = helm.refusal(over({"fleets": {name: {"queues": ["webhooks"], "concurrency": 1}}}))

    assert f"invalid propertyName '{name}'" in said


BAD_KEYS = ["a b", "a/b/c", "/a", "-a", "a" * 64]
BAD_LABELS = ["a b", "-a", "a" * 64, "http://a"]
LABELS = [
    "commonLabels",
    "podLabels",
    "nodeSelector",
    "podMonitor/labels",
    "prometheusRule/labels",
    "fleetDefaults/nodeSelector",
]
ANNOTATIONS = ["podAnnotations", "deploymentAnnotations", "serviceAccount/annotations", "api/ingress/annotations"]
NAMES = ["secrets/existingSecret", "serviceAccount/name", "priorityClassName", "api/ingress/className"]
NAMESPACES = [f"networkPolicy/ingress/{each}Namespace" for each in ("monitoring", "ingress", "keda", "flower")]
NO_PEERS: list[list[dict[str, Any]]] = [[{}], [{"namespace": {}}]]
NO_NAMES: list[tuple[str, object]] = [
    *((place, {key: "v"}) for place in [*LABELS, *ANNOTATIONS] for key in BAD_KEYS),
    *((f"{place}/k", value) for place in LABELS for value in BAD_LABELS),
    *((place, value) for place in [*NAMES, *NAMESPACES] for value in ("My Name", "a_b", "-a")),
    *((place, "a.b") for place in NAMESPACES),
    *(("nameOverride", value) for value in ("My Name", "-a", "a" * 64)),
    *(("dashboards/label", key) for key in BAD_KEYS),
    *(("dashboards/labelValue", value) for value in BAD_LABELS),
    *(("imagePullSecrets", [{"name": value}]) for value in ("", "A")),
    *(("api/ingress/hosts", [{"host": host}]) for host in ("http://x/y", "", "A.example", "a..b", "*", "x:80")),
    *(("api/ingress/tls", [{"hosts": [host]}]) for host in ("http://x/y", "A.example")),
    *(("networkPolicy/ingress/extraApiFrom", peers) for peers in NO_PEERS),
    ("networkPolicy/egress/stores", [{"port": 5432, "to": [{}]}]),
    ("extraVolumeMounts", [{"name": "a", "mountPath": "here"}]),
]


@pytest.mark.parametrize(("place", "value"), NO_NAMES)
def test_a_name_that_kubernetes_refuses_is_refused_before(place: str, value: object) -> None:
    path = place.split("/")
    given: Any = value
    for key in reversed(path):
        given = {key: given}

    said = helm.refusal(over(given))
    assert f"at '/{path[0]}" in said or [key for key in BAD_KEYS if f"invalid propertyName '{key}'" in said]


def test_names_that_kubernetes_takes_are_taken() -> None:
    labels = {"a.example/B_c.d": "E_f.g", "h": ""}
    given = {
        "commonLabels": labels,
        "podLabels": labels,
        "nodeSelector": labels,
        "podAnnotations": {"a.example/B": "any thing"},
        "secrets": {"existingSecret": "a.b-c"},
        "api": {"ingress": {"enabled": True, "hosts": [{"host": "*.a.example"}, {"host": "localhost"}]}},
    }
    assert helm.render(over(given)) != []


def _objects(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object that a schema describes key by key, with its path."""
    if "properties" in schema and schema.get("type") == "object":
        yield path, schema
    for key in ("properties", "definitions"):
        for name, below in schema.get(key, {}).items():
            yield from _objects(below, f"{path}/{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _objects(schema[key], f"{path}/{key}")


def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((helm.CHART / "values.schema.json").read_text(encoding="utf-8"))
    return found


OF_KUBERNETES = {"/extraVolumes/items", "/extraVolumeMounts/items"}  # whose keys are many, and not ours


def test_no_object_takes_a_key_that_it_does_not_know() -> None:
    open_ones = {path for path, schema in _objects(_schema()) if schema.get("additionalProperties") is not False}

    assert open_ones <= {"/fleets", *OF_KUBERNETES}  # the names of fleets are yours
    assert len(list(_objects(_schema()))) > 25


UNKNOWN: list[helm.Values] = [
    {"worker": {"replicas": 1}},
    {"image": {"registry": "a"}},
    {"fleets": {"worker": {"terminationGracePeriod": 30}}},
    {"fleets": {"worker": {"autoscaling": {"enabled": True}}}},
    {"fleetDefaults": {"keda": {"interval": 1}}},
    {"api": {"hpa": {"enabled": True}}},
    {"migrations": {"enabled": True}},
    {"networkPolicy": {"egress": {"dns": 53}}},
]


@pytest.mark.parametrize("values", UNKNOWN)
def test_an_unknown_name_is_refused(values: helm.Values) -> None:
    assert "additional properties" in helm.refusal(over(values))


def test_an_unknown_setting_in_the_environment_of_ours_is_refused() -> None:
    said = helm.refusal(over({"config": {"WORKER_DRAIN_SECS": 3}}))

    assert "WORKER_DRAIN_SECS" in said

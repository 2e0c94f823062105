"""Probes: which, how often, and what they look at. Never the broker."""

import pytest

from tests.chart import helm
from tests.chart.documents import every_container, main_container, pods, texts
from tests.chart.helm import Document
from tests.chart.values import FLOWER, MATRIX, over
from worker_app import settings

ALIVE = {"exec": {"command": ["/app/bin/probe", "alive"]}}
READY = {"exec": {"command": ["/app/bin/probe", "ready"]}}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
WORKERS = ("worker", "worker-ingest", "worker-heavy")


def _probe(look: Document, period: int, timeout: int, failures: int) -> Document:
    return {**look, "periodSeconds": period, "timeoutSeconds": timeout, "failureThreshold": failures}


def _http(path: str, port: str) -> Document:
    return {"httpGet": {"path": path, "port": port}}


WORKER = {
    "startupProbe": _probe(ALIVE, 5, 5, 24),
    "readinessProbe": _probe(READY, 10, 5, 3),
    "livenessProbe": _probe(ALIVE, 30, 5, 3),
}
HEALTHCHECK = _http("/healthcheck", "flower")
WANTED = {
    **dict.fromkeys(WORKERS, WORKER),
    "beat": {"startupProbe": _probe(ALIVE, 5, 5, 24), "livenessProbe": _probe(ALIVE, 30, 5, 3)},
    "api": {
        "startupProbe": _probe(_http("/livez", "http"), 2, 3, 60),
        "readinessProbe": _probe(_http("/readyz", "http"), 10, 3, 3),
        "livenessProbe": _probe(_http("/livez", "http"), 15, 3, 3),
    },
    "flower": {
        "startupProbe": _probe(HEALTHCHECK, 5, 5, 24),
        "readinessProbe": _probe(HEALTHCHECK, 30, 5, 3),
        "livenessProbe": _probe(HEALTHCHECK, 30, 5, 3),
    },
}


@pytest.mark.parametrize("role", WANTED)
def test_the_probes_of_a_role_are_those_of_the_design(role: str) -> None:
    container = main_container(pods(helm.render(over(FLOWER)))[role])

    assert {name: container[name] for name in PROBES if name in container} == WANTED[role]


def test_a_role_may_wait_for_its_schema_before_a_probe_gives_up() -> None:
    longest = settings.Settings.model_fields["schema_wait_seconds"].default
    for role in (*WORKERS, "beat", "api"):
        probe = main_container(pods(helm.render(over()))[role])["startupProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] > longest, role


@pytest.mark.parametrize("name", MATRIX)
def test_no_probe_asks_the_broker_or_a_remote_control(name: str) -> None:
    for role, container in every_container(helm.render(MATRIX[name])):
        words = " ".join(text for probe in PROBES for text in texts(container.get(probe, {})))
        assert not {"inspect", "ping", "celery", "redis-cli", "dev-hops"} & set(words.split()), role


@pytest.mark.parametrize("name", MATRIX)
def test_every_probe_names_a_port_that_its_container_has(name: str) -> None:
    for role, container in every_container(helm.render(MATRIX[name])):
        ports = {port["name"] for port in container.get("ports", [])}
        asked = {container[probe]["httpGet"]["port"] for probe in PROBES if "httpGet" in container.get(probe, {})}
        assert asked <= ports, role


@pytest.mark.parametrize("name", MATRIX)
def test_a_probe_over_http_needs_no_credentials(name: str) -> None:
    open_paths = {"/livez", "/readyz", "/healthcheck"}
    for role, container in every_container(helm.render(MATRIX[name])):
        for probe in PROBES:
            asked = container.get(probe, {}).get("httpGet", {})
            assert asked.get("path", "/livez") in open_paths, role
            assert "httpHeaders" not in asked, role


def test_beat_looks_at_its_own_sign_of_life() -> None:
    container = main_container(pods(helm.render(over()))["beat"])

    assert container["args"] == ["beat"]  # which writes the role that the probe reads
    assert "readinessProbe" not in container


def test_who_only_starts_or_ends_has_no_probe() -> None:
    for values in (over(), MATRIX["migrations as a job"]):
        for pod in pods(helm.render(values)).values():
            for starter in pod["spec"].get("initContainers", []):
                assert not set(PROBES) & set(starter)

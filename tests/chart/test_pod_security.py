"""Every pod, hooks and init containers among them, keeps the restricted profile and writes to two folders alone."""

import pytest

from tests.chart import helm
from tests.chart.documents import containers, main_container, pods
from tests.chart.helm import Document
from tests.chart.values import DECORATED, FLOWER, MATRIX, over


def _pods(name: str) -> list[tuple[str, Document]]:
    return list(pods(helm.render(MATRIX[name])).items())


@pytest.mark.parametrize("name", [name for name in MATRIX if name != "platform chooses the user"])
def test_every_pod_runs_as_one_that_is_nobody(name: str) -> None:
    for role, pod in _pods(name):
        context = pod["spec"]["securityContext"]
        assert context["runAsNonRoot"] is True, role
        assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] == 10001, role
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, role


def test_a_platform_that_gives_out_users_is_not_contradicted() -> None:
    for role, pod in _pods("platform chooses the user"):
        context = pod["spec"]["securityContext"]
        assert context["runAsNonRoot"] is True, role
        assert context.keys().isdisjoint({"runAsUser", "runAsGroup", "fsGroup"}), role


@pytest.mark.parametrize("name", MATRIX)
def test_every_container_is_restricted(name: str) -> None:
    for role, pod in _pods(name):
        for container in containers(pod):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, role
            assert context["readOnlyRootFilesystem"] is True, role
            assert context["capabilities"] == {"drop": ["ALL"]}, role
            assert not context.get("privileged"), role


@pytest.mark.parametrize("name", MATRIX)
def test_no_pod_holds_a_token_or_a_piece_of_its_host(name: str) -> None:
    for role, pod in _pods(name):
        assert pod["spec"]["automountServiceAccountToken"] is False, role
        assert pod["spec"].keys().isdisjoint({"hostNetwork", "hostPID", "hostIPC", "hostAliases"}), role
        assert [volume for volume in pod["spec"].get("volumes", []) if "hostPath" in volume] == [], role
        for container in containers(pod):
            assert [port for port in container.get("ports", []) if "hostPort" in port] == [], role


@pytest.mark.parametrize("name", MATRIX)
def test_a_container_writes_to_two_folders_alone(name: str) -> None:
    for role, pod in _pods(name):
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for container in containers(pod):
            assert _writable(container) <= {"/run/worker", "/tmp"}, role
        mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in main_container(pod)["volumeMounts"]}
        assert mounted["/run/worker"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Mi"}, role
        assert "sizeLimit" in mounted["/tmp"]["emptyDir"], role


def _writable(container: Document) -> set[str]:
    return {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}


@pytest.mark.parametrize("name", MATRIX)
def test_every_mount_has_its_volume(name: str) -> None:
    for role, pod in _pods(name):
        there = {volume["name"] for volume in pod["spec"]["volumes"]}
        for container in containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} <= there, role


def test_the_clones_of_git_lie_in_tmp_whose_size_a_fleet_chooses() -> None:
    documents = helm.render(over({"fleets": {"worker-heavy": {"tmpSizeLimit": "9Gi"}}}))
    limits = {role: _tmp(pod) for role, pod in pods(documents).items()}

    assert limits["worker"] == "4Gi"
    assert limits["worker-heavy"] == "9Gi"


def _tmp(pod: Document) -> str:
    (name,) = [mount["name"] for mount in main_container(pod)["volumeMounts"] if mount["mountPath"] == "/tmp"]
    (size,) = [volume["emptyDir"]["sizeLimit"] for volume in pod["spec"]["volumes"] if volume["name"] == name]
    return str(size)


def test_further_volumes_reach_every_container_and_are_read_only() -> None:
    for role, pod in pods(helm.render(over(DECORATED, FLOWER))).items():
        assert {"name": "ca", "configMap": {"name": "company-ca"}} in pod["spec"]["volumes"], role
        for container in containers(pod):
            (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "ca"]
            assert mount == {"name": "ca", "mountPath": "/etc/company", "readOnly": True}, role


def test_a_further_volume_may_be_written_to_where_somebody_says_so() -> None:
    for said, is_read_only in (({}, True), ({"readOnly": True}, True), ({"readOnly": False}, False)):
        mount = {"name": "clones", "mountPath": "/var/clones", **said}
        values = over({"extraVolumes": [{"name": "clones", "emptyDir": {}}], "extraVolumeMounts": [mount]})
        for role, pod in pods(helm.render(values)).items():
            for container in containers(pod):
                assert ("/var/clones" not in _writable(container)) is is_read_only, role


RESOURCES = {
    "worker": ("250m", "384Mi", "768Mi"),
    "worker-ingest": ("100m", "256Mi", "512Mi"),
    "worker-heavy": ("500m", "768Mi", "3Gi"),
    "beat": ("50m", "128Mi", "256Mi"),
    "api": ("100m", "192Mi", "512Mi"),
    "flower": ("50m", "128Mi", "384Mi"),
}


@pytest.mark.parametrize("role", RESOURCES)
def test_resources_are_those_of_the_design(role: str) -> None:
    cpu, memory, limit = RESOURCES[role]

    found = main_container(pods(helm.render(over(FLOWER)))[role])["resources"]

    assert found == {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": limit}}


@pytest.mark.parametrize("name", MATRIX)
def test_every_container_asks_for_its_share_and_none_has_a_limit_of_cpu(name: str) -> None:
    for role, pod in _pods(name):
        for container in containers(pod):
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"}, role
            assert set(container["resources"]["limits"]) == {"memory"}, role

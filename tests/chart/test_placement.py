"""Where pods go: apart where they can, where they are told to otherwise."""

from tests.chart import helm
from tests.chart.documents import annotations, pods
from tests.chart.helm import Document
from tests.chart.values import DECORATED, FLOWER, MATRIX, fleet, over

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def _pods(values: helm.Values) -> dict[str, Document]:
    """The pods of the roles, without that of the migration."""
    return {role: pod for role, pod in pods(helm.render(values)).items() if role != "migrate"}


def test_pods_of_a_role_prefer_to_be_apart() -> None:
    for role, pod in _pods(over(FLOWER)).items():
        anti = pod["spec"]["affinity"]["podAntiAffinity"]
        assert set(anti) == {"preferredDuringSchedulingIgnoredDuringExecution"}, role
        for preference in anti["preferredDuringSchedulingIgnoredDuringExecution"]:
            assert (
                preference["podAffinityTerm"]["labelSelector"]["matchLabels"].items()
                <= pod["metadata"]["labels"].items()
            )


def test_pods_of_a_role_spread_over_hosts_and_zones_where_that_can_be() -> None:
    for role, pod in _pods(over()).items():
        rules = pod["spec"]["topologySpreadConstraints"]
        assert {rule["topologyKey"] for rule in rules} == {HOST, ZONE}, role
        for rule in rules:
            assert (rule["maxSkew"], rule["whenUnsatisfiable"]) == (1, "ScheduleAnyway"), role
            assert rule["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items(), role


def test_placement_is_a_matter_of_values() -> None:
    for role, pod in _pods(over(DECORATED)).items():
        spec = pod["spec"]
        assert spec["priorityClassName"] == "batch", role
        assert spec["nodeSelector"] == {"pool": "batch"}, role
        assert spec["tolerations"] == [{"key": "batch", "operator": "Exists"}], role
        assert spec["affinity"] == {"nodeAffinity": {}}, role
        assert not spec.get("topologySpreadConstraints"), role


def test_nothing_is_asked_for_that_nobody_chose() -> None:
    for role, pod in _pods(over()).items():
        assert pod["spec"].keys().isdisjoint({"priorityClassName", "nodeSelector", "tolerations"}), role


def test_a_fleet_may_go_elsewhere() -> None:
    own = {
        "nodeSelector": {"pool": "big"},
        "tolerations": [{"key": "big", "operator": "Exists"}],
        "affinity": {"podAffinity": {}},
    }
    found = _pods(over(DECORATED, fleet("worker-heavy", **own)))

    assert {key: found["worker-heavy"]["spec"][key] for key in own} == own
    assert found["worker"]["spec"]["nodeSelector"] == {"pool": "batch"}


def test_an_autoscaler_of_nodes_may_move_a_pod_unless_a_fleet_says_no() -> None:
    found = {
        role: annotations(pod).get(SAFE) for role, pod in _pods(over(fleet("worker-heavy", safeToEvict=False))).items()
    }

    assert found == {"worker": "true", "worker-ingest": "true", "worker-heavy": "false", "beat": "true", "api": "true"}
    assert annotations(_pods(MATRIX["no budgets"])["worker"])[SAFE] == "false"


def test_a_fleet_may_have_annotations_of_its_own() -> None:
    found = _pods(over(fleet("worker", podAnnotations={"own.example/a": "b"})))

    assert annotations(found["worker"])["own.example/a"] == "b"
    assert "own.example/a" not in annotations(found["worker-heavy"])

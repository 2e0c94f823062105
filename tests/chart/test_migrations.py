"""Migrations as a hook, as a Job beside the roles, or by nobody; and what a hook may lean on."""

from collections.abc import Iterator

import pytest

from tests.chart import helm
from tests.chart.documents import HOOK, annotations, by_role, containers, environment, of_kind, pods
from tests.chart.helm import Document, Refused
from tests.chart.values import CLOSED, DECORATED, FLOWER, MATRIX, over

HOOK_MODE = over()
JOB_MODE = over({"migrations": {"mode": "job"}}, FLOWER)
NO_MODE = over({"migrations": {"mode": "none"}})
WAIT = ["timeout", "600", "sh", "-c", "until dev-hops migrate status --check; do sleep 5; done"]


def _job(values: helm.Values, *, is_upgrade: bool = False) -> Document:
    (job,) = of_kind(helm.render(values, is_upgrade=is_upgrade), "Job")
    return job


@pytest.mark.parametrize("is_upgrade", [False, True])
def test_a_hook_runs_before_install_and_upgrade_and_keeps_a_failed_log(is_upgrade: bool) -> None:
    found = annotations(_job(HOOK_MODE, is_upgrade=is_upgrade))

    assert set(found["helm.sh/hook"].split(",")) == {"pre-install", "pre-upgrade"}
    assert found["helm.sh/hook-delete-policy"] == "before-hook-creation"


def test_a_job_is_no_hook() -> None:
    assert not [key for key in annotations(_job(JOB_MODE)) if key.startswith("helm.sh/")]


def test_nobody_migrates_where_nobody_is_to() -> None:
    assert of_kind(helm.render(NO_MODE), "Job") == []
    assert [each for each in helm.render(NO_MODE) if HOOK in annotations(each)] == []


@pytest.mark.parametrize("name", MATRIX)
def test_there_is_no_hook_after_anything(name: str) -> None:
    hooks = {event for each in helm.render(MATRIX[name]) for event in annotations(each).get(HOOK, "").split(",")}

    assert hooks <= {"", "pre-install", "pre-upgrade"}


@pytest.mark.parametrize(("values", "waits"), [(HOOK_MODE, False), (JOB_MODE, True), (NO_MODE, False)])
def test_every_role_with_a_schema_waits_for_a_job_and_for_nothing_else(values: helm.Values, waits: bool) -> None:
    for role, deployment in by_role(helm.render(values), "Deployment").items():
        starters = deployment["spec"]["template"]["spec"].get("initContainers", [])
        wanted = [WAIT] if waits and role != "flower" else []  # Flower knows no database
        assert [starter["command"] for starter in starters] == wanted, role


def test_who_waits_can_reach_the_database() -> None:
    for role, deployment in by_role(helm.render(JOB_MODE), "Deployment").items():
        for starter in deployment["spec"]["template"]["spec"].get("initContainers", []):
            assert "DATABASE_URL" in environment(starter), role


def _names(documents: list[Document], *kinds: str) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in documents if not kinds or each["kind"] in kinds}


def _leans_on(pod: Document) -> Iterator[tuple[str, str]]:
    """What of the release a pod uses."""
    yield "ServiceAccount", pod["spec"].get("serviceAccountName", "default")
    for container in containers(pod):
        sources = [*container.get("envFrom", []), *_values_from(container)]
        for source in sources:
            for kind, key in (("ConfigMap", "configMap"), ("Secret", "secret")):
                for found in (source.get(f"{key}Ref"), source.get(f"{key}KeyRef")):
                    if found:
                        yield kind, found["name"]
    for volume in pod["spec"].get("volumes", []):
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]


def _values_from(container: Document) -> list[Document]:
    return [entry["valueFrom"] for entry in container.get("env") or [] if "valueFrom" in entry]


@pytest.mark.parametrize("name", [name for name, values in MATRIX.items() if "migrations" not in values])
def test_a_hook_uses_nothing_of_the_release_but_earlier_hooks(name: str) -> None:
    documents = helm.render(MATRIX[name])
    job = _job(MATRIX[name])

    own = set(_leans_on(job["spec"]["template"])) & _names(documents)

    assert own != set()  # its configuration
    earlier = [each for each in documents if _weight(each) < _weight(job)]
    assert own <= _names(earlier)


def _weight(document: Document) -> float:
    """Its place in the order of hooks; after all of them where it is none."""
    found = annotations(document)
    return float(found["helm.sh/hook-weight"]) if HOOK in found else float("inf")


@pytest.mark.parametrize("name", MATRIX)
def test_no_role_uses_what_only_a_hook_leaves(name: str) -> None:
    documents = helm.render(MATRIX[name])
    of_hooks = _names([each for each in documents if HOOK in annotations(each)])
    for role, deployment in by_role(documents, "Deployment").items():
        assert set(_leans_on(deployment["spec"]["template"])).isdisjoint(of_hooks), role


def test_a_hook_has_its_own_hole_in_a_closed_network() -> None:
    documents = helm.render(over(CLOSED))
    pod = _job(over(CLOSED))["spec"]["template"]

    hooks = [each for each in of_kind(documents, "NetworkPolicy") if HOOK in annotations(each)]

    (policy,) = [each for each in hooks if _matches(each["spec"]["podSelector"], pod)]
    assert _weight(policy) < _weight(_job(over(CLOSED)))


def _matches(selector: Document, pod: Document) -> bool:
    wanted: dict[str, str] = selector["matchLabels"]
    labels: dict[str, str] = pod["metadata"]["labels"]
    return wanted.items() <= labels.items()


def test_postgres_is_migrated_before_clickhouse() -> None:
    for values in (HOOK_MODE, JOB_MODE):
        spec = _job(values)["spec"]["template"]["spec"]
        assert [each["args"] for each in spec["initContainers"]] == [["migrate", "postgres"]]
        assert [each["args"] for each in spec["containers"]] == [["migrate", "clickhouse"]]


def test_a_job_has_an_end() -> None:
    spec = _job(HOOK_MODE)["spec"]

    assert (spec["activeDeadlineSeconds"], spec["backoffLimit"]) == (1800, 1)
    assert _job(JOB_MODE)["spec"]["backoffLimit"] == 6  # nothing makes it anew, and its stores may be later than it
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert "ttlSecondsAfterFinished" not in spec  # Argo CD would make it anew


def test_the_end_is_a_value_that_says_how_long_helm_has_to_wait() -> None:
    for mode in ("hook", "job"):
        values = over({"migrations": {"mode": mode, "activeDeadlineSeconds": 60, "backoffLimit": 0}})
        assert (_job(values)["spec"]["activeDeadlineSeconds"], _job(values)["spec"]["backoffLimit"]) == (60, 0)
    described = (helm.CHART / "values.yaml").read_text(encoding="utf-8")
    assert "helm --timeout" in described.partition("activeDeadlineSeconds:")[0].rpartition("# --")[2]


CHANGES = [
    {"image": {"tag": "9.9.9"}},
    {"config": {"LOG_LEVEL": "DEBUG"}},
    {"migrations": {"databaseUrlKey": "OWNER"}},
    {"migrations": {"backoffLimit": 3}},
    {"migrations": {"resources": {"limits": {"memory": "1Gi"}}}},
    {"extraEnv": [{"name": "LOG_FORMAT", "value": "text"}]},
    {"podLabels": {"a": "b"}},
    {"runAsUser": 20002},
]


@pytest.mark.parametrize("change", CHANGES)
def test_another_image_or_configuration_is_another_job(change: helm.Values) -> None:
    assert _job(over(JOB_MODE, change))["metadata"]["name"] != _job(JOB_MODE)["metadata"]["name"]


@pytest.mark.parametrize("change", [{"api": {"autoscaling": {"max": 9}}}, {"commonLabels": {"a": "b"}}, {}])
def test_a_job_of_one_name_never_changes_in_what_cannot_be_changed(change: helm.Values) -> None:
    before, after = _job(JOB_MODE), _job(over(JOB_MODE, change))

    is_same_name = before["metadata"]["name"] == after["metadata"]["name"]

    assert is_same_name == (before["spec"]["template"] == after["spec"]["template"])


def test_a_job_has_the_owner_s_url_where_one_is_named() -> None:
    for container in containers(_job(MATRIX["migrations as a job"])["spec"]["template"]):
        assert environment(container)["DATABASE_URL"]["valueFrom"]["secretKeyRef"]["key"] == "OWNER_URL"
    for role, pod in pods(helm.render(MATRIX["migrations as a job"])).items():
        keys = {
            environment(each).get("DATABASE_URL", {}).get("valueFrom", {}).get("secretKeyRef", {}).get("key")
            for each in containers(pod)
        }
        assert ("OWNER_URL" in keys) == (role == "migrate"), role


def test_a_job_has_the_roles_url_otherwise() -> None:
    for container in containers(_job(HOOK_MODE)["spec"]["template"]):
        assert environment(container)["DATABASE_URL"]["valueFrom"]["secretKeyRef"]["key"] == "DATABASE_URL"


def test_a_job_is_not_given_what_opens_credentials_or_the_broker() -> None:
    for container in containers(_job(HOOK_MODE)["spec"]["template"]):
        assert environment(container).keys() <= {"DATABASE_URL", "CLICKHOUSE_URL"}


def test_every_pod_says_that_it_changes_no_schema_by_itself() -> None:
    for values in MATRIX.values():
        for document in of_kind(helm.render(values), "ConfigMap"):
            if "DEV_HOPS_FLEETS" in document["data"]:
                assert document["data"]["AUTO_RUN_MIGRATIONS"] == "false"


def test_a_job_runs_as_the_chart_s_account_and_a_hook_as_one_that_is_there_already() -> None:
    account = "hops-dev-hops"
    assert _job(JOB_MODE)["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert _job(HOOK_MODE)["spec"]["template"]["spec"]["serviceAccountName"] == "default"
    own = over({"serviceAccount": {"create": False, "name": "mine"}})
    assert _job(own)["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


def test_what_decorates_every_pod_decorates_the_migration() -> None:
    pod = _job(over(DECORATED))["spec"]["template"]

    assert pod["metadata"]["annotations"]["pod.example/a"] == "b"
    assert pod["spec"]["priorityClassName"] == "batch"


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(Refused, match="/migrations/mode"):
        helm.render(over({"migrations": {"mode": "post"}}))

"""What a container is started with: a role, and settings that the program knows."""

import json
import re
from collections import Counter

import pytest

from tests.chart import helm
from tests.chart.documents import (
    annotations,
    by_role,
    configuration,
    containers,
    environment,
    every_container,
    main_container,
    of_kind,
    pods,
    resolved,
)
from tests.chart.values import DECORATED, FLOWER, FOURTH_FLEET, MATRIX, fleet, over
from worker_app import fleets, queues, settings
from worker_app.cli.main import cli

SETTINGS = {name.upper() for name in settings.Settings.model_fields}
KNOWN = SETTINGS | {f"{name}_FILE" for name in SETTINGS}


@pytest.mark.parametrize("name", MATRIX)
def test_every_name_in_the_environment_is_one_that_the_program_knows(name: str) -> None:
    documents = helm.render(MATRIX[name])
    for role, container in every_container(documents):
        assert environment(container).keys() <= KNOWN, role
    for config in of_kind(documents, "ConfigMap"):
        if "DEV_HOPS_FLEETS" in config["data"]:
            assert config["data"].keys() <= KNOWN


@pytest.mark.parametrize("name", MATRIX)
def test_no_name_stands_twice_in_an_environment(name: str) -> None:
    for role, container in every_container(helm.render(MATRIX[name])):
        names = Counter(entry["name"] for entry in container.get("env") or [])
        assert [each for each, number in names.items() if number > 1] == [], role


@pytest.mark.parametrize("name", MATRIX)
def test_the_program_takes_what_the_chart_gives_it(name: str) -> None:
    documents = helm.render(MATRIX[name])
    secret = {"DATABASE_URL": "postgresql://u:p@db/hops", "REDIS_URL": "rediss://r:6379/0", "FLOWER_BASIC_AUTH": "a:b"}
    for deployment in by_role(documents, "Deployment").values():
        container = main_container(deployment["spec"]["template"])
        chosen = settings.load({**secret, **resolved(documents, container)})
        assert set(chosen.consumed_queues) <= set(queues.ALL_QUEUES)
        assert chosen.auto_run_migrations == "false"


@pytest.mark.parametrize("name", MATRIX)
def test_every_container_is_started_as_a_role_or_waits_for_the_schema(name: str) -> None:
    roles = {("worker",), ("beat",), ("api",), ("flower",), ("migrate", "postgres"), ("migrate", "clickhouse")}
    for role, container in every_container(helm.render(MATRIX[name])):
        if container["name"] == "schema":
            assert "args" not in container
        else:
            assert tuple(container["args"]) in roles, role
            assert "command" not in container, role  # the entrypoint stays


def test_the_program_has_every_verb_that_the_chart_uses() -> None:
    script = (helm.CHART.parent / "worker_app" / "cli" / "entrypoint.sh").read_text(encoding="utf-8")
    for values in MATRIX.values():
        for _, container in every_container(helm.render(values)):
            for verb in container.get("args", [])[:1]:
                assert verb in cli.every()
                assert not re.search(rf"[|( ]{verb}[|) ].*exec \"\$@\"", script)  # it is ours, no program by that name


@pytest.mark.parametrize("name", MATRIX)
def test_the_scheduler_never_runs_within_a_worker(name: str) -> None:
    for role, container in every_container(helm.render(MATRIX[name])):
        words = [*container.get("command", []), *container.get("args", [])]
        assert not {"-B", "--beat"} & set(words), role


def test_a_pod_says_which_fleet_it_is_and_nobody_else_does() -> None:
    documents = helm.render(over(FLOWER, FOURTH_FLEET))
    for role, pod in pods(documents).items():
        named = {environment(container).get("DEV_HOPS_FLEET", {}).get("value") for container in containers(pod)}
        is_fleet = role.startswith("worker")
        assert named == ({role} if is_fleet else {None}), role


def test_the_fleets_of_the_default_values_are_those_of_the_program() -> None:
    assert fleets.parse(configuration(helm.render(over()))["DEV_HOPS_FLEETS"]) == dict(queues.FLEETS)


def test_the_queues_that_a_guard_knows_are_those_of_the_program() -> None:
    said = helm.refusal(over(fleet("worker", queues=["default", "nonsense"])))

    (listed,) = re.findall(r"no queue nonsense; there are (.*)", said)
    assert listed.split(", ") == list(queues.ALL_QUEUES)


def test_slots_and_pool_are_those_of_the_fleet() -> None:
    documents = helm.render(over(fleet("worker-heavy", pool="prefork", concurrency=2)))
    found = {
        role: resolved(documents, main_container(pod)) for role, pod in pods(documents).items() if "worker" in role
    }

    assert {role: each["CELERY_POOL"] for role, each in found.items()} == {
        "worker": "gevent",
        "worker-ingest": "gevent",
        "worker-heavy": "prefork",
    }
    assert {role: each["CELERY_CONCURRENCY"] for role, each in found.items()} == {
        "worker": "20",
        "worker-ingest": "1",
        "worker-heavy": "2",
    }
    assert not [each for each in found.values() if "CELERY_AUTOSCALE" in each]


def test_a_worker_that_scales_itself_has_no_concurrency() -> None:
    documents = helm.render(MATRIX["slots by autoscale"])

    found = resolved(documents, main_container(pods(documents)["worker"]))

    assert found["CELERY_AUTOSCALE"] == "20,2"
    assert "CELERY_CONCURRENCY" not in found


@pytest.mark.parametrize("name", MATRIX)
def test_every_worker_has_exactly_one_kind_of_slots_and_no_list_of_queues(name: str) -> None:
    documents = helm.render(MATRIX[name])
    for role, deployment in by_role(documents, "Deployment").items():
        found = resolved(documents, main_container(deployment["spec"]["template"]))
        kinds = {"CELERY_CONCURRENCY", "CELERY_AUTOSCALE"} & found.keys()
        assert len(kinds) == (1 if role.startswith("worker") else 0), role
        assert "CELERY_QUEUES" not in found


@pytest.mark.parametrize("name", MATRIX)
def test_no_container_is_told_of_a_folder_that_nobody_has_made(name: str) -> None:
    """A worker with prefork makes the folder of its children; whatever else runs in the pod would look for it in vain."""
    documents = helm.render(MATRIX[name])
    for role, container in every_container(documents):
        assert "PROMETHEUS_MULTIPROC_DIR" not in resolved(documents, container), role


def test_task_events_are_off_unless_flower_reads_them_or_somebody_asks() -> None:
    assert _events(over()) == "false"
    assert _events(over(FLOWER)) == "true"
    assert _events(over({"config": {"WORKER_SEND_TASK_EVENTS": True}})) == "true"


def _events(values: helm.Values) -> str:
    return configuration(helm.render(values))["WORKER_SEND_TASK_EVENTS"]


def test_flower_only_looks_unless_it_is_told_otherwise() -> None:
    found = {
        is_read_only: resolved(documents, main_container(pods(documents)["flower"]))["FLOWER_READ_ONLY"]
        for is_read_only in (True, False)
        for documents in [helm.render(over({"flower": {"enabled": True, "readOnly": is_read_only}}))]
    }

    assert found == {True: "true", False: "false"}


def test_further_settings_reach_every_role_as_text() -> None:
    given = {"HISTORY_DAYS": 30, "OUTBOX_MAX_DEPTH": 1000000, "GIT_ALLOW_FILE": True, "GIT_MIRRORS_DIR": "/tmp/m"}

    found = configuration(helm.render(over({"config": given})))

    assert {name: found[name] for name in given} == {
        "HISTORY_DAYS": "30",
        "OUTBOX_MAX_DEPTH": "1000000",
        "GIT_ALLOW_FILE": "true",
        "GIT_MIRRORS_DIR": "/tmp/m",
    }
    assert configuration(helm.render(over()))["GIT_MIRRORS_DIR"] == "/tmp/mirrors"


KEPT = {
    *("API_HOST", "API_PORT", "AUTO_RUN_MIGRATIONS", "CELERY_AUTOSCALE", "CELERY_CONCURRENCY", "CELERY_POOL"),
    *("CELERY_QUEUES", "DEV_HOPS_DIR", "DEV_HOPS_FLEET", "DEV_HOPS_FLEETS", "FLOWER_HOST", "FLOWER_PORT"),
    *(
        "FLOWER_READ_ONLY",
        "METRICS_HOST",
        "METRICS_PORT",
        "PROMETHEUS_MULTIPROC_DIR",
        "RUN_DIR",
        "WORKER_DRAIN_SECONDS",
    ),
    "WORKER_NAME",
}  # what the chart decides by a value of its own, or by the shape of a pod


def test_values_offer_every_setting_that_is_neither_secret_nor_the_chart_s_own() -> None:
    fields = settings.Settings.model_fields.items()
    secret = {name.upper() for name, field in fields if "Secret" in str(field.annotation)}
    schema = json.loads((helm.CHART / "values.schema.json").read_text(encoding="utf-8"))

    assert set(schema["properties"]["config"]["properties"]) == SETTINGS - KEPT - secret
    assert secret | KEPT <= SETTINGS


def test_a_fleet_s_own_environment_stays_in_that_fleet() -> None:
    values = over(fleet("worker", extraEnv=[{"name": "LOG_LEVEL", "value": "DEBUG"}]))
    found = {role: environment(main_container(pod)).get("LOG_LEVEL") for role, pod in pods(helm.render(values)).items()}

    assert found.pop("worker") == {"name": "LOG_LEVEL", "value": "DEBUG"}
    assert set(found.values()) == {None}


def test_environment_for_every_role_reaches_every_container() -> None:
    for role, container in every_container(helm.render(over(DECORATED, FLOWER))):
        assert environment(container)["LOG_FORMAT"] == {"name": "LOG_FORMAT", "value": "text"}, role
        assert {"configMapRef": {"name": "more"}} in container["envFrom"], role


def test_a_fleet_s_entry_comes_after_the_common_one_so_that_it_wins() -> None:
    values = over(DECORATED, fleet("worker", extraEnv=[{"name": "LOG_LEVEL", "value": "ERROR"}]))
    names = [entry["name"] for entry in main_container(pods(helm.render(values))["worker"])["env"]]

    assert names.index("LOG_FORMAT") < names.index("LOG_LEVEL")


@pytest.mark.parametrize("name", MATRIX)
def test_no_service_of_the_namespace_becomes_a_setting(name: str) -> None:
    for role, pod in pods(helm.render(MATRIX[name])).items():
        assert pod["spec"]["enableServiceLinks"] is False, role


def test_every_role_reads_the_one_configuration() -> None:
    documents = helm.render(over(FLOWER))
    (name,) = [
        each["metadata"]["name"]
        for each in of_kind(documents, "ConfigMap")
        if "DEV_HOPS_FLEETS" in each["data"] and not annotations(each)
    ]
    for role, deployment in by_role(documents, "Deployment").items():
        assert {"configMapRef": {"name": name}} in main_container(deployment["spec"]["template"])["envFrom"], role

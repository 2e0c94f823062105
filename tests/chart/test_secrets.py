"""Secrets come by reference alone, and only to who needs them."""

import pytest

from tests.chart import helm
from tests.chart.documents import environment, every_container, main_container, of_kind, pods, texts
from tests.chart.helm import Document
from tests.chart.values import BASE, FLOWER, KEDA_REDIS, MATRIX, fleet, over
from worker_app import settings

SECRET = {name.upper() for name, field in settings.Settings.model_fields.items() if "Secret" in str(field.annotation)}
CANARY = "canary-9d1f"


@pytest.mark.parametrize("name", MATRIX)
def test_the_chart_makes_no_secret_and_gives_none_as_a_value(name: str) -> None:
    documents = helm.render(MATRIX[name])

    assert of_kind(documents, "Secret") == []
    for config in of_kind(documents, "ConfigMap"):
        assert SECRET.isdisjoint(config["data"])
    for role, container in every_container(documents):
        for secret in SECRET & environment(container).keys():
            assert set(environment(container)[secret]) == {"name", "valueFrom"}, role


@pytest.mark.parametrize("name", sorted(SECRET))
def test_a_secret_given_as_a_value_is_refused_and_not_repeated(name: str) -> None:
    given = [{"name": name, "value": CANARY}]
    for values in (
        over({"extraEnv": given}),
        over(fleet("worker", extraEnv=given)),
        over({"fleetDefaults": {"extraEnv": given}}),
    ):
        said = helm.refusal(values)
        assert name in said
        assert CANARY not in said


@pytest.mark.parametrize("name", sorted(SECRET))
def test_a_secret_in_the_configuration_is_refused_and_not_repeated(name: str) -> None:
    said = helm.refusal(over({"config": {name: CANARY}}))

    assert name in said
    assert CANARY not in said


def test_a_secret_may_come_by_reference_or_by_a_file() -> None:
    entries = [
        {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "own", "key": "url"}}},
        {"name": "REDIS_URL_FILE", "value": "/etc/secret/redis"},
    ]
    values = over({"secrets": {"existingSecret": ""}, "extraEnv": entries})
    for _, container in every_container(helm.render(values)):
        assert environment(container)["DATABASE_URL"] == entries[0]
        assert environment(container)["REDIS_URL_FILE"] == entries[1]


@pytest.mark.parametrize(
    "url", [f"redis://:{CANARY}@redis.example:6379/0", f"rediss://user:{CANARY}@redis.example:6379"]
)
def test_a_password_in_the_address_for_keda_is_refused(url: str) -> None:
    assert "keda/redis/url" in helm.refusal(over(KEDA_REDIS, {"fleetDefaults": {"keda": {"redis": {"url": url}}}}))


NEEDED = {"DATABASE_URL", "REDIS_URL"}  # without which no role starts
BROKER = {"REDIS_URL", "CELERY_BROKER_URL"}
GIVEN = {
    "worker": {"DATABASE_URL", *BROKER, "CELERY_RESULT_BACKEND", "CLICKHOUSE_URL", "CREDENTIAL_KEYS", "PROVIDER_PROXY"},
    "beat": {"DATABASE_URL", *BROKER},
    "api": {"DATABASE_URL", *BROKER, "CLICKHOUSE_URL", "API_TOKEN", "AUTOSCALE_TOKEN"},
    "flower": {*BROKER, "FLOWER_BASIC_AUTH"},
    "migrate": {"DATABASE_URL", "CLICKHOUSE_URL"},
}


def _secrets(container: Document) -> dict[str, Document]:
    """Name -> reference, of what comes from a Secret."""
    found = environment(container)
    return {name: found[name]["valueFrom"]["secretKeyRef"] for name in SECRET & found.keys()}


@pytest.mark.parametrize("role", GIVEN)
def test_a_role_is_given_what_it_needs_and_no_more(role: str) -> None:
    container = main_container(pods(helm.render(over(FLOWER)))[role])

    assert set(_secrets(container)) == GIVEN[role]


def test_only_workers_open_credentials() -> None:
    for role, container in every_container(helm.render(over(FLOWER))):
        assert ("CREDENTIAL_KEYS" in environment(container)) == role.startswith("worker"), role


def test_what_a_role_can_do_without_may_be_absent() -> None:
    for role, container in every_container(helm.render(over(FLOWER))):
        for name, reference in _secrets(container).items():
            assert reference["name"] == BASE["secrets"]["existingSecret"]
            is_needed = name in {*NEEDED, "FLOWER_BASIC_AUTH"}
            assert reference.get("optional", False) is not is_needed, (role, name)


def test_keys_have_names_of_their_own() -> None:
    values = over({"secrets": {"keys": {"databaseUrl": "uri", "credentialKeys": ""}}})
    found = _secrets(main_container(pods(helm.render(values))["worker"]))

    assert found["DATABASE_URL"]["key"] == "uri"
    assert "CREDENTIAL_KEYS" not in found


def test_no_secret_stands_in_a_command_or_an_annotation() -> None:
    for name, values in MATRIX.items():
        for document in helm.render(values):
            shown = [
                *texts(document["metadata"].get("annotations")),
                *texts(document.get("spec", {}).get("template", {}).get("metadata")),
            ]
            assert not [text for text in shown if "hops-secrets" in text], name
    for _, container in every_container(helm.render(over(FLOWER))):
        words = [*container.get("command", []), *container.get("args", [])]
        assert not [word for word in words if "$(" in word or "://" in word]


def test_addresses_are_taken_whole_so_that_any_password_and_tls_survive() -> None:
    """No template takes a URL apart or puts one together: only the code does, which knows how to."""
    for role, container in every_container(helm.render(over(FLOWER))):
        assert [entry for entry in container.get("env", []) if "$(" in entry.get("value", "")] == [], role

"""What users add to environments: no name stands twice, since Kubernetes refuses that, and what is said last counts."""

from collections import Counter

import pytest

from tests.chart import helm
from tests.chart.documents import containers, environment, every_container, main_container, pods
from tests.chart.helm import Document
from tests.chart.values import FLOWER, every_fleet, fleet, over
from worker_app import settings

SECRET = {name.upper() for name, field in settings.Settings.model_fields.items() if "Secret" in str(field.annotation)}
JOB = {"migrations": {"mode": "job"}}


def _plain(name: str, value: str) -> Document:
    return {"name": name, "value": value}


def _of(secret: str, name: str = "DATABASE_URL") -> Document:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": "url"}}}


TWICE: dict[str, helm.Values] = {
    "in one list": {"extraEnv": [_plain("A", "1"), _plain("B", "2"), _plain("A", "3")]},
    "in the common list and a fleet's": over(
        {"extraEnv": [_plain("A", "1")]}, fleet("worker", extraEnv=[_plain("A", "2")])
    ),
    "in the common list and that of all fleets": over(
        {"extraEnv": [_plain("A", "1")]}, every_fleet(extraEnv=[_plain("A", "2")])
    ),
    "in the common list and the migration's": {
        "extraEnv": [_plain("A", "1")],
        "migrations": {"mode": "job", "extraEnv": [_plain("A", "2")]},
    },
    "in the Secret and a list": {"extraEnv": [_of("own", name) for name in sorted(SECRET)]},
    "in the Secret, a list and the migration's": {
        "extraEnv": [_of("own")],
        "migrations": {"databaseUrlKey": "OWNER", "extraEnv": [_of("owner")]},
    },
}


@pytest.mark.parametrize("name", TWICE)
def test_a_name_that_is_given_twice_stands_once(name: str) -> None:
    for role, container in every_container(helm.render(over(FLOWER, TWICE[name]))):
        names = Counter(entry["name"] for entry in container.get("env") or [])
        assert max(names.values(), default=1) == 1, (role, names)


def test_the_last_of_a_name_counts() -> None:
    documents = helm.render(over(JOB, TWICE["in the common list and a fleet's"]))
    found = {role: environment(main_container(pod))["A"]["value"] for role, pod in pods(documents).items()}

    assert found.pop("worker") == "2"
    assert set(found.values()) == {"1"}


def test_an_entry_that_users_give_counts_more_than_the_secret() -> None:
    values = over(FLOWER, TWICE["in the Secret and a list"])
    for role, container in every_container(helm.render(values)):
        for name in SECRET & environment(container).keys():
            assert environment(container)[name] == _of("own", name), role


@pytest.mark.parametrize("name", sorted(SECRET))
def test_a_secret_by_a_file_takes_the_place_of_the_one_by_the_secret(name: str) -> None:
    """The program refuses NAME beside NAME_FILE."""
    values = over(FLOWER, {"extraEnv": [_plain(f"{name}_FILE", "/etc/own/file")]})
    for role, container in every_container(helm.render(values)):
        assert name not in environment(container), role
        assert environment(container)[f"{name}_FILE"]["value"] == "/etc/own/file", role


def test_a_setting_that_ends_like_a_file_is_none() -> None:
    given = [
        _plain("GIT_ALLOW", "a"),
        _plain("GIT_ALLOW_FILE", "false"),
        _plain("SSL_CERT", "b"),
        _plain("SSL_CERT_FILE", "c"),
    ]
    for role, container in every_container(helm.render(over({"extraEnv": given}))):
        assert [entry for entry in container["env"] if entry in given] == given, role


@pytest.mark.parametrize("mode", ["hook", "job"])
def test_a_migration_has_an_owner_s_url_of_its_own(mode: str) -> None:
    common = {"extraEnv": [_of("roles")]}
    by_key = over(common, {"migrations": {"mode": mode, "databaseUrlKey": "OWNER"}})
    by_entry = over(common, {"migrations": {"mode": mode, "databaseUrlKey": "OWNER", "extraEnv": [_of("owner")]}})

    assert _urls(by_key) == {"hops-secrets"}
    assert _urls(by_entry) == {"owner"}


def _urls(values: helm.Values) -> set[str]:
    """Secrets that a migration takes its URL from; the roles take theirs from another."""
    documents = helm.render(values)
    found = {
        role: [environment(each).get("DATABASE_URL") for each in containers(pod)]
        for role, pod in pods(documents).items()
    }
    own = {entry["valueFrom"]["secretKeyRef"]["name"] for entry in found.pop("migrate") if entry}
    for role, entries in found.items():
        assert [entry for entry in entries if entry != _of("roles")] == [], role
    return own


def test_a_registry_s_secret_in_both_lists_stands_once() -> None:
    both = {
        "image": {"pullSecrets": [{"name": "a"}, {"name": "b"}]},
        "imagePullSecrets": [{"name": "b"}, {"name": "c"}],
    }
    for role, pod in pods(helm.render(over(both))).items():
        assert pod["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}], role

import sys

import pytest
from click.testing import CliRunner

from worker_app import errors, settings
from worker_app.cli import roles


def argv(**environ: str) -> list[str]:
    return roles.worker_argv(settings.load({"DEV_HOPS_DIR": "/nonexistent", **environ}))


def option(found: list[str], name: str) -> str | None:
    return found[found.index(name) + 1] if name in found else None


@pytest.mark.parametrize(
    ("environ", "pool", "autoscale", "concurrency"),
    [
        ({}, "gevent", None, "4"),
        ({"CELERY_POOL": "prefork"}, "prefork", None, "4"),
        ({"CELERY_AUTOSCALE": "20,2"}, "gevent", "20,2", None),
        ({"CELERY_CONCURRENCY": "10"}, "gevent", None, "10"),
        ({"CELERY_AUTOSCALE": "20,2", "CELERY_CONCURRENCY": "10"}, "gevent", "20,2", None),
        ({"CELERY_AUTOSCALE": "", "CELERY_CONCURRENCY": "", "CELERY_POOL": ""}, "gevent", None, "4"),
        ({"CELERY_AUTOSCALE": "", "CELERY_CONCURRENCY": "10"}, "gevent", None, "10"),
        ({"CELERY_AUTOSCALE": " 20 , 2 ", "CELERY_POOL": "prefork"}, "prefork", "20,2", None),
    ],
)
def test_exactly_one_of_autoscale_and_concurrency_reaches_celery(
    environ: dict[str, str], pool: str, autoscale: str | None, concurrency: str | None
) -> None:
    found = argv(**environ)
    assert found[:6] == [sys.executable, "-m", "celery", "--app", "worker_app", "worker"]
    assert option(found, "--pool") == pool
    assert option(found, "--autoscale") == autoscale
    assert option(found, "--concurrency") == concurrency
    assert "" not in found


def test_worker_consumes_the_queues_of_its_fleet_under_its_name() -> None:
    found = argv(DEV_HOPS_FLEET="worker-heavy")
    assert option(found, "--queues") == "metrics,backfill"
    assert option(found, "--hostname") == "worker-heavy@%h"


def test_flower_credentials_and_broker_password_are_in_no_argument() -> None:
    chosen = settings.load(
        {"DEV_HOPS_DIR": "/nonexistent", "FLOWER_BASIC_AUTH": "u:canary", "REDIS_URL": "redis://:canary@h:1/0"}
    )
    assert "canary" not in str(
        [roles.flower_argv(chosen), roles.worker_argv(chosen), roles.beat_argv(), roles.api_argv()]
    )


def test_worker_has_the_name_that_it_was_given() -> None:
    found = argv(WORKER_NAME="second", DEV_HOPS_FLEET="worker-heavy")
    assert found[found.index("--hostname") + 1] == "second@%h"


@pytest.mark.parametrize(("given", "argument"), [({}, "true"), ({"FLOWER_READ_ONLY": "false"}, "false")])
def test_flower_is_read_only_unless_the_settings_say_otherwise(given: dict[str, str], argument: str) -> None:
    chosen = settings.load({"DEV_HOPS_DIR": "/nonexistent", "FLOWER_BASIC_AUTH": "u:p", **given})
    assert f"--read_only={argument}" in roles.flower_argv(chosen)


@pytest.mark.parametrize("auth", ["canary", "u:", ":canary", "u:can,ary"])
def test_flower_refuses_credentials_that_it_would_read_otherwise(auth: str) -> None:
    given = {"FLOWER_BASIC_AUTH": auth, "DEV_HOPS_DIR": "/nonexistent"}
    raised = CliRunner().invoke(roles.flower, env=given).exception
    assert isinstance(raised, errors.SettingsError)
    assert "FLOWER_BASIC_AUTH is not user:password" in str(raised)
    assert "canary" not in str(raised)

from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.integration.api.visitors import NOWHERE
from worker_app.runtime import Runtime

pytestmark = pytest.mark.integration

AppOf = Callable[[Runtime], Flask]


def test_livez_needs_no_store(build: Callable[..., Runtime], app_of: AppOf) -> None:
    client = app_of(build(DATABASE_URL=f"postgresql://u@{NOWHERE}/d", REDIS_URL=f"redis://{NOWHERE}")).test_client()
    answer = client.get("/livez")
    assert (answer.status_code, answer.json) == (200, {"status": "ok"})


def test_readyz_lists_each_part(stranger: FlaskClient) -> None:
    answer = stranger.get("/readyz")
    assert answer.status_code == 200
    assert answer.json is not None
    assert answer.json["status"] == "ok"
    assert {name: part["ok"] for name, part in answer.json["parts"].items()} == {
        "postgres": True,
        "schema": True,
        "redis": True,
    }


def test_readyz_shows_an_absent_redis_and_stays_ready(
    build: Callable[..., Runtime], app_of: AppOf, database_url: str
) -> None:
    answer = app_of(build(DATABASE_URL=database_url, REDIS_URL=f"redis://{NOWHERE}")).test_client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json is not None
    assert answer.json["parts"]["redis"]["ok"] is False


def test_readyz_is_503_on_a_database_that_was_not_migrated(
    build: Callable[..., Runtime], app_of: AppOf, empty_database_url: str, redis_url: str
) -> None:
    answer = app_of(build(DATABASE_URL=empty_database_url, REDIS_URL=redis_url)).test_client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json is not None
    assert answer.json["parts"]["postgres"]["ok"] is True
    assert "run `dev-hops migrate postgres`" in answer.json["parts"]["schema"]["detail"]


def test_readyz_is_503_without_postgres_and_tells_no_address(
    build: Callable[..., Runtime], app_of: AppOf, redis_url: str
) -> None:
    answer = (
        app_of(build(DATABASE_URL=f"postgresql://u:pw@{NOWHERE}/d", REDIS_URL=redis_url)).test_client().get("/readyz")
    )
    assert answer.status_code == 503
    assert "127.0.0.1" not in answer.text

import logging
from collections.abc import Callable

import pytest
import structlog
from flask import Flask
from flask.testing import FlaskClient

from tests.integration.api.visitors import NOWHERE, TOKEN, with_token
from worker_app import queue_depth
from worker_app.runtime import Runtime

pytestmark = pytest.mark.integration


def test_every_answer_is_hardened(friend: FlaskClient, stranger: FlaskClient) -> None:
    for answer in (friend.get("/status"), friend.get("/runs"), friend.get("/nowhere"), stranger.get("/status")):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_unknown_path_is_a_404_that_says_where_the_others_are(friend: FlaskClient) -> None:
    answer = friend.get("/nowhere")
    assert answer.mimetype == "application/problem+json"
    assert answer.json is not None
    assert (answer.status_code, answer.json["status"], answer.json["title"]) == (404, 404, "Not Found")
    assert "GET /openapi.json" in answer.json["detail"]


def test_wrong_method_is_a_405_that_names_the_right_one(friend: FlaskClient) -> None:
    answer = friend.delete("/syncs")
    assert answer.status_code == 405
    assert answer.mimetype == "application/problem+json"
    assert "POST" in answer.headers["Allow"]


def test_large_body_is_a_413(friend: FlaskClient, stranger: FlaskClient) -> None:
    for answer in (
        friend.post("/syncs", data=b" " * (1 << 20 | 1), content_type="application/json"),
        stranger.post("/login", data=b"token=" + b"x" * (1 << 20), content_type="application/x-www-form-urlencoded"),
    ):
        assert answer.status_code == 413
        assert answer.mimetype == "application/problem+json"


def test_absent_stores_are_a_503(build: Callable[..., Runtime], app_of: Callable[[Runtime], Flask]) -> None:
    over = build(DATABASE_URL=f"postgresql://u:pw@{NOWHERE}/d", REDIS_URL=f"redis://{NOWHERE}", API_TOKEN=TOKEN)
    client = with_token(app_of(over))
    for answer in (client.get("/runs"), client.get("/queues"), client.post("/syncs", json={"source": "x"})):
        assert answer.status_code == 503
        assert answer.mimetype == "application/problem+json"
        assert answer.headers["Retry-After"] == "5"
        assert answer.json is not None
        assert answer.json["type"] == "urn:dev-hops:store-away"


def test_schema_that_is_behind_is_a_503_with_the_remedy(
    build: Callable[..., Runtime], app_of: Callable[[Runtime], Flask], empty_database_url: str, redis_url: str
) -> None:
    client = with_token(app_of(build(DATABASE_URL=empty_database_url, REDIS_URL=redis_url, API_TOKEN=TOKEN)))
    answer = client.get("/runs")
    assert answer.status_code == 503
    assert answer.json is not None
    assert "run `dev-hops migrate postgres`" in answer.json["detail"]


def test_unforeseen_error_is_a_500_without_internals_and_is_logged(
    friend: FlaskClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the inner secret")

    monkeypatch.setattr(queue_depth, "depths", fail)
    with caplog.at_level(logging.ERROR):
        answer = friend.get("/queues")
    assert answer.status_code == 500
    assert answer.mimetype == "application/problem+json"
    assert "inner secret" not in answer.text
    assert "the inner secret" in caplog.text


def test_request_line_holds_neither_query_nor_header(friend: FlaskClient) -> None:
    with structlog.testing.capture_logs() as lines:
        friend.get("/runs?limit=3&org=whose")
        friend.get("/livez")
    told = [(line["log_level"], line["method"], line["path"], line["status"]) for line in lines]
    assert told == [("info", "GET", "/runs", 400), ("debug", "GET", "/livez", 200)]
    assert "whose" not in str(lines)
    assert TOKEN not in str(lines)

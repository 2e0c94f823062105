from collections.abc import Callable

import itsdangerous
import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.integration.api.visitors import TOKEN
from worker_app import secret
from worker_app.api import auth
from worker_app.runtime import Runtime

pytestmark = pytest.mark.integration

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PROTECTED = ["/", "/status", "/queues", "/runs", "/schedules", "/sources", "/syncs", "/nowhere", "/livez/", "/login"]


@pytest.mark.parametrize("path", PROTECTED)
def test_path_is_closed_without_token(stranger: FlaskClient, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert answer.mimetype == "application/problem+json"
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="dev-hops"'


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_path_is_open_without_token(stranger: FlaskClient, path: str) -> None:
    assert stranger.get(path).status_code == 200


@pytest.mark.parametrize("header", [TOKEN, f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"])
def test_wrong_header_is_refused(stranger: FlaskClient, header: str) -> None:
    assert stranger.get("/queues", headers={"Authorization": header}).status_code == 401


def test_wrong_bearer_waits(stranger: FlaskClient, naps: list[float]) -> None:
    stranger.get("/queues", headers={"Authorization": "Bearer guess"})
    assert naps == [auth.GUESS_SECONDS]


def test_token_beyond_ascii_opens(
    build: Callable[..., Runtime], app_of: Callable[[Runtime], Flask], database_url: str, redis_url: str
) -> None:
    client = app_of(build(DATABASE_URL=database_url, REDIS_URL=redis_url, API_TOKEN="schlüssel")).test_client()
    sent = "Bearer schlüssel".encode().decode("latin-1")
    assert client.get("/queues", headers={"Authorization": sent}).status_code == 200


@pytest.mark.parametrize("path", ["/status", "/queues", "/nowhere", "/login"])
def test_unset_token_closes_everything_and_says_so(
    build: Callable[..., Runtime], app_of: Callable[[Runtime], Flask], database_url: str, redis_url: str, path: str
) -> None:
    client = app_of(build(DATABASE_URL=database_url, REDIS_URL=redis_url)).test_client()
    for answer in (client.get(path, headers={"Authorization": "Bearer "}), client.get(path, headers=BROWSER)):
        assert answer.status_code == 401
        assert "API_TOKEN is not set" in answer.text
        assert "<form" not in answer.text
    assert client.post("/login", data={"token": ""}).status_code == 401
    assert client.get("/livez").status_code == 200


def test_browser_without_cookie_gets_a_form(stranger: FlaskClient) -> None:
    answer = stranger.get("/status", headers=BROWSER)
    assert answer.status_code == 401
    assert answer.mimetype == "text/html"
    assert '<form method="post" action="/login">' in answer.text


def test_login_sets_a_proof_that_opens_the_page(stranger: FlaskClient) -> None:
    answer = stranger.post("/login", data={"token": TOKEN})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/status")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie
    assert TOKEN not in cookie
    assert stranger.get("/status", headers=BROWSER).status_code == 200


@pytest.mark.parametrize("environment", [{"wsgi.url_scheme": "https"}, {"HTTP_X_FORWARDED_PROTO": "https"}])
def test_login_over_https_sets_a_secure_cookie(stranger: FlaskClient, environment: dict[str, str]) -> None:
    answer = stranger.post("/login", data={"token": TOKEN}, environ_overrides=environment)
    assert "Secure" in answer.headers["Set-Cookie"]


def test_wrong_login_waits_and_sets_nothing(stranger: FlaskClient, naps: list[float]) -> None:
    answer = stranger.post("/login", data={"token": "guess"}, headers=BROWSER)
    assert answer.status_code == 401
    assert "that is not the token" in answer.text
    assert "Set-Cookie" not in answer.headers
    assert naps == [auth.GUESS_SECONDS]


def proof(token: str, value: str = "read", salt: str = "dev-hops/status") -> str:
    signer = itsdangerous.TimestampSigner(token, salt=salt, digest_method=auth.hashlib.sha256)  # type: ignore[attr-defined]
    return signer.sign(value).decode()


@pytest.mark.parametrize(
    "value",
    ["", TOKEN, "read", proof("other"), proof(TOKEN, "else"), proof(TOKEN, salt="else")],
    ids=["nothing", "the token", "unsigned", "another token", "another value", "another use"],
)
def test_cookie_that_proves_nothing_is_refused(stranger: FlaskClient, value: str) -> None:
    stranger.set_cookie(auth.COOKIE, value)
    assert stranger.get("/queues").status_code == 401


def test_cookie_ends_after_its_time(stranger: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    value = proof(TOKEN)
    stranger.set_cookie(auth.COOKIE, value)
    assert stranger.get("/queues").status_code == 200
    monkeypatch.setattr(auth, "COOKIE_SECONDS", -1)
    assert stranger.get("/queues").status_code == 401


def test_token_stands_on_no_page(friend: FlaskClient, stranger: FlaskClient) -> None:
    for path in ("/status", "/metrics", "/readyz", "/runs", f"/nowhere?token={TOKEN}"):
        assert TOKEN not in friend.get(path, headers=BROWSER).text
    assert TOKEN not in stranger.post("/login", data={"token": TOKEN + "x"}, headers=BROWSER).text


@pytest.mark.parametrize("said", [auth.NOT_SET, auth.MISSING, auth.WRONG, auth.READ_ONLY])
def test_remedy_passes_the_redaction_as_it_is(said: str) -> None:
    assert secret.sanitized(said) == said

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt as jwt_library
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from worker_app.demo.credentials import App, Credentials
from worker_app.demo.messages import Request

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SECONDS = int(NOW.timestamp())


def request(token: str, now: datetime = NOW, scheme: str = "Bearer") -> Request:
    return Request(
        "POST",
        "/app/installations/8/access_tokens",
        (),
        {"authorization": f"{scheme} {token}"},
        None,
        "https://api",
        now,
    )


def jwt(**claims: Any) -> str:
    head = {"alg": claims.pop("alg", "RS256"), "typ": "JWT"}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, claims)]
    return ".".join([*parts, "c2lnbmF0dXJl"])


@pytest.fixture
def credentials() -> Credentials:
    return Credentials({"demo": "ghp_demo"}, App(id="7", installation=8, life=timedelta(hours=1)))


@pytest.mark.parametrize("scheme", ["Bearer", "token", "TOKEN"])
def test_token_is_known_under_both_schemes(credentials: Credentials, scheme: str) -> None:
    found = credentials.of(request("ghp_demo", scheme=scheme))
    assert found is not None
    assert found.name == "demo"


def test_token_that_was_revoked_is_nobodys(credentials: Credentials) -> None:
    credentials.revoke("demo")
    assert credentials.of(request("ghp_demo")) is None


def test_token_does_not_stand_in_a_repr(credentials: Credentials) -> None:
    assert "ghp_demo" not in repr(credentials.of(request("ghp_demo")))


def test_installation_token_lives_as_long_as_it_says(credentials: Credentials) -> None:
    answer = credentials.exchange(request(jwt(iss="7", iat=SECONDS - 60, exp=SECONDS + 540)))
    assert answer.status == 201
    assert answer.document["expires_at"] == "2026-06-01T01:00:00Z"
    token = answer.document["token"]
    assert credentials.of(request(token, NOW + timedelta(minutes=59))) is not None
    assert credentials.of(request(token, NOW + timedelta(minutes=61))) is None


def test_installation_tokens_share_one_name(credentials: Credentials) -> None:
    tokens = [
        credentials.exchange(request(jwt(iss="7", iat=SECONDS, exp=SECONDS + 60))).document["token"] for _ in range(2)
    ]
    assert tokens[0] != tokens[1]
    assert {found.name for token in tokens if (found := credentials.of(request(token)))} == {"installation-8"}


@pytest.mark.parametrize(
    "token",
    [
        "ghp_demo",
        "a.b.c",
        jwt(iss="9", iat=SECONDS, exp=SECONDS + 60),
        jwt(iss="7", iat=SECONDS, exp=SECONDS + 60, alg="HS256"),
        jwt(iss="7", iat=SECONDS - 700, exp=SECONDS - 60),
        jwt(iss="7", iat=SECONDS, exp=SECONDS + 3600),
        jwt(iss="7", iat=SECONDS + 120, exp=SECONDS + 180),
        jwt(iss="7"),
    ],
)
def test_wrong_jwt_gets_no_token(credentials: Credentials, token: str) -> None:
    assert credentials.exchange(request(token)).status == 401


def test_installation_that_is_not_the_apps_is_not_found(credentials: Credentials) -> None:
    asked = request(jwt(iss="7", iat=SECONDS, exp=SECONDS + 60))
    assert credentials.exchange(replace(asked, path="/app/installations/9/access_tokens")).status == 404


def test_signature_is_checked_where_the_key_is_known() -> None:
    keys = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
    public = keys[0].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    credentials = Credentials({}, App(id="7", installation=8, public_key=public))
    claims = {"iss": "7", "iat": SECONDS, "exp": SECONDS + 60}
    tokens = [jwt_library.encode(claims, key, algorithm="RS256") for key in keys]
    assert [credentials.exchange(request(token)).status for token in tokens] == [201, 401]

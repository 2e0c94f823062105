"""Credentials: who may ask. Tokens of people are known from the start, those of an App's installations are given out and end."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import jwt

from worker_app.demo import answers
from worker_app.demo.messages import Request, Response
from worker_app.demo.rest_accounts import stamp

TOKEN = "ghp_demo"  # noqa: S105 - opens this fake alone
TOKEN_LIFE = timedelta(hours=1)  # of an installation token, as GitHub has it


@dataclass(slots=True)
class Credential:
    """One credential. Its quota is counted by `name`, so that a renewed token brings no new quota."""

    name: str
    token: str = field(repr=False)
    expires_at: datetime | None = None
    is_revoked: bool = False


@dataclass(frozen=True, slots=True)
class App:
    """A GitHub App with one installation."""

    id: str = "1001"
    installation: int = 2002
    life: timedelta = TOKEN_LIFE
    public_key: str | None = None  # PEM that its JWTs are checked with; None: their signature is not looked at


class Credentials:
    """The tokens that are good."""

    def __init__(self, known: dict[str, str], app: App) -> None:
        self._by_token = {token: Credential(name, token) for name, token in known.items()}
        self.app = app

    def of(self, request: Request) -> Credential | None:
        """Whose token the request carries; None: nobody's, or one that is over."""
        found = self._by_token.get(_bearer(request))
        if found is None or found.is_revoked or (found.expires_at and found.expires_at <= request.now):
            return None
        return found

    def revoke(self, name: str) -> None:
        """End the tokens that were given out under `name` so far."""
        for found in self.named(name):
            found.is_revoked = True

    def named(self, name: str) -> Iterator[Credential]:
        """All tokens of that name."""
        return (found for found in self._by_token.values() if found.name == name)

    def exchange(self, request: Request) -> Response:
        """A new installation token for the App's JWT."""
        if not _is_jwt_of(self.app, _bearer(request), request.now):
            return answers.refusal(401, "A JSON web token could not be decoded")
        if request.path != f"/app/installations/{self.app.installation}/access_tokens":
            return answers.not_found()
        token = f"ghs_{secrets.token_hex(18)}"
        expires_at = request.now.replace(microsecond=0) + self.app.life
        self._by_token[token] = Credential(f"installation-{self.app.installation}", token, expires_at)
        permissions = {"metadata": "read", "contents": "read", "issues": "read", "pull_requests": "read"}
        document = {
            "token": token,
            "expires_at": stamp(expires_at),
            "permissions": permissions,
            "repository_selection": "all",
        }
        return Response(201, document, template="/app/installations/{installation_id}/access_tokens")


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() in {"bearer", "token"} else ""


def _is_jwt_of(app: App, token: str, now: datetime) -> bool:
    """Whether the claims are those that GitHub takes: at most ten minutes long, signed with RS256, issued by the App.

    https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
    """
    options: Any = {"verify_signature": app.public_key is not None, "verify_exp": False, "verify_iat": False}
    try:
        found = jwt.decode(token, app.public_key or "", algorithms=["RS256"], options=options)
        is_timely = found["iat"] <= now.timestamp() + 60 and now.timestamp() < found["exp"] <= now.timestamp() + 660
        is_signed = jwt.get_unverified_header(token)["alg"] == "RS256"
    except (jwt.InvalidTokenError, KeyError, TypeError):
        return False
    return is_signed and is_timely and str(found.get("iss")) == app.id

"""Who may ask: whoever brings the token, as a bearer or once in a form that trades it for a cookie.

The cookie holds no token but a signed proof that its owner had it, made and checked from the token alone: every replica
accepts it, and a new token ends all of them. Nothing here writes the token anywhere. An autoscaler has a token of its own that
opens its paths and nothing else.
"""

import hashlib
import hmac
import time
from collections.abc import Callable

import itsdangerous
from flask import Response, make_response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from worker_app.api import problems

OPEN_ENDPOINTS = frozenset({"livez", "readyz", "metrics", "login"})
AUTOSCALE_ENDPOINT = "autoscale"
COOKIE = "dev_hops_proof"
COOKIE_SECONDS = 12 * 3600  # a working day, then the token is asked for again
GUESS_SECONDS = 0.5  # what a wrong token costs its sender; a token of 192 bits needs no more than that
NOT_SET = "API_TOKEN is not set: the operator gives API_TOKEN or API_TOKEN_FILE to the API, then this path opens"
NONE_SET = (
    "neither AUTOSCALE_TOKEN nor API_TOKEN is set: the operator gives one of them to the API, then this path opens"
)
MISSING = "send the token as a bearer in the Authorization header"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
READ_ONLY = (
    "the cookie of a browser may read and nothing else: send the token as a bearer token in the Authorization header"
)
WRONG = "that is not the token; it is the value of API_TOKEN"


class Guard:
    """Lets a request in or answers 401. `token` None: nobody comes in, but for an autoscaler with `autoscale_token`."""

    def __init__(
        self,
        token: str | None,
        sleep: Callable[[float], None] = time.sleep,
        *,
        autoscale_token: str | None = None,
    ) -> None:
        self._digest = _digest_of(token)
        self._autoscale_digest = _digest_of(autoscale_token)
        self._signer = itsdangerous.TimestampSigner(token or "", salt="dev-hops/status", digest_method=hashlib.sha256)
        self._sleep = sleep

    def check(self) -> Response | None:
        """None for a request that may go on; runs before every route, those that do not exist included."""
        if request.endpoint in OPEN_ENDPOINTS:
            return None
        takes_autoscaler = request.endpoint == AUTOSCALE_ENDPOINT and self._autoscale_digest is not None
        if self._digest is None and not takes_autoscaler:
            unset = NONE_SET if request.endpoint == AUTOSCALE_ENDPOINT else NOT_SET
            return _refuse(unset, has_form=False, kind="token-not-set")
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            # WSGI hands headers out as latin-1; these are the bytes that were sent.
            sent = given.strip().encode("latin-1")
            is_known = self._is_token(sent) | (takes_autoscaler and _is_of(sent, self._autoscale_digest))
            return None if is_known else self._refuse_guess()
        if not self._is_proof(request.cookies.get(COOKIE, "")):
            return _refuse(MISSING)
        # A browser sends its cookie whoever made it ask, and SameSite lets a neighbour under the same domain do that.
        return None if request.method in SAFE_METHODS else _refuse(READ_ONLY)

    def login(self) -> AnyResponse:
        """Trade the token of the form for the cookie, then show the page."""
        if self._digest is None:
            return _refuse(NOT_SET, has_form=False, kind="token-not-set")
        if not self._is_token(request.form.get("token", "").strip().encode()):
            return self._refuse_guess()
        answer = redirect("/status", 303)
        # Behind a proxy the request itself is plain. Whoever lies about it only hardens or loses a cookie of their own.
        is_secure = request.is_secure or request.headers.get("X-Forwarded-Proto", "").startswith("https")
        answer.set_cookie(
            COOKIE,
            self._signer.sign("read").decode(),
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="Strict",
            secure=is_secure,
        )
        return answer

    def _is_token(self, given: bytes) -> bool:
        return _is_of(given, self._digest)

    def _is_proof(self, given: str) -> bool:
        if self._digest is None:
            return False  # without a token anybody could sign one
        try:
            return self._signer.unsign(given, max_age=COOKIE_SECONDS) == b"read"
        except itsdangerous.BadSignature:
            return False

    def _refuse_guess(self) -> Response:
        self._sleep(GUESS_SECONDS)
        return _refuse(WRONG)


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _digest_of(token: str | None) -> bytes | None:
    return None if token is None else _digest(token.encode())


def _is_of(given: bytes, digest: bytes | None) -> bool:
    # Digests have one length, so the comparison does not even tell how long the token is.
    return digest is not None and hmac.compare_digest(_digest(given), digest)


def _refuse(detail: str, *, has_form: bool = True, kind: str | None = None) -> Response:
    """401, as a page with a form for a browser and as a problem for a program."""
    if request.accept_mimetypes.best_match(["application/json", "text/html"]) == "text/html":
        said = None if detail == MISSING else detail
        answer = make_response(render_template("login.html", said=said, has_form=has_form), 401)
    else:
        answer = problems.response(401, detail, kind=kind)
    answer.headers["WWW-Authenticate"] = 'Bearer realm="dev-hops"'
    return answer

import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import jwt
import pytest

from tests import private_keys
from worker_app import errors
from worker_app.credentials.kinds import GitHubApp, GitHubToken
from worker_app.providers import github_signer, header_signer
from worker_app.providers.client import Answer, Request, Signer
from worker_app.providers.github_signer import AnonymousSigner, AppSigner
from worker_app.providers.header_signer import HeaderSigner
from worker_app.providers.installation_tokens import InstallationTokens
from worker_app.secret import Secret

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ORG = UUID(int=1)
CANARY = "ghs_canary8f3a"


class GitHub:
    """Answers like the one endpoint that gives tokens, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.signed: list[str] = []
        self.answer: Callable[[int], Answer] = lambda number: created(f"{CANARY}_{number}")

    def __call__(self, request: Request, signer: Signer) -> Answer:
        self.asked.append(request)
        self.signed.append(signer.headers()["Authorization"])
        return self.answer(len(self.asked))


class Clock:
    now = 5_000.0

    def __call__(self) -> float:
        return self.now


def created(token: object = CANARY, *, life: timedelta = timedelta(hours=1), **changes: Any) -> Answer:
    ends = (NOW + life).strftime("%Y-%m-%dT%H:%M:%SZ")
    plain = Answer(201, {}, b"", {"token": token, "expires_at": ends}, "https://api.github.com/x", NOW, None)
    return replace(plain, **changes)


@pytest.fixture
def app() -> GitHubApp:
    return GitHubApp("github.com", 7, 42, Secret(private_keys.pem(private_keys.rsa_key())))


@pytest.fixture
def github() -> GitHub:
    return GitHub()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> InstallationTokens:
    return InstallationTokens(clock=clock)


@pytest.fixture
def signer(app: GitHubApp, github: GitHub, tokens: InstallationTokens) -> AppSigner:
    return AppSigner(app, ORG, tokens=tokens, exchange=github, now=NOW.timestamp)


def test_personal_token_signs_as_it_is() -> None:
    signer = header_signer.signer(GitHubToken("github.com", Secret("ghp_x")))
    assert signer.headers() == {"Authorization": "Bearer ghp_x"}
    assert not signer.renew()
    assert "ghp_x" not in signer.generation + repr(signer)


def test_generation_is_that_of_the_token() -> None:
    one, same, other = (
        header_signer.signer(GitHubToken("github.com", Secret(text))) for text in ("ghp_x", "ghp_x", "ghp_y")
    )
    assert one.generation == same.generation != other.generation


def test_nobody_signs_without_a_credential() -> None:
    assert AnonymousSigner().headers() == {}
    assert not AnonymousSigner().renew()


def test_signer_is_that_of_the_credential(app: GitHubApp, github: GitHub, tokens: InstallationTokens) -> None:
    made = [
        github_signer.signer(credential, ORG, tokens=tokens, exchange=github)
        for credential in (None, GitHubToken("github.com", Secret("ghp_x")), app)
    ]
    assert [type(item) for item in made] == [AnonymousSigner, HeaderSigner, AppSigner]


def test_app_asks_for_a_token_of_its_installation_in_the_bucket_of_its_own(signer: AppSigner, github: GitHub) -> None:
    assert signer.headers() == {"Authorization": f"Bearer {CANARY}_1"}
    assert signer.headers() == {"Authorization": f"Bearer {CANARY}_1"}
    (request,) = github.asked
    assert (request.endpoint, request.url) == ("installation.token", "/app/installations/42/access_tokens")
    assert request.document == {}


def test_app_signs_for_its_token_by_a_jwt_of_ten_minutes_from_a_minute_ago(signer: AppSigner, github: GitHub) -> None:
    signer.headers()
    scheme, _, text = github.signed[0].partition(" ")
    public = private_keys.rsa_key().public_key()
    claims = jwt.decode(
        text, public, algorithms=["RS256"], issuer="7", options={"verify_exp": False, "verify_iat": False}
    )
    assert scheme == "Bearer"
    assert claims == {"iat": NOW.timestamp() - 60, "exp": NOW.timestamp() + 540, "iss": "7"}
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(text, private_keys.another_rsa_key().public_key(), algorithms=["RS256"], issuer="7")


def test_life_of_a_token_goes_by_the_date_of_the_reply(signer: AppSigner, github: GitHub, clock: Clock) -> None:
    years = timedelta(days=4000)
    github.answer = lambda number: created(f"{CANARY}_{number}", life=timedelta(hours=1) - years, now=NOW - years)
    signer.headers()
    clock.now += 3299.0
    signer.headers()
    assert len(github.asked) == 1
    clock.now += 1.0
    assert signer.headers() == {"Authorization": f"Bearer {CANARY}_2"}


def test_app_renews_what_was_refused_and_knows_it_by_another_generation(signer: AppSigner, github: GitHub) -> None:
    assert signer.generation == ""
    signer.headers()
    before = signer.generation
    assert signer.renew()
    assert signer.headers() == {"Authorization": f"Bearer {CANARY}_2"}
    assert signer.generation not in (before, "")
    assert CANARY not in before + signer.generation


def test_two_batches_share_the_token_and_its_renewal(
    app: GitHubApp, github: GitHub, tokens: InstallationTokens
) -> None:
    one, two = (AppSigner(app, ORG, tokens=tokens, exchange=github) for _ in range(2))
    assert one.headers() == two.headers()
    assert one.renew()
    assert two.renew()
    assert one.headers() == two.headers() == {"Authorization": f"Bearer {CANARY}_2"}
    assert len(github.asked) == 2


def test_renewal_that_brings_the_same_token_is_none(signer: AppSigner, github: GitHub) -> None:
    github.answer = lambda _: created()
    signer.headers()
    assert not signer.renew()


def test_organisations_and_private_keys_share_no_token(
    app: GitHubApp, github: GitHub, tokens: InstallationTokens
) -> None:
    other = replace(app, private_key=Secret(private_keys.pem(private_keys.another_rsa_key())))
    for credential, org in ((app, ORG), (app, UUID(int=2)), (other, ORG)):
        AppSigner(credential, org, tokens=tokens, exchange=github).headers()
    assert len(github.asked) == 3


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "it is suspended"), (404, "there is no such installation"), (422, "look at the App's settings")],
)
def test_app_that_gets_no_token_is_refused_with_the_reason(
    signer: AppSigner, github: GitHub, status: int, words: str
) -> None:
    github.answer = lambda _: created(status=status, document={"message": CANARY})
    with pytest.raises(errors.CredentialRefused, match=rf"App 7, installation 42, no token \({status}\)") as caught:
        signer.headers()
    assert words in str(caught.value)
    assert CANARY not in str(caught.value)


def test_signature_that_is_not_taken_is_explained(signer: AppSigner, github: GitHub) -> None:
    def refuse(_: int) -> Answer:
        raise errors.CredentialRefused("401")

    github.answer = refuse
    with pytest.raises(errors.CredentialRefused, match=r"its id or its private key is wrong, or the clock"):
        signer.headers()


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"token": CANARY},
        {"token": CANARY, "expires_at": 5},
        {"token": CANARY, "expires_at": "soon"},
        {"token": CANARY, "expires_at": "2026-06-01T12:00:00Z"},
        {"token": "", "expires_at": "2026-06-01T13:00:00Z"},
        {"token": [CANARY], "expires_at": "2026-06-01T13:00:00Z"},
    ],
)
def test_reply_without_a_token_that_can_be_used_is_a_fault_that_quotes_nothing(
    signer: AppSigner, github: GitHub, document: object
) -> None:
    github.answer = lambda _: created(document=document)
    with pytest.raises(errors.ProviderFault, match="no token that can be used") as caught:
        signer.headers()
    assert CANARY not in str(caught.value)


def test_broken_reply_that_may_hold_a_token_is_quoted_nowhere(signer: AppSigner, github: GitHub) -> None:
    def break_off(_: int) -> Answer:
        raise errors.ProviderFault(f'answered 201 with what is no JSON: {{"token": "{CANARY}"', status=201)

    github.answer = break_off
    with pytest.raises(errors.ProviderFault, match="gave App 7, installation 42, a broken reply") as caught:
        signer.headers()
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "fault",
    [
        errors.ProviderFault("down", status=502),
        errors.ProviderFault("took too long"),
        errors.GateUnavailable("x", retry_in=1),
    ],
)
def test_other_faults_pass_as_they_are(signer: AppSigner, github: GitHub, fault: errors.DevHopsError) -> None:
    def fail(_: int) -> Answer:
        raise fault

    github.answer = fail
    with pytest.raises(type(fault)) as caught:
        signer.headers()
    assert caught.value is fault


def test_private_key_that_signs_nothing_is_malformed_and_not_shown(
    app: GitHubApp, github: GitHub, tokens: InstallationTokens
) -> None:
    broken = replace(
        app, private_key=Secret(f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----")
    )
    with pytest.raises(errors.CredentialMalformed, match="the private key of App 7") as caught:
        AppSigner(broken, ORG, tokens=tokens, exchange=github).headers()
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None

import dataclasses
import json
import traceback
from typing import get_args

import pytest

from worker_app import errors
from worker_app.credentials import kinds
from worker_app.credentials.kinds import (
    Credential,
    GitHttps,
    GitHubApp,
    GitHubToken,
    GitLabToken,
    GitSsh,
    JiraAccessToken,
    JiraToken,
    LinearKey,
)
from worker_app.secret import Secret

CANARY = "ghp_canary8f3a"
TOKEN = GitHubToken("github.com", Secret(CANARY))
APP = GitHubApp("ghe.acme.com", 7, 42, Secret("-----BEGIN"))
EVERY: tuple[Credential, ...] = (
    TOKEN,
    APP,
    GitLabToken("gitlab.com", Secret(CANARY)),
    JiraToken("acme.atlassian.net", "ada@acme.com", Secret(CANARY)),
    JiraAccessToken("jira.acme.com", Secret(CANARY)),
    LinearKey("linear.app", Secret(CANARY)),
    GitHttps("git.acme.com:8443", "deploy", Secret(CANARY)),
    GitSsh("git.acme.com", Secret(CANARY), "git.acme.com ssh-ed25519 AAAA\n"),
)


def opened(credential: Credential, **changes: object) -> bytes:
    """What the vault would give back of a credential, with some fields changed."""
    document = kinds.to_document(credential) | changes
    plain = {name: value.reveal() if isinstance(value, Secret) else value for name, value in document.items()}
    return json.dumps({name: value for name, value in plain.items() if value is not ...}, default=str).encode()


def fault_of(text: bytes) -> str:
    with pytest.raises(errors.CredentialMalformed) as caught:
        kinds.from_document(text, "github.com")
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in shown
    assert caught.value.__context__ is None
    return str(caught.value)


def test_every_kind_is_tried() -> None:
    assert {type(credential) for credential in EVERY} == set(get_args(Credential))
    assert len({credential.kind for credential in EVERY}) == len(EVERY)


@pytest.mark.parametrize("credential", EVERY, ids=lambda credential: credential.kind)
def test_credential_comes_back_from_its_document(credential: Credential) -> None:
    assert kinds.from_document(opened(credential), credential.host) == credential


def test_document_holds_secrets_closed_and_no_host() -> None:
    assert kinds.to_document(TOKEN) == {"kind": "github_token", "token": Secret(CANARY)}
    assert CANARY not in repr([*map(kinds.to_document, EVERY)]) + repr(EVERY)


@pytest.mark.parametrize("credential", EVERY, ids=lambda credential: credential.kind)
def test_credential_has_one_secret(credential: Credential) -> None:
    assert kinds.secret_of(credential) in (Secret(CANARY), Secret("-----BEGIN"))


def test_credential_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TOKEN.host = "elsewhere"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "of no kind"),
        (CANARY.encode(), "of no kind"),
        (b"\xff", "of no kind"),
        (b"[]", "of no kind"),
        (json.dumps({"kind": CANARY}).encode(), "of no kind"),
        (json.dumps({"kind": [CANARY]}).encode(), "of no kind"),
        (opened(TOKEN, token=...), "the github_token for github.com is malformed: token is missing or broken"),
        (opened(TOKEN, token=""), "token is missing or broken"),
        (opened(TOKEN, token=5), "token is missing or broken"),
        (opened(TOKEN, more=CANARY), "1 more fields than it has"),
        (opened(TOKEN, host=CANARY), "1 more fields than it has"),
        (opened(EVERY[3], email=""), "the jira_token for github.com is malformed: email is missing or broken"),
        (opened(EVERY[6], user=7), "user is missing or broken"),
        (opened(APP, app_id=CANARY), "app_id is missing or broken"),
        (
            opened(APP, app_id=True, installation_id=0),
            "app_id is missing or broken; installation_id is missing or broken",
        ),
    ],
)
def test_malformed_document_is_refused_and_echoes_nothing(text: bytes, words: str) -> None:
    assert words in fault_of(text)

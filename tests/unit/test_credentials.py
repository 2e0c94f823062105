import dataclasses
import json
import traceback

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests import private_keys
from worker_app import errors
from worker_app.credentials import given, kinds
from worker_app.credentials.kinds import Credential, GitHubApp, GitHubToken
from worker_app.secret import Secret

CANARY = "ghp_canary8f3a"
TOKEN = GitHubToken("github.com", Secret(CANARY))
APP = GitHubApp("ghe.acme.com", 7, 42, Secret("-----BEGIN"))


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


@pytest.mark.parametrize("credential", [TOKEN, APP])
def test_credential_comes_back_from_its_document(credential: Credential) -> None:
    assert kinds.from_document(opened(credential), credential.host) == credential


def test_document_holds_secrets_closed_and_no_host() -> None:
    assert kinds.to_document(TOKEN) == {"kind": "github_token", "token": Secret(CANARY)}
    assert CANARY not in repr(kinds.to_document(TOKEN)) + repr(TOKEN)


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
        (opened(APP, app_id=CANARY), "app_id is missing or broken"),
        (
            opened(APP, app_id=True, installation_id=0),
            "app_id is missing or broken; installation_id is missing or broken",
        ),
    ],
)
def test_malformed_document_is_refused_and_echoes_nothing(text: bytes, words: str) -> None:
    assert words in fault_of(text)


def test_token_loses_the_white_space_around_it() -> None:
    assert given.token_of(f" {CANARY}\r\n") == Secret(CANARY)


@pytest.mark.parametrize(
    "text", ["", " \n", "ghp a", "ghp\na", "ghp\0", "ghp\x7f", "ghp\u200b", "\ufeffghp", "ghp\ufffd"]
)
def test_token_that_no_header_can_hold_is_refused_and_not_echoed(text: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        given.token_of(text)
    assert "ghp" not in str(caught.value)


def test_private_key_is_taken_as_github_makes_it() -> None:
    pem = private_keys.pem(private_keys.rsa_key())
    assert given.private_key_of(f"\n{pem}\n") == Secret(pem.strip())
    assert given.private_key_of(pem.replace("\n", "\r\n")).reveal().startswith("-----BEGIN RSA PRIVATE KEY-----\r\n")


def test_private_key_that_signs_nothing_is_refused_and_not_echoed() -> None:
    pem = private_keys.pem(private_keys.rsa_key())
    wrong = [
        "", CANARY, "\ufffd", pem[:200], pem.replace("RSA PRIVATE", "RSA PUBLIC"),
        private_keys.pem(private_keys.rsa_key(), passphrase=b"x"), private_keys.pem(private_keys.rsa_key(1024)),
        private_keys.pem(ec.generate_private_key(ec.SECP256R1())),
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(errors.UsageError, match="no RSA key in PEM without a passphrase") as caught:
            given.private_key_of(text)
        assert caught.value.__context__ is None


def test_host_is_written_as_a_person_sees_it() -> None:
    assert [given.host_of(text) for text in (" GitHub.com ", "ghe.acme.com:8443", "github.localhost")] == [
        "github.com", "ghe.acme.com:8443", "github.localhost",
    ]  # fmt: skip
    for text in ("", "https://github.com", "github.com/acme", "me@github.com", "git hub", "github.com.", "-x"):
        with pytest.raises(errors.UsageError, match="without scheme, path, user and final dot"):
            given.host_of(text)

"""Who a token or an App of GitHub is, on a real socket with a server that checks the App's signature."""

from datetime import UTC, datetime
from typing import Any

import jwt
import pytest

from tests import private_keys
from tests.integration.providers.identity_asking import CANARY, asking, echoes, says
from worker_app import errors
from worker_app.credentials.kinds import GitHubApp, GitHubToken
from worker_app.providers import github_identity
from worker_app.secret import Secret

pytestmark = pytest.mark.integration
TOKEN = GitHubToken("github.com", Secret(CANARY))
APP = GitHubApp("github.com", 7, 42, Secret(private_keys.pem(private_keys.rsa_key())))
READS = dict.fromkeys(github_identity.READS, "read")


def installation(**changes: object) -> dict[str, Any]:
    return {
        "id": 42, "app_slug": "dev-hops", "account": {"login": "acme"}, "permissions": READS,
        "repository_selection": "all", "suspended_at": None,
    } | changes  # fmt: skip


def test_classic_token_is_named_with_its_scopes_and_its_end() -> None:
    headers = {"X-OAuth-Scopes": "repo, read:org", "GitHub-Authentication-Token-Expiration": "2027-01-02 03:04:05 UTC"}
    with asking(TOKEN, says({"login": "ada"}, headers=headers)) as github:
        found = github.ask()
        assert (github.seen.method, github.seen.target, github.endpoint) == ("GET", "/user", "user.get")
        assert github.seen.headers["Authorization"] == f"Bearer {CANARY}"
    assert (found.account, found.scopes, found.missing, found.notes) == ("ada", ("read:org", "repo"), (), ())
    assert found.expires_at == datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("scopes", "missing"),
    [
        ("", ("repo", "read:org")),
        ("gist", ("repo", "read:org")),
        ("repo", ("read:org",)),
        ("read:org", ("repo",)),
        ("repo:status, admin:org", ("repo",)),
        ("public_repo, write:org", ()),
    ],
)
def test_scopes_that_a_classic_token_lacks_are_named(scopes: str, missing: tuple[str, ...]) -> None:
    with asking(TOKEN, says({"login": "ada"}, headers={"X-OAuth-Scopes": scopes})) as github:
        found = github.ask()
    assert found.missing == missing
    assert bool(found.notes) is ("public_repo" in scopes)


def test_fine_grained_token_tells_no_scopes_and_is_told_what_our_reading_needs() -> None:
    with asking(TOKEN, says({"login": "ada"})) as github:
        found = github.ask()
    assert (found.account, found.scopes, found.missing) == ("ada", None, ())
    assert found.notes == (github_identity.FINE_GRAINED,)


def test_app_is_named_with_the_account_and_the_permissions_of_its_installation() -> None:
    with asking(APP, says(installation(repository_selection="selected"))) as github:
        found = github.ask()
        assert (github.seen.method, github.seen.target) == ("GET", "/app/installations/42")
        assert github.endpoint == "installation.get"
        signed = github.seen.headers["Authorization"].removeprefix("Bearer ")
        assert jwt.decode(signed, private_keys.rsa_key().public_key(), algorithms=["RS256"], issuer="7")
    assert found.account == "App dev-hops installed in acme"
    assert found.scopes == tuple(sorted(f"{name}:read" for name in READS))
    assert (found.missing, found.notes) == ((), ("it sees selected repositories alone",))


def test_permissions_that_an_installation_lacks_are_named() -> None:
    permissions: dict[str, object] = {**READS, "actions": "none", "contents": "write"}
    del permissions["issues"]
    with asking(APP, says(installation(permissions=permissions))) as github:
        assert github.ask().missing == ("actions:read", "issues:read")
    with asking(APP, says({})) as github:
        assert github.ask().missing == tuple(f"{name}:read" for name in github_identity.READS)


def test_app_that_gets_nothing_is_refused_with_the_reason() -> None:
    with (
        asking(APP, says(installation(suspended_at="2026-01-01T00:00:00Z"))) as github,
        pytest.raises(errors.CredentialRefused, match="has suspended App 7, installation 42"),
    ):
        github.ask()
    with (
        asking(APP, says({"message": "Not Found"}, 404)) as github,
        pytest.raises(errors.ProviderRefused, match="there is no installation 42 of this App"),
    ):
        github.ask()
    with (
        asking(APP, says({"message": "bad"}, 401)) as github,
        pytest.raises(errors.CredentialRefused, match="does not take the signature of App 7, installation 42"),
    ):
        github.ask()


def test_token_that_is_not_taken_is_refused_without_an_echo() -> None:
    with asking(TOKEN, echoes) as github, pytest.raises(errors.CredentialRefused) as caught:
        github.ask()
    assert CANARY not in str(caught.value)


def test_token_that_comes_back_as_a_name_is_not_passed_on() -> None:
    with asking(TOKEN, says({"login": CANARY}, headers={"X-OAuth-Scopes": f"repo, {CANARY}"})) as github:
        assert CANARY not in repr(github.ask())

"""Whose a token of GitLab is, on a real socket."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.providers.identity_asking import CANARY, asking, echoes, says
from worker_app import errors
from worker_app.credentials.kinds import GitLabToken
from worker_app.secret import Secret

pytestmark = pytest.mark.integration
TOKEN = GitLabToken("gitlab.acme.com", Secret(CANARY))


def told(**changes: object) -> dict[str, Any]:
    return {
        "id": 4, "name": "dev-hops", "revoked": False, "scopes": ["read_api"], "user_id": 24, "active": True,
        "expires_at": "2027-01-31",
    } | changes  # fmt: skip


def test_token_is_named_with_its_scopes_and_its_end() -> None:
    with asking(TOKEN, says(told())) as gitlab:
        found = gitlab.ask()
        assert (gitlab.seen.method, gitlab.seen.target) == ("GET", "/personal_access_tokens/self")
        assert gitlab.endpoint == "token.get"
        assert gitlab.seen.headers["PRIVATE-TOKEN"] == CANARY
        assert gitlab.seen.headers["Authorization"] is None
    assert (found.account, found.scopes, found.missing) == ("user 24, token dev-hops", ("read_api",), ())
    assert found.expires_at == datetime(2027, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("scopes", "missing"),
    [(["api"], ()), (["read_repository", "read_api"], ()), (["read_user"], ("read_api",)), ([], ("read_api",))],
)
def test_scope_that_a_token_lacks_is_named(scopes: list[str], missing: tuple[str, ...]) -> None:
    with asking(TOKEN, says(told(scopes=scopes, expires_at=None))) as gitlab:
        found = gitlab.ask()
    assert (found.scopes, found.missing, found.expires_at) == (tuple(sorted(scopes)), missing, None)


@pytest.mark.parametrize("change", [{"revoked": True}, {"active": False}])
def test_token_that_is_over_is_refused(change: dict[str, bool]) -> None:
    with asking(TOKEN, says(told(**change))) as gitlab, pytest.raises(errors.CredentialRefused, match="is over"):
        gitlab.ask()


def test_gitlab_that_cannot_say_is_named() -> None:
    with (
        asking(TOKEN, says({}, 404)) as gitlab,
        pytest.raises(errors.ProviderRefused, match=r"GitLab at gitlab\.acme\.com .* older than 15\.5"),
    ):
        gitlab.ask()


def test_token_that_is_not_taken_is_refused_without_an_echo() -> None:
    with asking(TOKEN, echoes) as gitlab, pytest.raises(errors.CredentialRefused) as caught:
        gitlab.ask()
    assert CANARY not in str(caught.value)
    with asking(TOKEN, says(told(name=f"mine {CANARY}", scopes=["api", CANARY]))) as gitlab:
        assert CANARY not in repr(gitlab.ask())

"""Who an API key of Linear is, on a real socket."""

import json

import pytest

from tests.integration.providers.identity_asking import CANARY, asking, echoes, says
from worker_app import errors
from worker_app.credentials.kinds import LinearKey
from worker_app.providers import linear_identity
from worker_app.secret import Secret

pytestmark = pytest.mark.integration
KEY = LinearKey("linear.app", Secret(CANARY))


def test_key_is_named_by_its_person_and_workspace() -> None:
    said = {"data": {"viewer": {"name": "Ada", "email": "ada@acme.com"}, "organization": {"name": "Acme"}}}
    with asking(KEY, says(said)) as linear:
        found = linear.ask()
        assert (linear.seen.method, linear.seen.target, linear.endpoint) == ("POST", "/graphql", "viewer")
        assert json.loads(linear.seen.body) == {"query": linear_identity.QUERY}
        assert linear.seen.headers["Authorization"] == CANARY
    assert (found.account, found.scopes, found.missing) == ("Ada (ada@acme.com) in Acme", None, ())
    assert found.notes == (linear_identity.TELLS_NO_SCOPES,)


@pytest.mark.parametrize("status", [200, 400])
def test_key_that_graphql_does_not_take_is_refused(status: int) -> None:
    said = {"errors": [{"message": f"no {CANARY}", "extensions": {"code": "AUTHENTICATION_ERROR"}}], "data": None}
    with asking(KEY, says(said, status)) as linear, pytest.raises(errors.CredentialRefused) as caught:
        linear.ask()
    assert "does not take this key" in str(caught.value)
    assert CANARY not in str(caught.value)


def test_key_that_is_not_taken_is_refused_without_an_echo() -> None:
    with asking(KEY, echoes) as linear, pytest.raises(errors.CredentialRefused) as caught:
        linear.ask()
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("said", [{}, {"data": None}, {"errors": "no"}, {"errors": [7, {}], "data": {"viewer": None}}])
def test_answer_that_names_nobody_is_no_success(said: dict[str, object]) -> None:
    with asking(KEY, says(said)) as linear, pytest.raises(errors.ProviderRefused, match="says nothing of the person"):
        linear.ask()

"""Who a token of Jira is, Cloud and Data Center, on a real socket."""

import base64

import pytest

from tests.integration.providers.identity_asking import CANARY, asking, echoes, says
from worker_app import errors
from worker_app.credentials.kinds import JiraAccessToken, JiraToken
from worker_app.providers import jira_identity
from worker_app.secret import Secret

pytestmark = pytest.mark.integration
CLOUD = JiraToken("acme.atlassian.net", "ada@acme.com", Secret(CANARY))
DATA_CENTER = JiraAccessToken("jira.acme.com", Secret(CANARY))
PAIR = base64.b64encode(f"ada@acme.com:{CANARY}".encode()).decode()


def test_token_of_the_cloud_is_named_by_its_account() -> None:
    said = {"accountId": "5b10", "displayName": "Ada Lovelace", "emailAddress": "ada@acme.com", "active": True}
    with asking(CLOUD, says(said)) as jira:
        found = jira.ask()
        assert (jira.seen.method, jira.seen.target, jira.endpoint) == ("GET", "/rest/api/3/myself", "myself.get")
        assert jira.seen.headers["Authorization"] == f"Basic {PAIR}"
    assert (found.account, found.scopes, found.missing) == ("Ada Lovelace (ada@acme.com)", None, ())
    assert found.notes == (jira_identity.TELLS_NO_SCOPES,)


def test_token_of_data_center_is_named_by_its_account() -> None:
    with asking(DATA_CENTER, says({"name": "ada", "displayName": "Ada Lovelace", "active": True})) as jira:
        found = jira.ask()
        assert (jira.seen.target, jira.seen.headers["Authorization"]) == ("/rest/api/2/myself", f"Bearer {CANARY}")
    assert found.account == "Ada Lovelace (ada)"


def test_account_that_hides_its_address_is_named_all_the_same() -> None:
    with asking(CLOUD, says({"displayName": "Ada"})) as jira:
        assert jira.ask().account == "Ada"
    with asking(CLOUD, says({})) as jira:
        assert jira.ask().account is None


@pytest.mark.parametrize("credential", [CLOUD, DATA_CENTER])
def test_token_that_is_not_taken_is_refused_without_an_echo(credential: JiraToken | JiraAccessToken) -> None:
    with asking(credential, echoes) as jira, pytest.raises(errors.CredentialRefused) as caught:
        jira.ask()
    assert CANARY not in str(caught.value)
    assert PAIR not in str(caught.value)
    assert ("make an API token without scopes" in str(caught.value)) is (credential is CLOUD)


def test_account_that_may_not_sign_in_is_refused_with_the_remedy() -> None:
    with asking(DATA_CENTER, says({}, 403)) as jira, pytest.raises(errors.ProviderRefused, match="asks for a captcha"):
        jira.ask()
    with asking(CLOUD, says({"active": False})) as jira, pytest.raises(errors.CredentialRefused, match="switched off"):
        jira.ask()

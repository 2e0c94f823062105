"""Who a token of Jira is. Jira tells no scopes: a token sees what its account may see.

Pages: https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-myself/ (Cloud),
https://developer.atlassian.com/server/jira/platform/rest/ (Data Center, `/rest/api/2/myself`),
https://support.atlassian.com/atlassian-account/docs/manage-api-tokens-for-your-atlassian-account/
"""

from typing import Any

from worker_app import errors
from worker_app.credentials.kinds import JiraAccessToken, JiraToken
from worker_app.providers import identity
from worker_app.providers.client import Answer, Client, Request
from worker_app.providers.identity import Identity

TELLS_NO_SCOPES = "Jira does not tell what a token may do: it reads the projects that its account may browse"
REMEDIES = {
    403: "sign in there once in a browser: after too many failures Jira asks for a captcha",
    404: "there is no Jira, or its API is somewhere else (PROVIDER_API_URLS)",
}


def of_token(client: Client, credential: JiraToken | JiraAccessToken) -> Identity:
    """The account of a token.

    Raises CredentialRefused, also for an account that was switched off, ProviderRefused, and what `Client.send` raises.
    """
    named = f"Jira at {credential.host}"
    found = identity.document(_asked(client, credential, named), named, REMEDIES)
    if found.get("active") is False:
        raise errors.CredentialRefused(f"{named} says that the account of this token is switched off")
    return Identity(_account(found), notes=(TELLS_NO_SCOPES,))


def _asked(client: Client, credential: JiraToken | JiraAccessToken, named: str) -> Answer:
    if isinstance(credential, JiraAccessToken):
        return client.send(Request("myself.get", "/rest/api/2/myself"))
    try:
        return client.send(Request("myself.get", "/rest/api/3/myself"))
    except errors.CredentialRefused as error:
        raise errors.CredentialRefused(
            f"{named} does not take this token with {credential.email} (401): it has ended, belongs to another account, or is "
            "one with scopes, which is not taken at this address; make an API token without scopes"
        ) from error


def _account(found: dict[str, Any]) -> str | None:
    called = identity.name(found.get("displayName"))
    sign_in = identity.name(found.get("emailAddress")) or identity.name(found.get("name"))
    return f"{called} ({sign_in})" if called and sign_in else called or sign_in

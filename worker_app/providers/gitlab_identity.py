"""Who a token of GitLab is: whose, with which scopes, and until when. Tokens of projects and groups answer like personal ones.

Page: https://docs.gitlab.com/api/personal_access_tokens/#get-details-on-a-personal-access-token (`self`, since GitLab 15.5)
"""

from typing import Any

from worker_app import errors
from worker_app.providers import identity
from worker_app.providers.client import Client, Request
from worker_app.providers.identity import Identity

READING = frozenset({"api", "read_api"})
REMEDIES = {
    403: "the token may not read about itself; make one with the scope read_api",
    404: "this GitLab is older than 15.5, or its API is somewhere else (PROVIDER_API_URLS)",
}


def of_token(client: Client, host: str) -> Identity:
    """Whose token it is, by number: GitLab tells no more in one call.

    Raises CredentialRefused for a token that is over, ProviderRefused, and what `Client.send` raises.
    """
    answer = client.send(Request("token.get", "/personal_access_tokens/self"))
    found = identity.document(answer, f"GitLab at {host}", REMEDIES)
    if found.get("revoked") is True or found.get("active") is False:
        raise errors.CredentialRefused(f"GitLab at {host} says that this token is over: make another one")
    scopes = identity.scopes(found.get("scopes"))
    missing = () if READING & set(scopes) else ("read_api",)
    return Identity(_account(found), scopes, missing, identity.moment(found.get("expires_at")))


def _account(found: dict[str, Any]) -> str | None:
    number, called = found.get("user_id"), identity.name(found.get("name"))
    if type(number) is not int:
        return None
    return f"user {number}" + (f", token {called}" if called else "")

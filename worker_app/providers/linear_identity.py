"""Who an API key of Linear is: its person and workspace. Linear tells no scopes of a key.

Page: https://linear.app/developers/graphql
"""

from typing import Any

from worker_app import errors
from worker_app.providers import identity
from worker_app.providers.client import Answer, Client, Request
from worker_app.providers.identity import Identity

QUERY = "query { viewer { name email } organization { name } }"
TELLS_NO_SCOPES = "Linear does not tell what a key may do: it reads the teams that its person may see"
BAD_REQUEST = 400  # GraphQL's answer to a key that is none, beside 401
NOT_SIGNED_IN = "AUTHENTICATION_ERROR"


def of_key(client: Client, host: str) -> Identity:
    """The person of a key, and the workspace. Raises CredentialRefused, ProviderRefused, and what `Client.send` raises."""
    answer = client.send(Request("viewer", "/graphql", document={"query": QUERY}))
    if NOT_SIGNED_IN in _codes(answer):
        raise errors.CredentialRefused(f"Linear at {host} does not take this key: it was withdrawn, or is none")
    found = identity.document(answer, f"Linear at {host}", {BAD_REQUEST: "it does not take what was asked"})
    data = _object(found.get("data"))
    viewer, workspace = _object(data.get("viewer")), _object(data.get("organization"))
    if not viewer:
        raise errors.ProviderRefused(f"Linear at {host} says nothing of the person of this key", status=answer.status)
    return Identity(_account(viewer, workspace), notes=(TELLS_NO_SCOPES,))


def _account(viewer: dict[str, Any], workspace: dict[str, Any]) -> str:
    called, address = identity.name(viewer.get("name")), identity.name(viewer.get("email"))
    place = identity.name(workspace.get("name"))
    person = called or "a person without a name"
    return person + (f" ({address})" if address else "") + (f" in {place}" if place else "")


def _codes(answer: Answer) -> set[object]:
    """The codes of GraphQL's errors, which come with a 200 as well as with a 400."""
    listed = _object(answer.document).get("errors")
    found = (
        [_object(_object(error).get("extensions")).get("code") for error in listed] if isinstance(listed, list) else []
    )
    return {code for code in found if isinstance(code, str)}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

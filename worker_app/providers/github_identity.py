"""Who a credential of GitHub is: the account of a token, or an App and where it is installed.

Pages: https://docs.github.com/en/rest/users/users#get-the-authenticated-user,
https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/scopes-for-oauth-apps (X-OAuth-Scopes),
https://docs.github.com/en/rest/apps/apps#get-an-installation-for-the-authenticated-app
"""

from typing import Any

from worker_app import errors
from worker_app.credentials.kinds import GitHubApp
from worker_app.providers import identity
from worker_app.providers.client import Answer, Client, Request
from worker_app.providers.identity import Identity

READS = ("actions", "contents", "deployments", "issues", "metadata", "pull_requests")  # what the datasets are read by
READING = frozenset({"read", "write", "admin"})
PRIVATE, PUBLIC = "repo", "public_repo"
ORGANISATIONS = frozenset({"read:org", "write:org", "admin:org"})  # each includes the first
FINE_GRAINED = (
    "GitHub does not tell what a fine-grained token may see; our reading needs read access to Actions, Contents, Deployments, "
    "Issues, Metadata and Pull requests"
)


def of_token(client: Client, host: str) -> Identity:
    """The account of a personal access token; the scopes of a classic one, those of a fine-grained one nobody tells.

    Raises ProviderRefused, and what `Client.send` raises.
    """
    answer = client.send(Request("user.get", "/user"))
    found = identity.document(answer, f"GitHub at {host}", {403: "it is no token of a person, or may not be used here"})
    account, ends = identity.name(found.get("login")), answer.headers.get("GitHub-Authentication-Token-Expiration")
    scopes = _classic_scopes(answer)
    if scopes is None:
        return Identity(account, expires_at=identity.moment(ends), notes=(FINE_GRAINED,))
    notes = ("it sees public repositories alone",) if PUBLIC in scopes and PRIVATE not in scopes else ()
    return Identity(account, scopes, _missing(scopes), identity.moment(ends), notes)


def of_app(client: Client, credential: GitHubApp) -> Identity:
    """An App and the account that it is installed in, with what the installation may see. `client` signs as the App itself.

    Raises CredentialRefused where GitHub does not know the App, its key or its installation, or has suspended it, and what
    `Client.send` raises.
    """
    named = f"App {credential.app_id}, installation {credential.installation_id},"
    found = _installation(client, credential, named)
    if found.get("suspended_at"):
        raise errors.CredentialRefused(
            f"GitHub at {credential.host} has suspended {named} and gives it nothing; whoever owns the installation can end that"
        )
    held = found.get("permissions")
    permissions: dict[str, Any] = held if isinstance(held, dict) else {}
    return Identity(
        account=_installed(found),
        scopes=identity.scopes([f"{name}:{level}" for name, level in permissions.items()]),
        missing=tuple(f"{name}:read" for name in READS if permissions.get(name) not in READING),
        notes=("it sees selected repositories alone",) if found.get("repository_selection") == "selected" else (),
    )


def _classic_scopes(answer: Answer) -> tuple[str, ...] | None:
    said = answer.headers.get("X-OAuth-Scopes")
    return None if said is None else identity.scopes([word.strip() for word in said.split(",")])


def _missing(scopes: tuple[str, ...]) -> tuple[str, ...]:
    missing = [] if {PRIVATE, PUBLIC} & set(scopes) else [PRIVATE]
    return (*missing, *(() if ORGANISATIONS & set(scopes) else ("read:org",)))


def _installation(client: Client, credential: GitHubApp, named: str) -> dict[str, Any]:
    try:
        answer = client.send(Request("installation.get", f"/app/installations/{credential.installation_id}"))
    except errors.CredentialMalformed:
        raise
    except errors.CredentialRefused as error:
        raise errors.CredentialRefused(
            f"GitHub at {credential.host} does not take the signature of {named} (401): its id or its private key is wrong, or "
            "the clock of this machine is off by more than a minute"
        ) from error
    remedy = (
        f"there is no installation {credential.installation_id} of this App: install it, or add the credential anew"
    )
    return identity.document(answer, f"GitHub at {credential.host}", {404: remedy})


def _installed(found: dict[str, Any]) -> str:
    owner = found.get("account")
    login = identity.name(owner.get("login")) if isinstance(owner, dict) else None
    return (
        f"App {identity.name(found.get('app_slug')) or 'without a name'} installed in {login or 'an unnamed account'}"
    )

"""Identities: asks the provider of a credential who it is, in one call through the gate."""

from worker_app.credentials.kinds import (
    GitHttps,
    GitHubApp,
    GitHubToken,
    GitLabToken,
    GitSsh,
    JiraAccessToken,
    JiraToken,
    LinearKey,
)
from worker_app.providers import (
    git_identity,
    github_identity,
    github_signer,
    gitlab_identity,
    header_signer,
    jira_identity,
    linear_identity,
)
from worker_app.providers.connections import Caller, Connections
from worker_app.providers.identity import Identity
from worker_app.records import Source


def identity(connections: Connections, caller: Caller, source: Source | None = None) -> Identity:
    """Who the credential is that the caller names. One of git is asked about a `source`, which has to be given for it.

    Raises CredentialRefused, also where it does not open; ProviderRefused and SourceUnavailable; ProviderFault, RateLimited and
    GateUnavailable when the provider cannot be asked now; StoreAway.
    """
    credential = connections.credential(caller)
    assert credential is not None
    match credential:
        case GitHubToken():
            client = connections.client("github", caller, header_signer.signer(credential))
            return github_identity.of_token(client, credential.host)
        case GitHubApp():
            client = connections.client("github", caller, github_signer.JwtSigner(credential))
            return github_identity.of_app(client, credential)
        case GitLabToken():
            client = connections.client("gitlab", caller, header_signer.signer(credential))
            return gitlab_identity.of_token(client, credential.host)
        case JiraToken() | JiraAccessToken():
            client = connections.client("jira", caller, header_signer.signer(credential))
            return jira_identity.of_token(client, credential)
        case LinearKey():
            client = connections.client("linear", caller, header_signer.signer(credential))
            return linear_identity.of_key(client, credential.host)
        case GitHttps() | GitSsh():
            assert source is not None
            return git_identity.identity(credential, source, connections.settings)

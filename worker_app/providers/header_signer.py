"""Signers by one header that stays the same: tokens of GitHub, GitLab, Jira and Linear sign every request so.

Pages: https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api (GitHub),
https://docs.gitlab.com/api/rest/authentication/ (PRIVATE-TOKEN),
https://developer.atlassian.com/cloud/jira/platform/basic-auth-for-rest-apis/ (Jira Cloud),
https://confluence.atlassian.com/enterprise/using-personal-access-tokens-1026032365.html (Jira Data Center),
https://linear.app/developers/graphql#personal-api-keys
"""

import base64
import hashlib
from collections.abc import Mapping

from worker_app.credentials.kinds import GitHubToken, GitLabToken, JiraAccessToken, JiraToken, LinearKey
from worker_app.secret import Secret

HeaderCredential = GitHubToken | GitLabToken | JiraToken | JiraAccessToken | LinearKey


class HeaderSigner:
    """Signs by one header whose value is secret."""

    def __init__(self, name: str, value: Secret) -> None:
        self._name = name
        self._value = value

    def headers(self) -> Mapping[str, str]:
        """The header, the same at each request."""
        return {self._name: self._value.reveal()}

    def renew(self) -> bool:
        """A person makes what stands in it; there is no other."""
        return False

    @property
    def generation(self) -> str:
        """A digest of the value, from which nobody comes back."""
        return digest(self._value)


def digest(secret: Secret) -> str:
    """Tells one secret from another within this process; nobody comes back from it."""
    return hashlib.blake2b(secret.reveal().encode(), digest_size=16, person=b"generation").hexdigest()


def signer(credential: HeaderCredential) -> HeaderSigner:
    """Who signs the requests to the provider of this credential."""
    match credential:
        case GitLabToken():
            return HeaderSigner("PRIVATE-TOKEN", credential.token)
        case JiraToken():
            return HeaderSigner("Authorization", _basic(credential.email, credential.token))
        case GitHubToken() | JiraAccessToken():
            return HeaderSigner("Authorization", Secret(f"Bearer {credential.token.reveal()}"))
        case LinearKey():  # no `Bearer`: that is how Linear tells a key from a token of OAuth
            return HeaderSigner("Authorization", credential.key)


def _basic(user: str, password: Secret) -> Secret:
    pair = base64.b64encode(f"{user}:{password.reveal()}".encode()).decode()
    return Secret(f"Basic {pair}")

"""Kinds: the typed credentials, and their way into a sealed document and back."""

import json
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

from worker_app import errors
from worker_app.secret import Secret


@dataclass(frozen=True, slots=True)
class GitHubToken:
    """A personal access token, classic or fine-grained."""

    provider: ClassVar[str] = "github"
    kind: ClassVar[str] = "github_token"
    host: str
    token: Secret


@dataclass(frozen=True, slots=True)
class GitHubApp:
    """A GitHub App in one installation; `private_key` is PEM, RSA."""

    provider: ClassVar[str] = "github"
    kind: ClassVar[str] = "github_app"
    host: str
    app_id: int
    installation_id: int
    private_key: Secret


@dataclass(frozen=True, slots=True)
class GitLabToken:
    """A personal, project or group access token."""

    provider: ClassVar[str] = "gitlab"
    kind: ClassVar[str] = "gitlab_token"
    host: str
    token: Secret


@dataclass(frozen=True, slots=True)
class JiraToken:
    """An API token of Jira Cloud, which counts only together with the address of the account that made it."""

    provider: ClassVar[str] = "jira"
    kind: ClassVar[str] = "jira_token"
    host: str
    email: str
    token: Secret


@dataclass(frozen=True, slots=True)
class JiraAccessToken:
    """A personal access token of Jira Data Center, which counts alone."""

    provider: ClassVar[str] = "jira"
    kind: ClassVar[str] = "jira_access_token"
    host: str
    token: Secret


@dataclass(frozen=True, slots=True)
class LinearKey:
    """A personal API key of Linear."""

    provider: ClassVar[str] = "linear"
    kind: ClassVar[str] = "linear_key"
    host: str
    key: Secret


@dataclass(frozen=True, slots=True)
class GitHttps:
    """What git signs in with over HTTPS; `password` may be a token."""

    provider: ClassVar[str] = "git"
    kind: ClassVar[str] = "git_https"
    host: str
    user: str
    password: Secret


@dataclass(frozen=True, slots=True)
class GitSsh:
    """What git signs in with over SSH; `known_hosts` has the lines of that file by which the host proves itself."""

    provider: ClassVar[str] = "git"
    kind: ClassVar[str] = "git_ssh"
    host: str
    private_key: Secret
    known_hosts: str


Credential = GitHubToken | GitHubApp | GitLabToken | JiraToken | JiraAccessToken | LinearKey | GitHttps | GitSsh
_KINDS: dict[str, type[Credential]] = {made.kind: made for made in get_args(Credential)}


def to_document(credential: Credential) -> dict[str, object]:
    """What is sealed of a credential: its kind and fields, secrets still closed; the row binds the host."""
    own = {item.name: getattr(credential, item.name) for item in fields(credential) if item.name != "host"}
    return {"kind": credential.kind, **own}


def from_document(text: bytes, host: str) -> Credential:
    """The credential in an opened row. Raises CredentialMalformed, which names fields of ours and echoes nothing."""
    document = _parsed(text)
    kind = document.pop("kind", None)
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise errors.CredentialMalformed(
            f"the credential for {host} is of no kind that this program knows; deploy the program that wrote it"
        )
    expected = {item.name: item.type for item in fields(made) if item.name != "host"}
    faults = [f"{name} is missing or broken" for name, kind in expected.items() if not _fits(document.get(name), kind)]
    if unknown := len(document.keys() - expected.keys()):
        faults.append(f"{unknown} more fields than it has")
    if faults:
        raise errors.CredentialMalformed(f"the {made.kind} for {host} is malformed: {'; '.join(faults)}; add it anew")
    values: dict[str, Any] = {
        name: Secret(document[name]) if kind is Secret else document[name] for name, kind in expected.items()
    }
    return made(host=host, **values)


def secret_of(credential: Credential) -> Secret:
    """The one secret that every kind of credential has."""
    (secret,) = (value for item in fields(credential) if isinstance(value := getattr(credential, item.name), Secret))
    return secret


def _fits(value: object, kind: object) -> bool:
    if kind in (Secret, str):
        return isinstance(value, str) and value != ""
    return type(value) is int and value > 0


def _parsed(text: bytes) -> dict[str, Any]:
    """The JSON object in `text`, empty where it is none; the parser's own error would carry the text along."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}

"""Which kind of credential the options ask for: what goes together, for which host, and which secret is still to come."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from worker_app import errors
from worker_app.cli import credential_input
from worker_app.credentials import given, given_keys, known_hosts
from worker_app.credentials.kinds import (
    Credential,
    GitHttps,
    GitHubApp,
    GitHubToken,
    GitLabToken,
    GitSsh,
    JiraAccessToken,
    JiraToken,
    LinearKey,
)

MOST_ID = 2**63 - 1
MOST_KNOWN_HOSTS_BYTES = 4 * 2**20  # a file of many thousand hosts
USUAL_HOSTS = {"github": "github.com", "gitlab": "gitlab.com", "linear": "linear.app"}
CLOUD = ".atlassian.net"  # how the hosts of Jira Cloud end


@dataclass(frozen=True, slots=True)
class Details:
    """What is given beside the secret; None: it is not given. An option has the name of its field."""

    app_id: int | None = None
    installation_id: int | None = None
    email: str | None = None
    user: str | None = None
    known_hosts: Path | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A secret that is still to be given, and what it is made into."""

    called: str  # token, key, password or private key
    made: Callable[[str], Credential]  # raises UsageError for a secret that it cannot be
    has_lines: bool = False


OWN = {
    "github": {"app_id", "installation_id"},
    "gitlab": set[str](),
    "jira": {"email"},
    "linear": set[str](),
    "git": {"user", "known_hosts"},
}
PROVIDERS = tuple(OWN)


def host_of(provider: str, host: str | None) -> str:
    """The one host that the secret is for. Raises UsageError where none is given and the provider has no usual one."""
    if host is None and provider not in USUAL_HOSTS:
        raise errors.UsageError(
            f"--host is missing: {provider} has no host that is the usual one; write it as people see it"
        )
    return given.host_of(host if host is not None else USUAL_HOSTS[provider])


def wanted(provider: str, host: str, details: Details) -> Wanted:
    """The secret that these options ask for. Raises UsageError for options that do not go together."""
    _check_options(provider, details)
    match provider:
        case "github":
            return _github(host, details)
        case "gitlab":
            return Wanted("token", lambda text: GitLabToken(host, given.token_of(text, provider)))
        case "jira":
            return _jira(host, details.email)
        case "linear":
            return Wanted("key", lambda text: LinearKey(host, given.token_of(text, "linear")))
        case _:
            return _git(host, details)


def _check_options(provider: str, details: Details) -> None:
    for item in fields(details):
        if getattr(details, item.name) is not None and item.name not in OWN[provider]:
            (owner,) = (name for name, own in OWN.items() if item.name in own)
            option = f"--{item.name.replace('_', '-')}"
            raise errors.UsageError(f"{option} is for {owner}, and --provider is {provider}: leave one of them out")


def _github(host: str, details: Details) -> Wanted:
    app_id, installation_id = details.app_id, details.installation_id
    if not all(0 < (number or 1) <= MOST_ID for number in (app_id, installation_id)):
        raise errors.UsageError(
            f"--app-id and --installation-id are numbers from 1 to {MOST_ID}, as the App's settings show them"
        )
    if (app_id is None) != (installation_id is None):
        raise errors.UsageError("--app-id and --installation-id go together: give both for an App, none for a token")
    if app_id is None or installation_id is None:
        return Wanted("token", lambda text: GitHubToken(host, given.token_of(text, "github")))
    return Wanted(
        "private key",
        lambda text: GitHubApp(host, app_id, installation_id, given_keys.app_key_of(text)),
        has_lines=True,
    )


def _jira(host: str, email: str | None) -> Wanted:
    if email is not None:
        address = given.email_of(email)
        return Wanted("token", lambda text: JiraToken(host, address, given.token_of(text, "jira")))
    if host.endswith(CLOUD):
        raise errors.UsageError(
            "--email is missing: Jira Cloud takes a token only with the address of the account that made it"
        )
    return Wanted("token", lambda text: JiraAccessToken(host, given.token_of(text, "jira")))


def _git(host: str, details: Details) -> Wanted:
    if (details.user is None) == (details.known_hosts is None):
        raise errors.UsageError(
            "git signs in over HTTPS or over SSH: give --user NAME for a password or token, or --known-hosts FILE for a private "
            "key, and not both"
        )
    if details.user is not None:
        user = given.user_of(details.user)
        return Wanted("password", lambda text: GitHttps(host, user, given.password_of(text)))
    assert details.known_hosts is not None
    if ":" in host:
        raise errors.UsageError(f"host is {host!r}: over SSH write it without a port, which the source's address names")
    text = credential_input.file_text(details.known_hosts, "--known-hosts", MOST_KNOWN_HOSTS_BYTES)
    lines = known_hosts.lines_for(host, text)
    return Wanted("private key", lambda key: GitSsh(host, given_keys.ssh_key_of(key), lines), has_lines=True)

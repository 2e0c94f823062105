from pathlib import Path

import pytest

from tests import private_keys
from worker_app import errors
from worker_app.cli import credential_options
from worker_app.cli.credential_options import Details
from worker_app.credentials.kinds import (
    Credential,
    GitHttps,
    GitHubApp,
    GitHubToken,
    GitLabToken,
    JiraAccessToken,
    JiraToken,
    LinearKey,
)
from worker_app.secret import Secret

SECRET = "canary8f3a0123"
PEM = private_keys.pem(private_keys.rsa_key())
FILE = Path("/dev/null")


@pytest.mark.parametrize(
    ("provider", "host", "details", "secret", "expected"),
    [
        ("github", "github.com", Details(), SECRET, GitHubToken("github.com", Secret(SECRET))),
        ("github", "ghe.acme.com", Details(7, 42), PEM, GitHubApp("ghe.acme.com", 7, 42, Secret(PEM.strip()))),
        ("gitlab", "gitlab.com", Details(), SECRET, GitLabToken("gitlab.com", Secret(SECRET))),
        (
            "jira",
            "acme.atlassian.net",
            Details(email="ada@acme.com"),
            SECRET,
            JiraToken("acme.atlassian.net", "ada@acme.com", Secret(SECRET)),
        ),
        ("jira", "jira.acme.com", Details(), SECRET, JiraAccessToken("jira.acme.com", Secret(SECRET))),
        ("linear", "linear.app", Details(), SECRET, LinearKey("linear.app", Secret(SECRET))),
        ("git", "git.acme.com:8443", Details(user="me"), SECRET, GitHttps("git.acme.com:8443", "me", Secret(SECRET))),
    ],
)
def test_options_make_a_kind(provider: str, host: str, details: Details, secret: str, expected: Credential) -> None:
    assert credential_options.wanted(provider, host, details).made(secret) == expected


@pytest.mark.parametrize(
    ("provider", "details", "words"),
    [
        ("gitlab", Details(app_id=7), "--app-id is for github, and --provider is gitlab"),
        ("linear", Details(email="a@b.c"), "--email is for jira, and --provider is linear"),
        ("github", Details(user="me"), "--user is for git, and --provider is github"),
        ("jira", Details(known_hosts=FILE), "--known-hosts is for git, and --provider is jira"),
        ("github", Details(app_id=7), "--app-id and --installation-id go together"),
        ("github", Details(2**63, 1), "are numbers from 1 to"),
        ("jira", Details(), "--email is missing: Jira Cloud takes a token only with"),
        ("jira", Details(email="ada"), "--email is 'ada'"),
        ("git", Details(), "give --user NAME for a password or token, or --known-hosts FILE"),
        ("git", Details(user="me", known_hosts=FILE), "and not both"),
        ("git", Details(user="a:b"), "--user is 'a:b'"),
        ("git", Details(known_hosts=FILE), "has no key of acme.atlassian.net"),
        ("git", Details(known_hosts=Path("/nowhere")), "--known-hosts names cannot be read: No such file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(provider: str, details: Details, words: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        credential_options.wanted(provider, "acme.atlassian.net", details)
    assert words in str(caught.value)


def test_ssh_host_has_no_port() -> None:
    with pytest.raises(errors.UsageError, match="over SSH write it without a port"):
        credential_options.wanted("git", "git.acme.com:2222", Details(known_hosts=FILE))


def test_usual_host_is_taken_where_there_is_one() -> None:
    hosts = [credential_options.host_of(provider, None) for provider in ("github", "gitlab", "linear")]
    assert hosts == ["github.com", "gitlab.com", "linear.app"]
    assert credential_options.host_of("linear", "Linear.example") == "linear.example"
    for provider in ("jira", "git"):
        with pytest.raises(errors.UsageError, match=f"--host is missing: {provider} has no host"):
            credential_options.host_of(provider, None)
    with pytest.raises(errors.UsageError, match="host is ''"):
        credential_options.host_of("github", "")

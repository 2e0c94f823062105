"""`dev-hops credentials check` on real stores, with a provider of the test on loopback; what it echoes is never shown."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from tests.git_servers import HttpHost, KeyPair, ssh_host
from tests.integration.providers.certificates import own_certificate
from tests.integration.providers.identity_asking import echoes, says
from tests.processes import DEADLINE, DEV_HOPS
from tests.repositories import Repository
from tests.seed import Seed, column, seed
from tests.web_server import Seen, WebServer, Written
from worker_app import errors, key_ring
from worker_app.cli import credentials_check
from worker_app.cli.main import cli
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.providers.identity import Identity
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
CANARY = "canary8f3a0123456789"
GITHUB = ("--provider", "github")
GOOD = says({"login": "ada"}, headers={"X-OAuth-Scopes": "repo, read:org"})
NAMES = {
    "credential", "provider", "host", "kind", "version", "account", "scopes", "missing", "expires_at", "notes", "ok",
    "reason",
}  # fmt: skip


@pytest.fixture
def made(postgres: Postgres, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Seed:
    """An organisation, and an environment that names its stores and a key ring."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("CREDENTIAL_KEYS", key_ring.generate())
    return seed(postgres)


@contextmanager
def provider(
    monkeypatch: pytest.MonkeyPatch, respond: Callable[[Seen], Written], host: str = "github.com"
) -> Iterator[WebServer]:
    with WebServer(respond).running() as server:
        monkeypatch.setenv("PROVIDER_API_URLS", f"{host}={server.url}")
        yield server


def add(*arguments: str, secret: str = CANARY) -> None:
    result = CliRunner().invoke(cli, ["credentials", "add", "main", *arguments], input=secret)
    assert result.exception is None, result.exception


def checked(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["credentials", "check", *arguments])
    assert CANARY not in result.output + repr(result.exception)
    return result


def json_of(code: int, *arguments: str) -> dict[str, Any]:
    result = checked(*arguments, "--json")
    assert result.exit_code == code, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert set(document) == NAMES
    return document


def test_good_credential_is_named_and_ends_with_0(made: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    add(*GITHUB)
    with provider(monkeypatch, GOOD) as github:
        found = json_of(0, "main")
        assert [seen.target for seen in github.seen] == ["/user"]
        shown = checked("main").stdout
    assert found == {
        "credential": "main", "provider": "github", "host": "github.com", "kind": "github_token", "version": 1,
        "account": "ada", "scopes": ["read:org", "repo"], "missing": [], "expires_at": None, "notes": [], "ok": True,
        "reason": None,
    }  # fmt: skip
    assert "ada" in shown
    assert "read:org, repo" in shown
    assert shown.endswith("it is good\n")


def test_missing_scopes_are_named_and_end_with_1(made: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    add(*GITHUB)
    with provider(monkeypatch, says({"login": "ada"}, headers={"X-OAuth-Scopes": "gist"})):
        found = json_of(1, "main")
        shown = checked("main")
    assert (found["account"], found["missing"], found["ok"]) == ("ada", ["repo", "read:org"], False)
    assert "it lacks repo, read:org" in found["reason"]
    assert "credentials add main --provider github --host github.com --replace" in found["reason"]
    assert shown.exit_code == 1
    assert "missing:    repo, read:org" in shown.stdout


def test_newest_version_is_checked(made: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    add(*GITHUB)
    add(*GITHUB, "--replace", secret="another-0123456789")
    with provider(monkeypatch, GOOD) as github:
        assert json_of(0, "main")["version"] == 2
        (seen,) = github.seen
        assert seen.headers["Authorization"] == "Bearer another-0123456789"


@pytest.mark.parametrize(
    ("arguments", "host"),
    [
        (GITHUB, "github.com"),
        (("--provider", "gitlab"), "gitlab.com"),
        (("--provider", "jira", "--host", "acme.atlassian.net", "--email", "ada@acme.com"), "acme.atlassian.net"),
        (("--provider", "jira", "--host", "jira.acme.com"), "jira.acme.com"),
        (("--provider", "linear"), "linear.app"),
    ],
)
def test_refusal_ends_with_1_and_echoes_nothing(
    made: Seed, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], host: str
) -> None:
    add(*arguments)
    with provider(monkeypatch, echoes, host) as server:
        found = json_of(1, "main")
        assert CANARY in repr(server.seen[0].headers.items()) or "Basic " in server.seen[0].headers["Authorization"]
        assert checked("main").exit_code == 1
    assert (found["ok"], found["account"], found["scopes"]) == (False, None, None)
    assert found["host"] == host
    assert "401" in found["reason"]


def test_page_for_people_in_place_of_json_ends_with_75_and_echoes_nothing(
    made: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("--provider", "jira", "--host", "jira.acme.com")

    def respond(seen: Seen) -> Written:
        return Written(200, f"<p>{seen.headers['Authorization']}</p>".encode(), {"Content-Type": "text/html"})

    with provider(monkeypatch, respond, "jira.acme.com"):
        found = json_of(75, "main")
    assert "with what is no JSON" in found["reason"]


@pytest.mark.parametrize("status", [500, 503])
def test_provider_that_is_away_ends_with_75(made: Seed, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    add(*GITHUB)
    with provider(monkeypatch, says({"message": CANARY}, status)):
        found = json_of(75, "main")
    assert (found["ok"], found["account"]) == (False, None)


def test_provider_that_cannot_be_reached_ends_with_75(made: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    add(*GITHUB)
    with provider(monkeypatch, GOOD):
        pass
    assert "cannot be talked to: Connection refused" in json_of(75, "main")["reason"]


def test_closed_gate_ends_with_75_says_until_when_and_asks_nobody(
    made: Seed, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(*GITHUB)
    with ExitStack() as stack:
        github = stack.enter_context(provider(monkeypatch, GOOD))
        gate = Gate(redis_client)
        key = GateKey("github", str(made.org.id), "github.com")
        gate.backoff(key, 3600.0, reason="secondary", detail="a word of theirs")
        found = json_of(75, "main")
        assert github.seen == []
    assert "the gate of github at github.com is closed until 20" in found["reason"]
    assert "a word of theirs" not in found["reason"]


def test_unknown_credential_and_source_are_wrong_usage(made: Seed) -> None:
    for arguments, words in (
        (["none"], "there is no credential 'none'"),
        (["main", "--source", str(made.source.id)], "--source is for credentials of git"),
    ):
        if arguments[0] == "main":
            add(*GITHUB)
        result = checked(*arguments)
        assert isinstance(result.exception, errors.UsageError)
        assert words in str(result.exception)


def test_row_that_does_not_open_ends_with_1_and_asks_nobody(
    made: Seed, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(*GITHUB)
    column(postgres, "UPDATE org_credentials SET ciphertext = wrapped_dek RETURNING id")
    with provider(monkeypatch, GOOD) as github:
        done = subprocess.run(
            [DEV_HOPS, "credentials", "check", "main", "--json"], capture_output=True, timeout=DEADLINE, check=False
        )
        assert github.seen == []
    assert done.returncode == 1
    assert "does not open" in json.loads(done.stdout)["reason"]
    assert b"Traceback" not in done.stderr


@contextmanager
def git_host(monkeypatch: pytest.MonkeyPatch, folder: Path, password: str) -> Iterator[str]:
    """A host of git over HTTPS with two repositories; gives what people call it."""
    for name in ("one", "two"):
        Repository.create(folder / "served" / "acme" / f"{name}.git", is_bare=True).commit({b"a": b"1\n"})
    host, (certificate, authority) = HttpHost(folder / "served", {"me": password}), own_certificate(folder)
    host.is_open.set()
    monkeypatch.setenv("PROVIDER_CA_BUNDLE", str(authority))
    with WebServer(host.respond, certificate).running() as server:
        yield f"127.0.0.1:{server.port}"


def test_git_is_asked_about_a_source_that_names_the_credential(
    made: Seed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with git_host(monkeypatch, tmp_path, CANARY) as host:
        add("--provider", "git", "--host", host, "--user", "me")
        refused = checked("main")
        assert isinstance(refused.exception, errors.UsageError)
        assert "no source names credential 'main'" in str(refused.exception)
        for name, credential in (("one", ["--credential", "main"]), ("two", [])):
            added = CliRunner().invoke(cli, ["sources", "add", f"https://{host}/acme/{name}.git", *credential])
            assert added.exception is None, added.exception
        for name, chosen in (("one", []), ("two", ["--source", f"https://{host}/acme/two.git"])):
            found = json_of(0, "main", *chosen)
            assert (found["account"], found["scopes"], found["missing"]) == ("me", None, [])
            assert f"/acme/{name}.git, which has 1 branches" in found["notes"][0]
        elsewhere = checked("main", "--source", str(made.source.id))
        assert f"and the credential is for {host}" in str(elsewhere.exception)


def test_git_is_asked_over_ssh_by_a_key_and_known_hosts_that_were_added(made: Seed, tmp_path: Path) -> None:
    Repository.create(tmp_path / "served" / "acme" / "one.git", is_bare=True).commit({b"a": b"1\n"})
    key, known_hosts = KeyPair.generate(), tmp_path / "known_hosts"
    with ssh_host(tmp_path / "served", tmp_path, key) as host:
        known_hosts.write_text(f"github.com {KeyPair.generate().public}\n{host.known_hosts}")
        over_ssh = ("--provider", "git", "--host", "127.0.0.1", "--known-hosts", str(known_hosts))
        add(*over_ssh, secret=key.private)
        added = CliRunner().invoke(cli, ["sources", "add", host.url("acme/one.git"), "--credential", "main"])
        assert added.exception is None, added.exception
        assert "which has 1 branches" in json_of(0, "main")["notes"][0]
        add(*over_ssh, "--replace", secret=KeyPair.generate().private)
        assert json_of(1, "main")["ok"] is False


def test_git_that_does_not_take_the_credential_ends_with_1(
    made: Seed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with git_host(monkeypatch, tmp_path, "of somebody else") as host:
        add("--provider", "git", "--host", host, "--user", "me")
        added = CliRunner().invoke(cli, ["sources", "add", f"https://{host}/acme/one.git", "--credential", "main"])
        assert added.exception is None, added.exception
        assert json_of(1, "main")["ok"] is False


def test_every_field_of_an_identity_is_shown() -> None:
    assert set(Identity.__slots__) <= set(credentials_check.Checked.__slots__)

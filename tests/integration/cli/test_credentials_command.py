"""`dev-hops credentials` as people and programs use it, on a real Postgres: the secret goes into its row and nowhere else."""

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests import private_keys
from tests.processes import DEADLINE, DEV_HOPS, Service
from tests.seed import Seed, column, seed
from worker_app import errors, key_ring
from worker_app.cli.main import cli
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
from worker_app.credentials.resolver import CredentialResolver
from worker_app.secret import Secret
from worker_app.store import sources
from worker_app.store.postgres import Postgres
from worker_app.vault import RingKeys, Vault

pytestmark = pytest.mark.integration
CANARY = "ghp_canary8f3a"
PLAIN = "canary8f3a0123456789"  # of no provider's shape
RING = key_ring.generate()
GITHUB = ("--provider", "github")
JIRA = ("--provider", "jira", "--host", "acme.atlassian.net")
GIT = ("--provider", "git", "--host", "git.acme.com")


@pytest.fixture
def made(postgres: Postgres, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Seed:
    """An organisation, and an environment that names its database and a key ring."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("CREDENTIAL_KEYS", RING)
    return seed(postgres)


def invoked(*arguments: str, given: str | bytes | None = CANARY, group: str = "credentials") -> Result:
    result = CliRunner().invoke(cli, [group, *arguments], input=given)
    assert CANARY not in result.output + repr(result.exception)
    return result


def json_of(*arguments: str, given: str | bytes | None = CANARY, group: str = "credentials") -> Any:
    result = invoked(*arguments, "--json", given=given, group=group)
    assert result.exception is None, result.exception
    return json.loads(result.stdout)


def refusal(*arguments: str, given: str | bytes | None = CANARY, group: str = "credentials") -> str:
    result = invoked(*arguments, given=given, group=group)
    assert isinstance(result.exception, errors.UsageError), result.output
    return str(result.exception)


def resolved(postgres: Postgres, found: dict[str, str]) -> Credential:
    opener = Vault(RingKeys(key_ring.parse(RING)))
    return CredentialResolver(postgres, opener).resolve(UUID(found["org_id"]), UUID(found["id"]))


def test_token_is_added_from_standard_input_and_resolved(made: Seed, postgres: Postgres) -> None:
    added = json_of("add", "main", *GITHUB, given=f"{CANARY}\n")
    assert (added["name"], added["provider"], added["host"], added["kind"]) == (
        "main", "github", "github.com", "github_token",
    )  # fmt: skip
    assert (added["org"], added["version"], added["key_id"], added["state"]) == ("acme", 1, "k1", "active")
    assert added["last_used_at"] is None
    assert resolved(postgres, added) == GitHubToken("github.com", Secret(CANARY))


def test_token_is_added_from_a_file_or_a_variable(
    made: Seed, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(f"{CANARY}\n")
    monkeypatch.setenv("OUR_TOKEN", CANARY)
    for name, how in (("file", ("--file", str(tmp_path / "token"))), ("env", ("--env", "OUR_TOKEN"))):
        added = json_of("add", name, *GITHUB, *how, given=None)
        assert resolved(postgres, added) == GitHubToken("github.com", Secret(CANARY))


def test_app_is_added_with_its_private_key(made: Seed, postgres: Postgres) -> None:
    pem = private_keys.pem(private_keys.rsa_key())
    added = json_of(
        "add", "app", *GITHUB, "--host", "GHE.acme.com", "--app-id", "7", "--installation-id", "42", given=pem
    )
    assert (added["kind"], added["host"]) == ("github_app", "ghe.acme.com")
    assert resolved(postgres, added) == GitHubApp("ghe.acme.com", 7, 42, Secret(pem.strip()))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--provider", "gitlab"], GitLabToken("gitlab.com", Secret(PLAIN))),
        ([*JIRA, "--email", "ada@acme.com"], JiraToken("acme.atlassian.net", "ada@acme.com", Secret(PLAIN))),
        (["--provider", "jira", "--host", "jira.acme.com"], JiraAccessToken("jira.acme.com", Secret(PLAIN))),
        (["--provider", "linear"], LinearKey("linear.app", Secret(PLAIN))),
        ([*GIT, "--user", "deploy"], GitHttps("git.acme.com", "deploy", Secret(PLAIN))),
    ],
)
def test_credential_of_every_provider_is_added_and_resolved(
    made: Seed, postgres: Postgres, arguments: list[str], expected: Credential
) -> None:
    added = json_of("add", "main", *arguments, given=f"{PLAIN}\n")
    assert (added["provider"], added["host"], added["kind"]) == (expected.provider, expected.host, expected.kind)
    assert resolved(postgres, added) == expected
    assert PLAIN not in json.dumps(added)


def test_ssh_key_is_added_with_the_keys_of_its_host_alone(made: Seed, postgres: Postgres, tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    (tmp_path / "known_hosts").write_text(f"other.acme.com {public}\ngit.acme.com {public}\n")
    added = json_of("add", "main", *GIT, "--known-hosts", str(tmp_path / "known_hosts"), given=text)
    assert resolved(postgres, added) == GitSsh("git.acme.com", Secret(text), f"git.acme.com {public}\n")


def test_old_secret_is_erased_at_once_where_that_is_asked_for(made: Seed, postgres: Postgres) -> None:
    json_of("add", "main", *GITHUB)
    json_of("add", "main", *GITHUB, "--replace")
    json_of("add", "main", *GITHUB, "--replace", "--revoke-old")
    left = column(postgres, "SELECT state || ' ' || (length(ciphertext) > 0) FROM org_credentials ORDER BY version")
    assert left == ["revoked false", "revoked false", "active true"]


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (["main", *GITHUB], "", "the secret is empty"),
        (["main", *GITHUB], f"{CANARY}\n{CANARY}", "the token holds a space, a quote, a line break"),
        (["main", *GITHUB], b"\xff" + CANARY.encode(), "the token holds a space, a quote, a line break"),
        (["main", *GITHUB], CANARY * 10_000, "more than 65536 bytes"),
        (["main", CANARY[4:], *GITHUB], CANARY, "there is an argument too many"),
        ([" main", *GITHUB], CANARY, "no space around it"),
        (["main", *GITHUB, "--app-id", "7"], CANARY, "--app-id and --installation-id go together"),
        (["main", *GITHUB, "--app-id", "7", "--installation-id", "4"], CANARY, "is no RSA key in PEM"),
        (["main", *GITHUB, "--env", CANARY], None, "--env names a variable that is not set"),
        (["main", *GITHUB, "--file", CANARY], None, "the file that --file names cannot be read: No such file"),
        (["main", *GITHUB, "--file", "/dev/null", "--env", "X"], None, "--file and --env are both given"),
        (["main", *GITHUB, "--host", "https://github.com"], CANARY, "without scheme, path, user and final dot"),
        (["main", *GITHUB, "--org", "orbit"], CANARY, "there is no organisation 'orbit'"),
        (["main", *GITHUB, "--replace"], CANARY, "there is no credential 'main' for github at github.com to replace"),
        ([" ", *GITHUB], CANARY, "give a name of 1 to 100 printable characters"),
        (["main", *GITHUB, "--revoke-old"], CANARY, "--revoke-old goes with --replace"),
        (["main", "--provider", "gitlab"], CANARY, "the token begins as those of github do, and --provider is gitlab"),
        (["main", "--provider", "gitlab", "--app-id", "7"], CANARY, "--app-id is for github"),
        (["main", "--provider", "jira"], CANARY, "--host is missing: jira has no host that is the usual one"),
        (["main", *JIRA], CANARY, "--email is missing: Jira Cloud"),
        (["main", *GIT], CANARY, "give --user NAME for a password or token, or --known-hosts FILE"),
        (["main", *GIT, "--known-hosts", "/dev/null"], CANARY, "with `ssh-keyscan git.acme.com`"),
        (["main", *GIT, "--user", "me"], CANARY + "\n" + CANARY, "the password holds a line break"),
        (["main", *GITHUB], CANARY * 100, "and none has less than 8 or more than 1000"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy_and_echoes_nothing(
    made: Seed, postgres: Postgres, arguments: list[str], given: str | bytes | None, words: str
) -> None:
    assert words in refusal("add", *arguments, given=given)
    assert column(postgres, "SELECT name FROM org_credentials") == []


def test_secret_is_no_argument(made: Seed) -> None:
    result = invoked("add", "main", CANARY, *GITHUB)
    assert isinstance(result.exception, errors.UsageError)
    assert CANARY not in result.output + str(result.exception)
    group = cli.every()["credentials"]
    assert isinstance(group, click.Group)
    named = {name for command in group.commands.values() for item in command.params for name in item.opts}
    assert named & {"--token", "--secret", "--password", "--private-key"} == set()


def test_missing_key_ring_is_asked_for_before_the_secret(made: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIAL_KEYS")
    result = invoked("add", "main", *GITHUB)
    assert isinstance(result.exception, errors.SettingsError)
    assert 'echo "k1:$(head -c 32 /dev/urandom | base64)"' in str(result.exception)


def test_command_that_makes_a_key_makes_one(made: Seed) -> None:
    done = subprocess.run(
        ["sh", "-c", key_ring.MAKE_A_KEY], capture_output=True, text=True, check=True, timeout=DEADLINE
    )
    assert key_ring.parse(done.stdout).writes == "k1"


def test_list_shows_everything_but_the_secret(made: Seed, postgres: Postgres) -> None:
    assert "no credential yet" in invoked("list").stdout
    json_of("add", "main", *GITHUB)
    with postgres.transaction() as tx:
        org = sources.add_org(tx, "orbit", "UTC")
    json_of("add", "main", *GITHUB, "--org", "orbit")
    assert [item["org"] for item in json_of("list")] == ["acme", "orbit"]
    (only,) = json_of("list", "--org", "orbit")
    assert only["org_id"] == str(org.id)
    table = invoked("list").stdout
    assert all(word in table for word in ("main", "acme", "orbit", "github.com", "github_token", "k1"))


def test_new_secret_replaces_the_old_one_under_the_same_id(made: Seed, postgres: Postgres) -> None:
    first = json_of("add", "main", *GITHUB)
    taken = invoked("add", "main", *GITHUB)
    assert isinstance(taken.exception, errors.Conflict)
    second = json_of("add", "main", *GITHUB, "--replace", given="ghp_newer1")
    assert (second["id"], second["version"]) == (first["id"], 2)
    assert resolved(postgres, second) == GitHubToken("github.com", Secret("ghp_newer1"))
    assert [item["version"] for item in json_of("list")] == [2]


def test_removed_credential_is_gone_at_once(made: Seed, postgres: Postgres) -> None:
    added = json_of("add", "main", *GITHUB)
    assert json_of("remove", "main")["id"] == added["id"]
    assert json_of("list") == []
    with pytest.raises(errors.CredentialRevoked):
        resolved(postgres, added)
    assert "there is no credential 'main'" in refusal("remove", "main")


def test_credential_that_two_organisations_call_alike_is_named_by_its_id(made: Seed, postgres: Postgres) -> None:
    with postgres.transaction() as tx:
        sources.add_org(tx, "orbit", "UTC")
    ids = [json_of("add", "main", *GITHUB, "--org", name)["id"] for name in ("acme", "orbit")]
    assert "2 credentials are called 'main'" in refusal("remove", "main")
    assert json_of("remove", "main", "--org", "orbit")["id"] == ids[1]
    assert json_of("remove", ids[0])["org"] == "acme"


def test_source_is_added_with_a_credential_for_its_host(made: Seed, postgres: Postgres) -> None:
    held = json_of("add", "deploy", "--provider", "git", "--host", "git.example.org", "--user", "me")
    for other in ("github.com", "git.example.com"):
        address = f"https://{other}/acme/app.git"
        words = refusal("add", address, "--credential", "deploy", group="sources")
        assert (
            f"credential 'deploy' is for git.example.org, and is sent nowhere else: what is to be read is on {other}"
            in words
        )
    added = json_of("add", "https://git.example.org/acme/app.git", "--credential", "deploy", group="sources")
    assert added["credential_id"] == held["id"]
    with postgres.transaction() as tx:
        kept = sources.source(tx, added["id"])
        assert kept.credential_id == UUID(held["id"])
        assert sources.set_credential(tx, kept, None).credential_id is None
        assert sources.source(tx, added["id"]).credential_id is None
        sources.set_credential(tx, kept, UUID(held["id"]))
    removed = invoked("remove", "deploy")
    assert "1 sources name it: their syncs fail until a credential 'deploy'" in removed.stderr


def test_token_is_in_no_column_but_sealed(made: Seed, postgres: Postgres) -> None:
    json_of("add", "main", *GITHUB)
    names = column(postgres, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    dump = "".join(str(row) for name in names for row in column(postgres, f'SELECT CAST(t AS text) FROM "{name}" t'))
    assert "main" in dump
    assert CANARY not in dump
    assert CANARY.encode().hex() not in dump


def test_terminal_asks_without_an_echo(made: Seed, database_url: str, redis_url: str, tmp_path: Path) -> None:
    environment = Service(tmp_path, database_url, redis_url).environment("cli", CREDENTIAL_KEYS=RING)
    ours, theirs = os.openpty()
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        process = subprocess.Popen(
            [DEV_HOPS, "credentials", "add", "main", *GITHUB],
            stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            asked = b""
            while b"token: " not in asked:
                asked += terminal.read(1)
            terminal.write(f"{CANARY}\n".encode())
            said, _ = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
            process.wait(DEADLINE)
        assert process.returncode == 0
        assert b"credential main for github.com added" in said
        os.set_blocking(terminal.fileno(), False)
        with contextlib.suppress(OSError):  # the other side has hung up
            asked += terminal.read() or b""
        assert CANARY.encode() not in asked + said


def test_private_key_is_not_asked_for_on_a_terminal(
    made: Seed, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    environment = Service(tmp_path, database_url, redis_url).environment("cli", CREDENTIAL_KEYS=RING)
    ours, theirs = os.openpty()
    command = [DEV_HOPS, "credentials", "add", "app", *GITHUB, "--app-id", "7", "--installation-id", "4"]
    try:
        done = subprocess.run(
            command, stdin=theirs, capture_output=True, env=environment, timeout=DEADLINE, start_new_session=True
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.returncode == 2
    assert b"a private key has many lines" in done.stderr

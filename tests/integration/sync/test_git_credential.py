"""A git source with a credential, from the command line to its commits: a real https git server, a real store."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.git_servers import HttpHost
from tests.integration.providers.certificates import own_certificate
from tests.repositories import Repository
from tests.seed import Seed, column, manual_run
from tests.web_server import WebServer
from worker_app import errors, key_ring, runtime, settings
from worker_app.cli.main import cli
from worker_app.store import sources
from worker_app.store.postgres import Postgres
from worker_app.sync import batch, finish, plan

pytestmark = pytest.mark.integration
PASSWORD = "sesame-8f3a0123456789"


@pytest.fixture
def host(tmp_path: Path) -> HttpHost:
    made = HttpHost(tmp_path / "served", {"reader": PASSWORD})
    made.is_open.set()
    return made


@pytest.fixture
def server(
    tmp_path: Path,
    host: HttpHost,
    postgres: Postgres,
    database_url: str,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[WebServer]:
    """The git server, an organisation, and an environment that knows both."""
    both, alone = own_certificate(tmp_path)
    for name, value in {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "CREDENTIAL_KEYS": key_ring.generate(),
        "PROVIDER_CA_BUNDLE": str(alone),
        "GIT_MIRRORS_DIR": str(tmp_path / "mirrors"),
        "DEV_HOPS_DIR": "/nonexistent",
    }.items():
        monkeypatch.setenv(name, value)
    with postgres.transaction() as tx:
        sources.add_org(tx, "acme", "UTC")
    with WebServer(host.respond, both).running() as running:
        yield running


@pytest.fixture
def opened(server: WebServer) -> Iterator[runtime.Runtime]:
    made = runtime.build(settings.load(), role="worker")
    yield made
    made.close()


def told(*arguments: str, given: str = PASSWORD) -> Any:
    done = CliRunner().invoke(cli, [*arguments, "--json"], input=given)
    if done.exception is not None:
        raise done.exception
    assert PASSWORD not in done.output
    return json.loads(done.stdout)


def add_credential(server: WebServer, given: str = PASSWORD) -> None:
    place = ("--provider", "git", "--host", f"127.0.0.1:{server.port}")
    told("credentials", "add", "main", *place, "--user", "reader", given=given)


def planned(postgres: Postgres, server: WebServer) -> tuple[Any, Any]:
    added = told("sources", "add", f"{server.url}/acme/api.git", "--credential", "main")
    with postgres.transaction() as tx:
        made = Seed(sources.org(tx, "acme"), sources.source(tx, added["id"]))
    run_id = manual_run(postgres, made)
    assert plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=100) == 1
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches WHERE run_id = :id", id=run_id)
    return run_id, batch_id


def worked(opened: runtime.Runtime, run_id: Any, batch_id: Any) -> str:
    batch.run(
        opened.postgres, batch_id, reader_of=opened.reader, bounds=opened.bounds, is_draining=opened.draining.is_set
    )
    state = finish.run(opened.postgres, run_id, lease_seconds=60)
    assert state is not None
    return state.value


def test_source_is_synced_with_the_credential_that_it_names(
    tmp_path: Path, postgres: Postgres, server: WebServer, host: HttpHost, opened: runtime.Runtime
) -> None:
    sha = Repository.create(tmp_path / "served" / "acme" / "api.git", is_bare=True).commit({b"a": b"1\n"})
    add_credential(server)

    assert worked(opened, *planned(postgres, server)) == "succeeded"

    assert column(postgres, "SELECT ext_id FROM commits") == [sha]
    assert {user for user, _ in host.signed} == {"reader"}


def test_wrong_password_fails_its_batch_once(
    tmp_path: Path, postgres: Postgres, server: WebServer, host: HttpHost, opened: runtime.Runtime
) -> None:
    Repository.create(tmp_path / "served" / "acme" / "api.git", is_bare=True).commit({b"a": b"1\n"})
    add_credential(server, "wrong-8f3a0123456789")

    assert worked(opened, *planned(postgres, server)) == "failed"

    assert host.refused == ["reader"]
    (error,) = column(postgres, "SELECT error FROM sync_batches")
    assert "does not take the credential" in str(error)
    assert "8f3a0123456789" not in str(error)


def test_check_asks_the_source_that_names_the_credential(tmp_path: Path, server: WebServer) -> None:
    Repository.create(tmp_path / "served" / "acme" / "api.git", is_bare=True).commit({b"a": b"1\n"})
    add_credential(server)
    told("sources", "add", f"{server.url}/acme/api.git", "--credential", "main")

    found = told("credentials", "check", "main")

    assert (found["ok"], found["account"], found["kind"]) == (True, "reader", "git_https")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("https://elsewhere.example/acme/api.git", "is sent nowhere else"),
        ("ssh://git@{host}/acme/api", "to which a git_https is no use"),
    ],
)
def test_source_refuses_a_credential_of_another_host_or_kind(server: WebServer, name: str, word: str) -> None:
    told("credentials", "add", "main", "--provider", "git", "--host", "git.example", "--user", "reader")

    with pytest.raises(errors.UsageError, match=word):
        told("sources", "add", name.format(host="git.example"), "--credential", "main")

    assert told("sources", "list") == []


def test_source_over_ssh_asks_for_a_key(server: WebServer) -> None:
    with pytest.raises(errors.UsageError, match="add a git_ssh for this host"):
        told("sources", "add", "git@git.example:acme/api")

"""A credential as it is added: under a name, as a version, by one key of all fingerprints."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.integration.credentials.sealed import TOKEN, add, org, vault_of
from tests.seed import column
from worker_app import errors, key_ring
from worker_app.credentials.resolver import CredentialResolver
from worker_app.secret import Secret
from worker_app.store import credentials as rows
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration


def test_name_that_is_taken_is_replaced_only_when_asked(postgres: Postgres) -> None:
    org_id = org(postgres)
    with pytest.raises(errors.UsageError, match="there is no credential 'main' for github at"):
        add(postgres, org_id, replaces=True)
    add(postgres, org_id)
    with pytest.raises(errors.Conflict, match="--replace"):
        add(postgres, org_id)
    assert add(postgres, org_id, replace(TOKEN, host="ghe.acme.com")).version == 1
    assert add(postgres, org(postgres, "orbit")).version == 1


def test_name_that_was_removed_and_is_added_again_keeps_its_id(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    first = add(postgres, org(postgres))
    with postgres.transaction() as tx:
        rows.erase(tx, first)
    again = add(postgres, first.org_id)
    assert (again.id, again.version) == (first.id, 2)
    assert resolver.resolve(first.org_id, first.id) == TOKEN


def test_fingerprints_tell_equal_secrets_apart_from_others(postgres: Postgres) -> None:
    org_id = org(postgres)
    add(postgres, org_id)
    add(postgres, org_id, name="same")
    add(postgres, org_id, replace(TOKEN, token=Secret("ghp_other")), name="other")
    marks = dict(zip(column(postgres, "SELECT name FROM org_credentials ORDER BY name"),
                     map(bytes, column(postgres, "SELECT fingerprint FROM org_credentials ORDER BY name")), strict=True))  # type: ignore[arg-type]  # fmt: skip
    assert marks["main"] == marks["same"] != marks["other"]


def test_ring_of_another_database_adds_nothing(postgres: Postgres) -> None:
    org_id = org(postgres)
    add(postgres, org_id)
    for ring in (key_ring.generate("k1"), key_ring.generate("k2")):
        with pytest.raises(errors.SettingsError, match="the key ring whose key of this id wrapped it"):
            add(postgres, org_id, name="second", sealer=vault_of(ring))
    assert column(postgres, "SELECT name FROM org_credentials") == ["main"]


def test_many_that_add_the_first_credential_at_once_share_one_key_and_one_name(postgres: Postgres) -> None:
    org_id, barrier = org(postgres), threading.Barrier(8)

    def one(number: int) -> str:
        barrier.wait(20)
        try:
            return str(add(postgres, org_id, name="main" if number % 2 else f"own-{number}").version)
        except errors.Conflict:
            return "conflict"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8), timeout=20))
    assert sorted(answers) == ["1"] * 5 + ["conflict"] * 3
    assert len(column(postgres, "SELECT purpose FROM vault_keys")) == 1
    assert len(set(column(postgres, "SELECT fingerprint FROM org_credentials"))) == 1

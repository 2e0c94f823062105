"""Credentials from the hand of a person to a client, on a real Postgres."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tests import private_keys
from tests.seed import column, execute
from worker_app import errors, key_ring
from worker_app.credentials import adding
from worker_app.credentials.kinds import Credential, GitHubApp, GitHubToken
from worker_app.credentials.resolver import CredentialResolver
from worker_app.secret import Secret
from worker_app.store import credentials as rows
from worker_app.store import sources
from worker_app.store.credentials import Entry
from worker_app.store.postgres import Postgres
from worker_app.vault import RingKeys, Vault

pytestmark = pytest.mark.integration
CANARY = "ghp_canary8f3a"
RING = key_ring.generate()
TOKEN = GitHubToken("github.com", Secret(CANARY))
COPY = (
    "UPDATE org_credentials t SET wrapped_dek = f.wrapped_dek, ciphertext = f.ciphertext, key_id = f.key_id "
    "FROM org_credentials f WHERE t.id = :to AND t.version = :to_version AND f.id = :from AND f.version = :from_version"
)


def vault_of(ring: str = RING) -> Vault:
    return Vault(RingKeys(key_ring.parse(ring)))


@pytest.fixture
def resolver(postgres: Postgres) -> CredentialResolver:
    return CredentialResolver(postgres, vault_of())


def org(postgres: Postgres, name: str = "acme") -> UUID:
    with postgres.transaction() as tx:
        return sources.add_org(tx, name, "UTC").id


def add(
    postgres: Postgres,
    org_id: UUID,
    credential: Credential = TOKEN,
    name: str = "main",
    *,
    replaces: bool = False,
    sealer: Vault | None = None,
) -> Entry:
    with postgres.transaction() as tx:
        return adding.add(
            tx, sealer or vault_of(), credential, org_id=org_id, name=name, created_by="me", replaces=replaces
        )


def test_credential_is_resolved_as_it_was_added(postgres: Postgres, resolver: CredentialResolver) -> None:
    org_id = org(postgres)
    app = GitHubApp("ghe.acme.com", 7, 42, Secret(private_keys.pem(private_keys.rsa_key())))
    for credential, name in ((TOKEN, "main"), (app, "app")):
        assert resolver.resolve(org_id, add(postgres, org_id, credential, name).id) == credential


def test_credential_of_another_organisation_is_none(postgres: Postgres, resolver: CredentialResolver) -> None:
    added = add(postgres, org(postgres))
    for org_id, credential_id in ((org(postgres, "orbit"), added.id), (added.org_id, uuid4())):
        with pytest.raises(errors.CredentialMissing, match="has no credential"):
            resolver.resolve(org_id, credential_id)


def test_sealed_bytes_that_were_copied_to_another_row_do_not_open(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    acme, orbit = org(postgres), org(postgres, "orbit")
    entries = [
        add(postgres, acme), add(postgres, acme, name="second"), add(postgres, orbit),
        add(postgres, acme, replace(TOKEN, host="ghe.acme.com")), add(postgres, acme, replaces=True),
    ]  # fmt: skip
    refused = 0
    for source, target in permutations(entries, 2):
        with postgres.transaction() as tx:
            kept = tx.execute(
                text("SELECT wrapped_dek, ciphertext FROM org_credentials WHERE id = :id AND version = :version"),
                {"id": target.id, "version": target.version},
            ).one()
        execute(
            postgres, COPY,
            **{"to": target.id, "to_version": target.version, "from": source.id, "from_version": source.version},
        )  # fmt: skip
        with pytest.raises(errors.CredentialUndecryptable, match=str(target.id)):
            resolver.resolve(target.org_id, target.id, target.version)
        refused += 1
        execute(
            postgres,
            "UPDATE org_credentials SET wrapped_dek = :dek, ciphertext = :text WHERE id = :id AND version = :version",
            dek=kept.wrapped_dek, text=kept.ciphertext, id=target.id, version=target.version,
        )  # fmt: skip
        resolver.resolve(target.org_id, target.id, target.version)
    assert refused == 20


@pytest.mark.parametrize("change", ["provider = 'gitlab'", "host = 'evil.example'"])
def test_row_that_was_given_another_destination_does_not_open(
    postgres: Postgres, resolver: CredentialResolver, change: str
) -> None:
    added = add(postgres, org(postgres))
    execute(postgres, f"UPDATE org_credentials SET {change}")
    with pytest.raises(errors.CredentialUndecryptable):
        resolver.resolve(added.org_id, added.id)


def test_ring_without_the_key_of_a_row_is_told_so(postgres: Postgres) -> None:
    added = add(postgres, org(postgres))
    other = CredentialResolver(postgres, vault_of(key_ring.generate("k2")))
    with pytest.raises(errors.CredentialUndecryptable, match="CREDENTIAL_KEYS has no key k1"):
        other.resolve(added.org_id, added.id)


def test_replaced_credential_is_the_next_version_under_the_same_id(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    first = add(postgres, org(postgres))
    second = add(postgres, first.org_id, replace(TOKEN, token=Secret("ghp_new")), replaces=True)
    assert (second.id, second.version) == (first.id, 2)
    assert resolver.resolve(first.org_id, first.id) == replace(TOKEN, token=Secret("ghp_new"))
    assert resolver.resolve(first.org_id, first.id, 1) == TOKEN
    states = "SELECT state FROM org_credentials ORDER BY version"
    assert column(postgres, states) == ["superseded", "active"]


def test_name_that_is_taken_is_replaced_only_when_asked(postgres: Postgres) -> None:
    org_id = org(postgres)
    with pytest.raises(errors.UsageError, match="there is no credential 'main' for github at"):
        add(postgres, org_id, replaces=True)
    add(postgres, org_id)
    with pytest.raises(errors.Conflict, match="--replace"):
        add(postgres, org_id)
    assert add(postgres, org_id, replace(TOKEN, host="ghe.acme.com")).version == 1
    assert add(postgres, org(postgres, "orbit")).version == 1


def test_removed_credential_is_erased_and_refused(postgres: Postgres, resolver: CredentialResolver) -> None:
    org_id = add(postgres, org(postgres)).org_id
    second = add(postgres, org_id, replaces=True)
    with postgres.transaction() as tx:
        rows.erase(tx, second)
        assert rows.entries(tx, org_id) == []
    for version in (None, 1, 2):
        with pytest.raises(errors.CredentialRevoked, match=r"'main' \(github, github\.com\) was removed"):
            resolver.resolve(org_id, second.id, version)
    left = "SELECT length(wrapped_dek) + length(ciphertext) FROM org_credentials"
    assert column(postgres, left) == [0, 0]


def test_name_that_was_removed_and_is_added_again_keeps_its_id(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    first = add(postgres, org(postgres))
    with postgres.transaction() as tx:
        rows.erase(tx, first)
    again = add(postgres, first.org_id)
    assert (again.id, again.version) == (first.id, 2)
    assert resolver.resolve(first.org_id, first.id) == TOKEN


def test_row_that_this_program_does_not_know_is_malformed(postgres: Postgres, resolver: CredentialResolver) -> None:
    org_id = org(postgres)
    with postgres.transaction() as tx:
        place = rows.next_place(tx, org_id, "github", "github.com", "later", replaces=False)
        sealed = vault_of().seal(place, {"kind": "github_oauth", "token": Secret(CANARY)})
        rows.add(tx, place, sealed, name="later", kind="github_oauth", fingerprint=b"x", created_by="me")
    with pytest.raises(errors.CredentialMalformed) as caught:
        resolver.resolve(org_id, place.credential_id)
    assert CANARY not in str(caught.value)


def test_use_is_noted_once_an_hour(postgres: Postgres, resolver: CredentialResolver) -> None:
    added = add(postgres, org(postgres))
    assert added.last_used_at is None
    for _ in range(2):
        resolver.resolve(added.org_id, added.id)
    (first,) = column(postgres, "SELECT last_used_at FROM org_credentials")
    resolver.resolve(added.org_id, added.id)
    assert column(postgres, "SELECT last_used_at FROM org_credentials") == [first]
    execute(postgres, "UPDATE org_credentials SET last_used_at = last_used_at - interval '61 minutes'")
    resolver.resolve(added.org_id, added.id)
    (later,) = column(postgres, "SELECT last_used_at FROM org_credentials")
    assert later > first  # type: ignore[operator]


def test_use_that_another_process_is_noting_is_waited_for_by_nobody(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    added = add(postgres, org(postgres))
    with postgres.transaction() as tx:
        tx.execute(text("SELECT 1 FROM org_credentials FOR UPDATE"))
        assert resolver.resolve(added.org_id, added.id) == TOKEN


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
        with pytest.raises(errors.SettingsError, match="the key ring that this database was begun with"):
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

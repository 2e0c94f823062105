"""A credential from its row to a client: what opens, and what is refused by which error."""

from dataclasses import replace
from itertools import permutations
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from tests import private_keys
from tests.integration.credentials.sealed import CANARY, TOKEN, add, org, resolver_of, stamp, token, vault_of
from tests.seed import column, execute
from worker_app import errors, key_ring, telemetry
from worker_app.credentials.kinds import GitHubApp
from worker_app.credentials.resolver import CredentialResolver
from worker_app.records import CredentialStamp
from worker_app.secret import Secret
from worker_app.store import credentials as rows
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
COPY = (
    "UPDATE org_credentials t SET wrapped_dek = f.wrapped_dek, ciphertext = f.ciphertext, key_id = f.key_id "
    "FROM org_credentials f WHERE t.id = :to AND t.version = :to_version AND f.id = :from AND f.version = :from_version"
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
    stamps = {entry: stamp(postgres, entry) for entry in entries}
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
            resolver.resolve(target.org_id, target.id, stamps[target])
        refused += 1
        execute(
            postgres,
            "UPDATE org_credentials SET wrapped_dek = :dek, ciphertext = :text WHERE id = :id AND version = :version",
            dek=kept.wrapped_dek, text=kept.ciphertext, id=target.id, version=target.version,
        )  # fmt: skip
        resolver.resolve(target.org_id, target.id, stamps[target])
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
    other = resolver_of(postgres, key_ring.generate("k2"))
    with pytest.raises(errors.CredentialUndecryptable, match="CREDENTIAL_KEYS has no key k1"):
        other.resolve(added.org_id, added.id)


def test_replaced_credential_is_the_next_version_under_the_same_id(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    first = add(postgres, org(postgres))
    second = add(postgres, first.org_id, replace(TOKEN, token=Secret("ghp_new")), replaces=True)
    assert (second.id, second.version) == (first.id, 2)
    assert resolver.resolve(first.org_id, first.id) == replace(TOKEN, token=Secret("ghp_new"))
    assert resolver.resolve(first.org_id, first.id, stamp(postgres, first)) == TOKEN
    states = "SELECT state FROM org_credentials ORDER BY version"
    assert column(postgres, states) == ["superseded", "active"]


def test_removed_credential_is_erased_and_refused(postgres: Postgres, resolver: CredentialResolver) -> None:
    first = add(postgres, org(postgres))
    org_id, second = first.org_id, add(postgres, first.org_id, replaces=True)
    with postgres.transaction() as tx:
        rows.erase(tx, second)
        assert rows.entries(tx, org_id) == []
    for planned in (None, stamp(postgres, first), stamp(postgres, second)):
        with pytest.raises(errors.CredentialRevoked, match=r"'main' \(github, github\.com\) was removed"):
            resolver.resolve(org_id, second.id, planned)
    left = "SELECT length(wrapped_dek) + length(ciphertext) FROM org_credentials"
    assert column(postgres, left) == [0, 0]


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


def test_version_that_was_planned_is_used_whatever_came_after_it(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    entries = [add(postgres, org(postgres), token("ghp_version1"))]
    for number in (2, 3):
        entries.append(add(postgres, entries[0].org_id, token(f"ghp_version{number}"), replaces=True))
    for number, entry in enumerate(entries, 1):
        opened = resolver.resolve(entry.org_id, entry.id, stamp(postgres, entry))
        assert opened == token(f"ghp_version{number}")


def test_stamp_of_another_secret_or_of_a_version_that_is_not_there_opens_nothing(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    first = add(postgres, org(postgres), token("ghp_version1"))
    second = add(postgres, first.org_id, token("ghp_version2"), replaces=True)
    one, two = stamp(postgres, first), stamp(postgres, second)
    crossed = (CredentialStamp(1, two.fingerprint), CredentialStamp(2, one.fingerprint))
    for wrong in (*crossed, CredentialStamp(2, b""), CredentialStamp(2, two.fingerprint[:-1])):
        with pytest.raises(errors.CredentialMissing, match="does not hold the secret any more"):
            resolver.resolve(first.org_id, first.id, wrong)
    with pytest.raises(errors.CredentialMissing, match="in version 3, which the run was planned with"):
        resolver.resolve(first.org_id, first.id, CredentialStamp(3, two.fingerprint))


def test_stamp_of_one_organisation_opens_nothing_of_another(postgres: Postgres, resolver: CredentialResolver) -> None:
    entries = [add(postgres, org(postgres, name), token("ghp_the_same")) for name in ("acme", "orbit")]
    assert stamp(postgres, entries[0]) == stamp(postgres, entries[1])  # the same secret in the same version
    for mine, other in permutations(entries, 2):
        with pytest.raises(errors.CredentialMissing):
            resolver.resolve(mine.org_id, other.id, stamp(postgres, mine))


def test_versions_that_were_revoked_with_a_replacement_name_the_way_out(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    first = add(postgres, org(postgres))
    second = add(postgres, first.org_id, replaces=True)
    marks = [stamp(postgres, first), stamp(postgres, second)]
    add(postgres, first.org_id, token("ghp_new"), replaces=True, revoke_old=True)
    for mark in marks:
        with pytest.raises(errors.CredentialRevoked, match=f"version {mark.version} of .* `dev-hops runs retry`"):
            resolver.resolve(first.org_id, first.id, mark)
    assert resolver.resolve(first.org_id, first.id) == token("ghp_new")
    sizes = "SELECT length(wrapped_dek) + length(ciphertext) FROM org_credentials ORDER BY version"
    assert [size == 0 for size in column(postgres, sizes)] == [True, True, False]


def test_refusal_is_told_by_ids_alone_and_one_that_does_not_open_is_counted(
    postgres: Postgres, resolver: CredentialResolver
) -> None:
    added = add(postgres, org(postgres))
    execute(postgres, "UPDATE org_credentials SET ciphertext = wrapped_dek")
    before = undecryptable()
    with capture_logs() as told:
        for credential_id in (added.id, UUID(int=7)):
            with pytest.raises(errors.CredentialRefused):
                resolver.resolve(added.org_id, credential_id, stamp(postgres, added))
    line = {"event": "credential.refused", "log_level": "warning", "org_id": str(added.org_id), "version": 1}
    assert told == [
        {**line, "credential_id": str(added.id), "error_class": "CredentialUndecryptable"},
        {**line, "credential_id": str(UUID(int=7)), "error_class": "CredentialMissing"},
    ]
    assert undecryptable() - before == 1


def test_store_that_does_not_answer_is_no_refusal() -> None:
    away = Postgres("postgresql://nobody:x@127.0.0.1:1/none", pool_size=1)
    with pytest.raises(errors.StoreAway), capture_logs() as told:
        resolver_of(away).resolve(UUID(int=1), UUID(int=2))
    assert told == []
    assert not issubclass(errors.StoreAway, errors.PermanentError)
    away.close()


def undecryptable() -> float:
    return telemetry.CREDENTIAL_UNDECRYPTABLE.labels("github")._value.get()  # type: ignore[no-any-return]

"""Adding: a credential becomes a sealed row, under a name, as its first or its next version."""

from uuid import UUID

from worker_app import vault
from worker_app.credentials.kinds import Credential, secret_of, to_document
from worker_app.store import credentials as rows
from worker_app.store import vault_keys
from worker_app.store.postgres import Transaction
from worker_app.vault import Vault

FINGERPRINT = "fingerprint"  # purpose of the vault's key that fingerprints are made with


def add(
    tx: Transaction,
    sealer: Vault,
    credential: Credential,
    *,
    org_id: UUID,
    name: str,
    created_by: str,
    replaces: bool = False,
    revoke_old: bool = False,
) -> rows.Entry:
    """Seal and write a credential under a name, or with `replaces` its next version.

    Runs that are open go on with the version that they were planned with, unless `revoke_old` erases those before.
    Raises Conflict where the name is taken, UsageError where there is none to replace, SettingsError where the key ring is
    that of another database.
    """
    place = rows.next_place(tx, org_id, credential.provider, credential.host, name, replaces=replaces)
    mark = vault.fingerprint(fingerprint_key(tx, sealer), secret_of(credential))
    sealed = sealer.seal(place, to_document(credential))
    added = rows.add(tx, place, sealed, name=name, kind=credential.kind, fingerprint=mark, created_by=created_by)
    if revoke_old:
        rows.erase_before(tx, place)
    return added


def fingerprint_key(tx: Transaction, sealer: Vault) -> bytes:
    """The key of all fingerprints; whoever comes first makes it."""
    stored = vault_keys.find(tx, FINGERPRINT)
    if stored is None:
        vault_keys.add(tx, FINGERPRINT, *sealer.new_key(FINGERPRINT))
        stored = vault_keys.find(tx, FINGERPRINT)
        assert stored is not None
    return sealer.stored_key(FINGERPRINT, *stored)

"""Canary: whether a process may start with the key ring that it was given, asked before it takes its first message.

The keys of the vault have to open, and every key that wraps a row has to be in the ring: otherwise each sync of that row would
fail later, one by one. A message names keys by their ids.
"""

from worker_app import errors
from worker_app.credentials import adding
from worker_app.key_ring import KeyRing
from worker_app.settings import Settings
from worker_app.store import vault_keys
from worker_app.store.postgres import Postgres, Transaction
from worker_app.store.vault_keys import KeyUse
from worker_app.vault import RingKeys, Vault


def require(postgres: Postgres, settings: Settings) -> None:
    """Return when this process can open every row. The first process that comes makes the key of all fingerprints.

    Raises SettingsError (exit 78) with all faults in one message, StoreAway when Postgres does not answer.
    """
    with postgres.transaction() as tx:
        if found := faults(tx, settings):
            raise errors.SettingsError("\n".join(found))
        if settings.credential_keys is not None:
            adding.fingerprint_key(tx, Vault(RingKeys(settings.require_credential_keys())))


def require_of_given(postgres: Postgres, settings: Settings) -> None:
    """The same for a process that opens nothing: without a ring it may start, with one that is wrong it may not."""
    if settings.credential_keys is not None:
        require(postgres, settings)


def faults(tx: Transaction, settings: Settings) -> list[str]:
    """What is wrong with the key ring for this database, each with its remedy. Changes nothing."""
    uses = vault_keys.uses(tx)
    if settings.credential_keys is None:
        return _without_ring(uses)
    ring = settings.require_credential_keys()
    return _lacking(uses, ring) + _foreign(tx, ring)


def _without_ring(uses: list[KeyUse]) -> list[str]:
    wrapped = [f"{use.rows} rows are wrapped by {use.key_id}" for use in uses if use.rows]
    remedy = "give the key ring that this database was begun with; a new one opens none of them"
    return [f"CREDENTIAL_KEYS is not set, and {', '.join(wrapped)}: {remedy}"] if wrapped else []


def _lacking(uses: list[KeyUse], ring: KeyRing) -> list[str]:
    remedy = "put it back behind the others until `dev-hops credentials rotate-keys --check` shows no row on it"
    return [
        f"CREDENTIAL_KEYS has no key {use.key_id}, by which {use.rows} rows are wrapped: {remedy}"
        for use in uses
        if use.rows and use.key_id not in ring.keys
    ]


def _foreign(tx: Transaction, ring: KeyRing) -> list[str]:
    """The keys of the vault that do not open: a key of the ring has the right id and is another one, or is not there."""
    opener, found = Vault(RingKeys(ring)), []
    for key in vault_keys.kept(tx):
        try:
            opener.stored_key(key.purpose, key.key_id, key.wrapped)
        except errors.SettingsError as error:
            found.append(str(error))
    return found

"""Rotation: every sealed row passes to the key that writes, while everything serves. The data stays as it is.

Rows go in batches: read, wrapped anew outside any transaction (a key service may be slow), written by compare-and-swap in one
short transaction. So it may be killed, run again, and run by several at once. The keys of the vault come last, since a process
that starts looks at them first.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from worker_app import errors
from worker_app.store import vault_keys
from worker_app.store.postgres import Postgres
from worker_app.store.vault_keys import KeyUse, SealedRow
from worker_app.vault import KeyProvider, Vault

BATCH_ROWS = 500  # a transaction of some ten milliseconds
MOST_PASSES = 3  # the second takes what was held or added meanwhile; more, and another process rotates to another key


@dataclass(frozen=True, slots=True)
class Unopened:
    """A row that does not open, so that its key cannot pass to another one."""

    id: UUID
    version: int
    key_id: str


@dataclass(frozen=True, slots=True)
class Rotated:
    """What one rotation did."""

    rows: int  # that passed to the key that writes
    unopened: tuple[Unopened, ...]


def rotate(
    postgres: Postgres, keys: KeyProvider, report: Callable[[int], None] = lambda _: None, batch_rows: int = BATCH_ROWS
) -> Rotated:
    """Wrap every row and every key of the vault by the key that writes; `report` hears how many rows a batch passed on.

    A row that does not open is left as it is and named. Raises StoreAway, and TransientError where a key service gives no
    answer: what has passed stays so, and another call goes on. Raises SettingsError for a ring of another database.
    """
    opener, rows, unopened = Vault(keys), 0, set[Unopened]()
    for _ in range(MOST_PASSES):
        passed = 0
        for batch in _batches(postgres, keys.writes, batch_rows):
            moved = _rewrap(postgres, opener, batch, unopened)
            report(moved)
            passed += moved
        rows += passed
        if not passed:
            break
    _rewrap_vault_keys(postgres, opener, keys.writes)
    return Rotated(rows, tuple(sorted(unopened, key=lambda item: (item.id, item.version))))


def uses(postgres: Postgres) -> list[KeyUse]:
    """What each key of the ring wraps now."""
    with postgres.transaction() as tx:
        return vault_keys.uses(tx)


def is_done(found: Sequence[KeyUse], writes: str) -> bool:
    """Whether nothing is on another key than the one that writes, so that the others may go."""
    return all(use.key_id == writes for use in found)


def _batches(postgres: Postgres, writes: str, most: int) -> Iterator[list[SealedRow]]:
    """The rows that another key wraps, each once, in the order of their ids."""
    after = vault_keys.FIRST
    while True:
        with postgres.transaction() as tx:
            batch = vault_keys.sealed_rows(tx, writes, after, most)
        if not batch:
            return
        yield batch
        after = (batch[-1].place.credential_id, batch[-1].place.version)


def _rewrap(postgres: Postgres, opener: Vault, batch: Sequence[SealedRow], unopened: set[Unopened]) -> int:
    """Pass a batch on, adding to `unopened` what does not open; returns how many rows passed."""
    old, new = [], []
    for row in batch:
        try:
            sealed = opener.rewrap(row.place, row.sealed)
        except errors.CredentialUndecryptable as error:
            unopened.add(Unopened(error.credential_id, error.version, error.key_id))
            continue
        old.append(row)
        new.append(sealed)
    with postgres.transaction() as tx:
        return vault_keys.swap_rows(tx, old, new)


def _rewrap_vault_keys(postgres: Postgres, opener: Vault, writes: str) -> None:
    with postgres.transaction() as tx:
        kept = [key for key in vault_keys.kept(tx) if key.key_id != writes]
    for old in kept:
        key_id, wrapped = opener.rewrapped_key(old.purpose, old.key_id, old.wrapped)
        with postgres.transaction() as tx:
            vault_keys.swap(tx, old, replace(old, key_id=key_id, wrapped=wrapped))

"""Keys of the vault as rows; which keys of the ring wrap them and the sealed rows, and their way from one key to another."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import text

from worker_app.store.postgres import Transaction, statement
from worker_app.vault import Place, Sealed

FIRST = (UUID(int=0), 0)  # before every row


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What one key of the ring wraps."""

    key_id: str
    rows: int  # versions of credentials, without revoked ones, which hold nothing sealed
    vault_keys: int


@dataclass(frozen=True, slots=True)
class VaultKey:
    """A key that the vault keeps for a purpose."""

    purpose: str
    key_id: str  # of the ring
    wrapped: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A sealed version of a credential and the place that it was written for."""

    place: Place
    sealed: Sealed


def find(tx: Transaction, purpose: str) -> tuple[str, bytes] | None:
    """The key of the vault for a purpose, as key id and wrapped key; None before it was made."""
    return next(((key.key_id, key.wrapped) for key in kept(tx) if key.purpose == purpose), None)


def kept(tx: Transaction) -> list[VaultKey]:
    """Every key of the vault. A handful of rows."""
    rows = tx.execute(text("SELECT purpose, key_id, wrapped FROM vault_keys ORDER BY purpose"))
    return [VaultKey(row.purpose, row.key_id, bytes(row.wrapped)) for row in rows]


def add(tx: Transaction, purpose: str, key_id: str, wrapped: bytes) -> None:
    """Keep a key of the vault, unless somebody else was first: then theirs stays."""
    tx.execute(
        text(
            "INSERT INTO vault_keys (purpose, key_id, wrapped) VALUES (:purpose, :key_id, :wrapped) "
            "ON CONFLICT (purpose) DO NOTHING"
        ),
        {"purpose": purpose, "key_id": key_id, "wrapped": wrapped},
    )


def swap(tx: Transaction, old: VaultKey, new: VaultKey) -> None:
    """Keep `new` in the place of `old`, unless somebody else has replaced that: then theirs stays."""
    tx.execute(
        text(
            "UPDATE vault_keys SET key_id = :new_key_id, wrapped = :wrapped WHERE purpose = :purpose AND key_id = :old_key_id"
        ),
        {
            "purpose": old.purpose,
            "old_key_id": old.key_id,
            "new_key_id": new.key_id,
            "wrapped": new.wrapped,
        },
    )


def uses(tx: Transaction) -> list[KeyUse]:
    """What each key of the ring wraps, by id; a key that wraps nothing is not there."""
    return [KeyUse(*row) for row in tx.execute(statement("count_key_uses"))]


def sealed_rows(tx: Transaction, writes: str, after: tuple[UUID, int], most: int) -> list[SealedRow]:
    """The next sealed rows that another key than `writes` wraps, behind (id, version), in that order."""
    given = {"writes": writes, "after_id": after[0], "after_version": after[1], "most": most}
    return [
        SealedRow(
            Place(row.org_id, row.provider, row.host, row.id, row.version),
            Sealed(row.key_id, bytes(row.wrapped_dek), bytes(row.ciphertext)),
        )
        for row in tx.execute(statement("find_rows_to_rewrap"), given)
    ]


def swap_rows(tx: Transaction, old: Sequence[SealedRow], new: Sequence[Sealed]) -> int:
    """Give rows the wrapping of the `new` beside each, those that are still on the key they were read with; returns how many."""
    given = {
        "ids": [str(row.place.credential_id) for row in old],
        "versions": [row.place.version for row in old],
        "old_key_ids": [row.sealed.key_id for row in old],
        "new_key_ids": [sealed.key_id for sealed in new],
        "wrapped": [sealed.wrapped_dek for sealed in new],
    }
    return tx.execute(statement("rewrap_rows"), given).rowcount

"""Keys of the vault as rows, wrapped by the key ring; and which keys of the ring the sealed rows use."""

from sqlalchemy import text

from worker_app.store.postgres import Transaction


def find(tx: Transaction, purpose: str) -> tuple[str, bytes] | None:
    """The key of the vault for a purpose, as key id and wrapped key; None before it was made."""
    row = tx.execute(
        text("SELECT key_id, wrapped FROM vault_keys WHERE purpose = :purpose"), {"purpose": purpose}
    ).one_or_none()
    return None if row is None else (row.key_id, bytes(row.wrapped))


def add(tx: Transaction, purpose: str, key_id: str, wrapped: bytes) -> None:
    """Keep a key of the vault, unless somebody else was first: then theirs stays."""
    tx.execute(
        text(
            "INSERT INTO vault_keys (purpose, key_id, wrapped) VALUES (:purpose, :key_id, :wrapped) "
            "ON CONFLICT (purpose) DO NOTHING"
        ),
        {"purpose": purpose, "key_id": key_id, "wrapped": wrapped},
    )

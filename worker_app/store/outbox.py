"""The outbox: messages that are owed, written in the transaction that owes them, published after its commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from worker_app.jobs import Message
from worker_app.store.postgres import Transaction, statement


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much is owed, and for how long, in database time."""

    rows: int
    oldest_age_seconds: float  # of a message that may be sent already; 0.0 where none waits


def exchange(tx: Transaction, token: UUID, published: Sequence[int], held_queues: Sequence[str] = ()) -> list[Message]:
    """Forget the published ids that `token` still holds, and take up to 25 due messages for 30 seconds, none for held queues."""
    given = {"token": token, "published": list(published), "held": list(held_queues)}
    return [Message(*row) for row in tx.execute(statement("exchange_messages"), given)]


def delete(tx: Transaction, token: UUID, ids: Sequence[int]) -> None:
    """Forget published messages, unless another relay has taken them since."""
    tx.execute(
        text("DELETE FROM task_outbox WHERE id = ANY (CAST(:ids AS bigint[])) AND claim_token = :token"),
        {"ids": list(ids), "token": token},
    )


def release(tx: Transaction, token: UUID, ids: Sequence[int]) -> None:
    """Put back what was not published, so that any relay may take it at once."""
    tx.execute(
        text(
            "UPDATE task_outbox SET claimed_until = NULL WHERE id = ANY (CAST(:ids AS bigint[])) AND claim_token = :token"
        ),
        {"ids": list(ids), "token": token},
    )


def backlog(tx: Transaction) -> Backlog:
    """The depth and the age of what is owed."""
    row = tx.execute(statement("outbox_backlog")).one()
    return Backlog(rows=row.depth, oldest_age_seconds=float(row.age))

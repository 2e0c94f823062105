"""Records: what readers yield, upserted by identity. What is older never overwrites what is newer, a repeat is a no-op."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from worker_app import errors
from worker_app.records import Commit, Record, Source, UnreachableCommit
from worker_app.store import postgres, shapes
from worker_app.store.postgres import Transaction, statement


def write(tx: Transaction, source: Source, records: Sequence[Record], updated_at: datetime) -> None:
    """Write one page: all of it, or nothing. `updated_at` is the stamp of the walk, aware UTC.

    Which of two writes is newer is told by the record's own `updated_at`, and by the stamp where it has none. Raises
    RowRefused where Postgres takes a row for broken; `tx` can go on then.
    """
    place = {"org_id": source.org_id, "provider": source.provider, "host": source.host, "source_id": source.id}
    found = [(shape, rows) for shape in shapes.SHAPES if (rows := shapes.rows(shape, records, updated_at))]
    table = ""
    try:
        with postgres.refusable(tx):
            for shape, rows in found:
                table = shape.table
                tx.execute(shapes.upsert(shape), {**place, "rows": json.dumps(rows, default=_plain)})
    except errors.RowRefused as error:
        raise errors.RowRefused(f"{table} of {source.external_name}: {error}") from error
    if unreachable := [item.ext_id for item in records if isinstance(item, UnreachableCommit)]:
        mark_unreachable(tx, source, ext_ids=unreachable)


def mark_unreachable(
    tx: Transaction, source: Source, *, ext_ids: Sequence[str] = (), unmet_before: datetime | None = None
) -> int:
    """Mark the given commits, or all that no walk has met since `unmet_before`, as unreachable; returns how many."""
    marked: int = tx.execute(
        statement("mark_unreachable"),
        {
            "org_id": source.org_id,
            "provider": source.provider,
            "host": source.host,
            "repo_ext_id": source.ext_id,
            "ext_ids": list(ext_ids),
            "unmet_before": unmet_before,
        },
    ).scalar_one()
    return marked


def commits_between(tx: Transaction, org_id: UUID, start: datetime, end: datetime) -> Iterator[tuple[str, str, Commit]]:
    """Reachable commits with start <= committed_at < end as (provider, host, commit), in no order."""
    rows = tx.execute(
        text(
            "SELECT committed_at, provider, host, ext_id, repo_ext_id, author_ext_id, author_email_hash, authored_at, is_merge, "
            "files, additions, deletions FROM commits "
            "WHERE org_id = :org_id AND committed_at >= :start AND committed_at < :end AND reachable"
        ),
        {"org_id": org_id, "start": start, "end": end},
    )
    for row in rows:
        digest = None if row.author_email_hash is None else bytes(row.author_email_hash)
        yield (
            row.provider,
            row.host,
            Commit(
                ext_id=row.ext_id,
                repo_ext_id=row.repo_ext_id,
                author_ext_id=row.author_ext_id,
                author_email_hash=digest,
                authored_at=row.authored_at,
                committed_at=row.committed_at,
                is_merge=row.is_merge,
                files=row.files,
                additions=row.additions,
                deletions=row.deletions,
            ),
        )


def _plain(value: object) -> str:
    """What JSON has no form for, as Postgres reads it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    raise TypeError(f"a record holds a {type(value).__name__}, which no column takes")

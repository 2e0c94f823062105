"""Records: what readers yield, upserted by identity. An older walk never overwrites a newer one, a repeat is a no-op."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from worker_app.records import Commit, Record, Repository, Source, UnreachableCommit
from worker_app.store.postgres import Transaction, statement


def write(tx: Transaction, source: Source, records: Sequence[Record], updated_at: datetime) -> None:
    """Write one page. `updated_at` is the stamp of the walk, aware UTC: it decides which of two writes is newer."""
    place = {
        "org_id": source.org_id,
        "provider": source.provider,
        "host": source.host,
        "source_id": source.id,
        "updated_at": updated_at,
    }
    repositories = [_repository(item) for item in records if isinstance(item, Repository)]
    commits = [_commit(item) for item in records if isinstance(item, Commit)]
    if repositories:
        tx.execute(statement("upsert_repositories"), {**place, "rows": json.dumps(repositories)})
    if commits:
        tx.execute(statement("upsert_commits"), {**place, "rows": json.dumps(commits)})
    unreachable = [item for item in records if isinstance(item, UnreachableCommit)]
    if unreachable:
        mark_unreachable(tx, source, ext_ids=[item.ext_id for item in unreachable])


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


def _repository(item: Repository) -> dict[str, object]:
    return {
        "ext_id": item.ext_id,
        "full_name": item.full_name,
        "default_branch": item.default_branch,
        "is_archived": item.is_archived,
    }


def _commit(item: Commit) -> dict[str, object]:
    return {
        "ext_id": item.ext_id,
        "repo_ext_id": item.repo_ext_id,
        "author_ext_id": item.author_ext_id,
        "author_email_hash": item.author_email_hash.hex() if item.author_email_hash else None,
        "authored_at": int(item.authored_at.timestamp()),
        "committed_at": int(item.committed_at.timestamp()),
        "is_merge": item.is_merge,
        "files": item.files,
        "additions": item.additions,
        "deletions": item.deletions,
    }

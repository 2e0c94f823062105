"""What must be stored of the pull requests of a world, what is, and how the two differ. By identity and main facts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from worker_app.store.postgres import Postgres

Fact = tuple[str, ...]  # table, key and facts
EVENT_KINDS = {
    "ready_for_review": "ready",
    "convert_to_draft": "draft",
    "closed": "closed",
    "reopened": "reopened",
    "merged": "merged",
    "review_requested": "review_requested",
}
# Table, and the statement whose first column is the key of a row there.
TABLES = {
    "pull_requests": "SELECT ext_id, state, head_sha, updated_at FROM pull_requests WHERE org_id = :org_id",
    "reviews": "SELECT ext_id, pr_ext_id, state FROM reviews WHERE org_id = :org_id AND kind = 'review'",
    "pr_commits": "SELECT pr_ext_id || ' ' || ext_id, ordinal FROM pr_commits WHERE org_id = :org_id",
    "pr_events": "SELECT ext_id, pr_ext_id, kind FROM pr_events WHERE org_id = :org_id",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """How what is stored differs from what must be, as counts; nothing but `total` when it does not."""

    total: int  # that must be stored
    missing: int = 0
    double: int = 0
    unknown: int = 0  # stored, and not there at the provider
    stale: int = 0  # stored with facts that no longer hold

    @property
    def is_none(self) -> bool:
        """Whether all of it is stored, once and as it is."""
        return not (self.missing or self.double or self.unknown or self.stale)


def wanted(truth: Mapping[str, Mapping[str, Any]]) -> list[Fact]:
    """What must be stored, from the server's truth by repository."""
    return [fact for repository in truth.values() for fact in _wanted(repository)]


def _wanted(found: Mapping[str, Any]) -> Iterable[Fact]:
    for key, one in found["pull_requests"].items():
        yield "pull_requests", key, one["state"].lower(), one["head_sha"], one["updated_at"]
    for key, one in found["reviews"].items():
        yield "reviews", key, one["pull_request"], one["state"].lower()
    for key, one in found["pull_request_commits"].items():
        yield "pr_commits", key.replace(":", " "), str(one["ordinal"])
    for key, one in found["pull_request_events"].items():
        if kind := EVENT_KINDS.get(one["kind"]):
            yield "pr_events", key, one["parent"], kind


def stored(postgres: Postgres, org_id: UUID) -> list[Fact]:
    """What is stored of an organisation, as often as it is."""
    with postgres.transaction() as tx:
        return [
            (table, *map(_plain, row))
            for table, statement in TABLES.items()
            for row in tx.execute(text(statement), {"org_id": org_id})
        ]


def _plain(value: object) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, datetime) else str(value)


def difference(must: Iterable[Fact], shown: Iterable[Fact]) -> Difference:
    """How what is shown differs from what must be."""
    facts, seen = {fact[:2]: fact for fact in must}, list(shown)
    counts = Counter(fact[:2] for fact in seen)
    return Difference(
        total=len(facts),
        missing=len(facts.keys() - counts.keys()),
        double=sum(count - 1 for count in counts.values()),
        unknown=len(counts.keys() - facts.keys()),
        stale=sum(fact[:2] in facts and facts[fact[:2]] != fact for fact in set(seen)),
    )

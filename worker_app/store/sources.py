"""Organisations, their sources, and how far each dataset of a source has been read."""

import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import text

from worker_app import errors
from worker_app.records import Cursor, Source, Walk
from worker_app.store.postgres import Transaction, statement


@dataclass(frozen=True, slots=True)
class Org:
    """An organisation: whose data it is, and the zone in which its days begin."""

    id: UUID
    name: str
    tz: str  # IANA name


def add_org(tx: Transaction, name: str, tz: str) -> Org:
    """A new organisation; raises Conflict when the name is taken."""
    row = tx.execute(
        text(
            "INSERT INTO orgs (id, name, tz) VALUES (:id, :name, :tz) ON CONFLICT (name) DO NOTHING RETURNING id, name, tz"
        ),
        {"id": uuid4(), "name": name, "tz": tz},
    ).one_or_none()
    if row is None:
        raise errors.Conflict(f"organisation {name!r} exists already")
    return Org(*row)


def orgs(tx: Transaction) -> list[Org]:
    """Every organisation, by name."""
    return [Org(*row) for row in tx.execute(text("SELECT id, name, tz FROM orgs ORDER BY name"))]


def org(tx: Transaction, name_or_id: str | UUID | None = None) -> Org:
    """The named organisation, or the only one. Raises UsageError when it does not exist or the choice is open."""
    found = [item for item in orgs(tx) if name_or_id is None or str(name_or_id) in (item.name, str(item.id))]
    if len(found) == 1:
        return found[0]
    if name_or_id is not None:
        raise errors.UsageError(
            f"there is no organisation {str(name_or_id)!r}; `dev-hops orgs list` shows those there are"
        )
    if found:
        raise errors.UsageError(f"there are {len(found)} organisations: name one with --org")
    raise errors.UsageError("there is no organisation yet: add one with `dev-hops orgs add NAME`")


def add_source(tx: Transaction, org_id: UUID, provider: str, host: str, external_name: str, ext_id: str) -> Source:
    """A new source; raises Conflict when the organisation has it already."""
    row = tx.execute(
        text(
            "INSERT INTO sources (org_id, id, provider, host, external_name, ext_id, state_since, first_seen) "
            "VALUES (:org_id, :id, :provider, :host, :external_name, :ext_id, now(), now()) "
            "ON CONFLICT (org_id, provider, host, ext_id) DO NOTHING "
            "RETURNING org_id, id, provider, host, external_name, ext_id, state, state_reason"
        ),
        {
            "org_id": org_id,
            "id": uuid4(),
            "provider": provider,
            "host": host,
            "external_name": external_name,
            "ext_id": ext_id,
        },
    ).one_or_none()
    if row is None:
        raise errors.Conflict(f"source {external_name} exists already")
    return Source(*row)


def sources(
    tx: Transaction, org_id: UUID | None = None, provider: str | None = None, ids: list[UUID] | None = None
) -> list[Source]:
    """The sources of an organisation (None: of all), by name; those of one provider or with certain ids where given."""
    rows = tx.execute(
        text(
            "SELECT org_id, id, provider, host, external_name, ext_id, state, state_reason FROM sources "
            "WHERE (CAST(:org_id AS uuid) IS NULL OR org_id = :org_id) "
            "AND (CAST(:provider AS text) IS NULL OR provider = :provider) "
            "AND (CAST(:ids AS uuid[]) IS NULL OR id = ANY (CAST(:ids AS uuid[]))) ORDER BY external_name, id"
        ),
        {"org_id": org_id, "provider": provider, "ids": ids},
    )
    return [Source(*row) for row in rows]


def source(tx: Transaction, name_or_id: str, org_id: UUID | None = None) -> Source:
    """The source with this id, name or unambiguous end of a name. Raises UsageError when none or several fit."""
    every = sources(tx, org_id)
    exact = [item for item in every if name_or_id in (str(item.id), item.external_name, item.ext_id)]
    found = exact or [item for item in every if item.ext_id.endswith("/" + name_or_id.strip("/"))]
    if len(found) == 1:
        return found[0]
    if found:
        raise errors.UsageError(
            f"{len(found)} sources fit {name_or_id!r}: name one by its id from `dev-hops sources list`"
        )
    raise errors.UsageError(f"there is no source {name_or_id!r}; `dev-hops sources list` shows those there are")


def remove_source(tx: Transaction, item: Source) -> None:
    """Stop reading a source: it, its cursors and its schedules go; records and metrics stay."""
    key = {"org_id": item.org_id, "id": item.id}
    # first, and it waits for whoever adds a schedule of the source: else that schedule would be left without one
    tx.execute(text("DELETE FROM sources WHERE org_id = :org_id AND id = :id"), key)
    tx.execute(
        text(
            "DELETE FROM scheduled_jobs WHERE org_id = :org_id AND params -> 'sources' = jsonb_build_array(CAST(:id AS text))"
        ),
        key,
    )


def set_state(tx: Transaction, org_id: UUID, source_id: UUID, state: str, reason: str | None) -> None:
    """Write what the source proved to be; `state_since` moves only when the state does."""
    tx.execute(
        text(
            "UPDATE sources SET state = :state, state_reason = :reason, last_seen = now(), "
            "state_since = CASE WHEN state = :state THEN state_since ELSE now() END WHERE org_id = :org_id AND id = :id"
        ),
        {"org_id": org_id, "id": source_id, "state": state, "reason": reason},
    )


def cursor(tx: Transaction, org_id: UUID, source_id: UUID, dataset: str) -> Cursor:
    """Where the last complete walk of a dataset ended; an empty cursor before the first."""
    row = tx.execute(
        text(
            "SELECT cursor_at, coalesce(tips, '{}') AS tips FROM sync_cursors "
            "WHERE org_id = :org_id AND source_id = :source_id AND dataset = :dataset AND scope = ''"
        ),
        {"org_id": org_id, "source_id": source_id, "dataset": dataset},
    ).one_or_none()
    return Cursor() if row is None else Cursor(cursor_at=row.cursor_at, tips=row.tips)


def move_cursor(tx: Transaction, org_id: UUID, source_id: UUID, dataset: str, walk: Walk) -> None:
    """Move the cursor to the start of a walk that was complete, never back; the days that this covers are computed anew."""
    place = {"org_id": org_id, "source_id": source_id, "dataset": dataset, "at": walk.started_at}
    tx.execute(statement("touch_covered_days"), place)
    tx.execute(
        text(
            "INSERT INTO sync_cursors AS c (org_id, source_id, dataset, cursor_at, tips, last_complete_start) "
            "SELECT org_id, id, :dataset, :at, CAST(:tips AS jsonb), :at FROM sources WHERE org_id = :org_id AND id = :source_id "
            "ON CONFLICT (org_id, source_id, dataset, scope) DO UPDATE SET cursor_at = excluded.cursor_at, "
            "tips = excluded.tips, last_complete_start = excluded.last_complete_start "
            "WHERE c.cursor_at IS NULL OR excluded.cursor_at >= c.cursor_at"
        ),
        {**place, "tips": json.dumps(dict(walk.until))},
    )


def complete_starts(tx: Transaction, org_id: UUID, dataset: str) -> dict[UUID, datetime | None]:
    """For each source of an organisation: when its last complete walk of `dataset` began, None before the first."""
    rows = tx.execute(
        text(
            "SELECT s.id, c.last_complete_start FROM sources s LEFT JOIN sync_cursors c "
            "ON c.org_id = s.org_id AND c.source_id = s.id AND c.dataset = :dataset AND c.scope = '' WHERE s.org_id = :org_id"
        ),
        {"org_id": org_id, "dataset": dataset},
    )
    return {row.id: row.last_complete_start for row in rows}

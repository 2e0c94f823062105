"""Organisations, their sources, and how far each dataset of a source has been read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import text

from worker_app import errors
from worker_app.records import Cursor, Source, Walk
from worker_app.store import told
from worker_app.store.postgres import Transaction, statement

DISABLED_DAYS = 7  # so long a dataset that its provider has switched off is not asked again
ARCHIVED_HOURS = 23  # between two walks of a dataset of an archived source: once a day, at whatever minute
COVERING_DATASETS = frozenset({"commits"})  # what has to be read to the end of a day for its metrics to be whole


@dataclass(frozen=True, slots=True)
class Org:
    """An organisation: whose data it is, and the zone in which its days begin."""

    id: UUID
    name: str
    tz: str  # IANA name


@dataclass(frozen=True, slots=True)
class Orphan:
    """A source whose credential was removed."""

    org: str
    external_name: str
    credential: str  # its name; its id where there is no row of it


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
    """A new source; raises Conflict when the organisation has it already, which names it where it has another name there."""
    given = {"org_id": org_id, "provider": provider, "host": host, "external_name": external_name, "ext_id": ext_id}
    row = tx.execute(
        text(
            "INSERT INTO sources (org_id, id, provider, host, external_name, ext_id, state_since, first_seen) "
            "VALUES (:org_id, :id, :provider, :host, :external_name, :ext_id, now(), now()) "
            "ON CONFLICT (org_id, provider, host, ext_id) DO NOTHING "
            "RETURNING org_id, id, provider, host, external_name, ext_id, state, state_reason, credential_id"
        ),
        {**given, "id": uuid4()},
    ).one_or_none()
    if row is None:
        raise errors.Conflict(f"source {external_name} exists already{_other_name(tx, given)}")
    return Source(*row)


def _other_name(tx: Transaction, given: Mapping[str, object]) -> str:
    """The name under which an identity stands already, where it is another one; as the end of a sentence."""
    known = tx.execute(
        text(
            "SELECT external_name FROM sources WHERE org_id = :org_id AND provider = :provider AND host = :host "
            "AND ext_id = :ext_id AND external_name <> :external_name"
        ),
        given,
    ).scalar_one_or_none()
    return f" as {known}" if known else ""


def sources(
    tx: Transaction, org_id: UUID | None = None, provider: str | None = None, ids: list[UUID] | None = None
) -> list[Source]:
    """The sources of an organisation (None: of all), by name; those of one provider or with certain ids where given."""
    rows = tx.execute(
        text(
            "SELECT org_id, id, provider, host, external_name, ext_id, state, state_reason, credential_id FROM sources "
            "WHERE (CAST(:org_id AS uuid) IS NULL OR org_id = :org_id) "
            "AND (CAST(:provider AS text) IS NULL OR provider = :provider) "
            "AND (CAST(:ids AS uuid[]) IS NULL OR id = ANY (CAST(:ids AS uuid[]))) ORDER BY external_name, id"
        ),
        {"org_id": org_id, "provider": provider, "ids": ids},
    )
    return [Source(*row) for row in rows]


def without_their_credential(tx: Transaction) -> list[Orphan]:
    """The sources that name a credential of which no version can be used, by organisation and name."""
    return [Orphan(*row) for row in tx.execute(statement("sources_without_credential"))]


def source(tx: Transaction, name_or_id: str, org_id: UUID | None = None) -> Source:
    """The source with this id, name or unambiguous end of a name. Raises UsageError when none or several fit."""
    every = sources(tx, org_id)
    exact = [item for item in every if name_or_id in (str(item.id), item.external_name, item.ext_id)]
    end = "/" + name_or_id.strip("/")
    found = exact or [item for item in every if item.ext_id.endswith(end) or item.external_name.endswith(end)]
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


def rename(tx: Transaction, item: Source, external_name: str) -> Source:
    """The source under the name that its provider gives it now; the name before goes into `source_names`. Safe to repeat."""
    key = {"org_id": item.org_id, "id": item.id}
    tx.execute(text("SELECT 1 FROM sources WHERE org_id = :org_id AND id = :id FOR UPDATE"), key)
    tx.execute(statement("rename_source"), {**key, "name": external_name})
    return replace(item, external_name=external_name)


def set_state(
    tx: Transaction,
    org_id: UUID,
    source_id: UUID,
    state: str,
    reason: str | None,
    *,
    evidence: Mapping[str, object] | None = None,
) -> None:
    """Write what the source proved to be, and what its provider said to that; `state_since` moves only when the state does.

    What either holds of a secret is redacted; what Postgres takes in no text, U+0000 and lone surrogates, is replaced.
    """
    tx.execute(
        text(
            "UPDATE sources SET state = :state, state_reason = :reason, state_evidence = CAST(:evidence AS jsonb), "
            "last_seen = now(), state_since = CASE WHEN state = :state THEN state_since ELSE now() END "
            "WHERE org_id = :org_id AND id = :id"
        ),
        {
            "org_id": org_id,
            "id": source_id,
            "state": state,
            "reason": told.text(reason),
            "evidence": told.document(evidence),
        },
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
    if dataset in COVERING_DATASETS:
        tx.execute(statement("touch_covered_days"), place)
    tx.execute(statement("move_cursor"), {**place, "tips": json.dumps(dict(walk.until))})


def disable_dataset(tx: Transaction, org_id: UUID, source_id: UUID, dataset: str, reason: str) -> None:
    """Write that the provider has this dataset of the source switched off; its cursor stays, the next complete walk ends it."""
    given = {"org_id": org_id, "source_id": source_id, "dataset": dataset, "reason": told.text(reason)}
    tx.execute(statement("disable_dataset"), given)


def resting_datasets(tx: Transaction, org_id: UUID, source_ids: Sequence[UUID]) -> frozenset[tuple[UUID, str]]:
    """Those of (source, dataset) that no schedule asks about yet.

    Their provider has switched them off and was asked about them less than a week ago, or the source is archived and they were
    read to the end less than a day ago.
    """
    rows = tx.execute(
        text(
            "SELECT c.source_id, c.dataset FROM sync_cursors c JOIN sources s ON s.org_id = c.org_id AND s.id = c.source_id "
            "WHERE c.org_id = :org_id AND c.source_id = ANY (CAST(:ids AS uuid[])) AND c.scope = '' "
            "AND (c.state = 'disabled' AND c.asked_at > now() - make_interval(days => :disabled_days) "
            "OR c.state = 'active' AND s.state = 'archived' AND c.last_complete_start > now() - make_interval(hours => :hours))"
        ),
        {"org_id": org_id, "ids": list(source_ids), "disabled_days": DISABLED_DAYS, "hours": ARCHIVED_HOURS},
    )
    return frozenset((row.source_id, row.dataset) for row in rows)


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


def set_credential(tx: Transaction, item: Source, credential_id: UUID | None) -> Source:
    """The source, read with this credential of its organisation from now on; None: without one."""
    tx.execute(
        text("UPDATE sources SET credential_id = :credential_id WHERE org_id = :org_id AND id = :id"),
        {"org_id": item.org_id, "id": item.id, "credential_id": credential_id},
    )
    return replace(item, credential_id=credential_id)

"""Positions and frames: how far a walk has come, and from which time on it reads, as text that is safe to store. Pure."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from worker_app import records
from worker_app.providers.github_fields import Json, iso, moment

OVERLAP = timedelta(seconds=300)  # read again behind the cursor: a write may show later than its own time says
# Runs and deployments are listed by creation, and go on for a while after it. What changes later than that is the sweep's.
LIFE = timedelta(days=3)


def packed(**fields: object) -> str:
    """The fields as compact JSON."""
    return json.dumps(fields, separators=(",", ":"), sort_keys=True)


def unpacked(position: str | None) -> Mapping[str, Any]:
    """The fields of a position; none at the start of a walk."""
    fields: Mapping[str, Any] = {} if position is None else json.loads(position)
    return fields


def before(next_url: str | None, **fields: object) -> str | None:
    """The position before the page of a REST list at `next_url`; None when there is no such page."""
    return None if next_url is None else packed(next=next_url, **fields)


def next_url(position: str | None) -> str | None:
    """The URL that `before` was given; None at the start of a walk."""
    url: str | None = unpacked(position).get("next")
    return url


def changed_since(cursor: records.Cursor) -> dict[str, str]:
    """The frame of a list by time of change: `updated_at`, inclusive. Empty: everything is read."""
    return {} if cursor.cursor_at is None else {"updated_at": iso(cursor.cursor_at - OVERLAP)}


def created_since(cursor: records.Cursor) -> dict[str, str]:
    """The frame of a list by time of creation: `created_at`, and `updated_at` for what is only read when it is new."""
    if cursor.cursor_at is None:
        return {}
    return {"created_at": iso(cursor.cursor_at - OVERLAP - LIFE), **changed_since(cursor)}


def changed(walk: records.Walk, page_size: int) -> dict[str, str]:
    """The parameters of a list by time of change, newest first."""
    since = {"since": walk.since["updated_at"]} if walk.since else {}
    return {"sort": "updated", "direction": "desc", "per_page": str(page_size), **since}


def is_since(at: str, since: str | None) -> bool:
    """Whether a time of GitHub is not before the beginning of a frame; None: the frame has none."""
    return since is None or moment(at) >= moment(since)


def created_in(walk: records.Walk, rows: Sequence[Json]) -> list[Json]:
    """The rows of a list, newest first, that a walk by time of creation has to read; the first one left out is its end."""
    return [row for row in rows if is_since(row["created_at"], walk.since.get("created_at"))]

"""Shapes: in which table each type of record lies and what tells two of its rows apart. A field of a record is a column.

A type of record that is new is one entry here and one table.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import TextClause, text

from worker_app import records
from worker_app.records import Record
from worker_app.store.postgres import statement


@dataclass(frozen=True, slots=True)
class Shape:
    """How one type of record is stored."""

    record: type[Any]
    table: str
    key: tuple[str, ...] = ("ext_id",)  # after org_id, provider and host
    proofs: tuple[str, ...] = ()  # flags that say "read to its end": a cut copy of the same age takes none back
    sql: str = "upsert_records"

    @property
    def columns(self) -> tuple[str, ...]:
        """What a row brings of its own; every row has an age, also where its record has none."""
        return tuple(dict.fromkeys([*(item.name for item in fields(self.record)), "updated_at"]))


# In this order every page takes its locks.
SHAPES = (
    Shape(records.Repository, "repositories"),
    Shape(records.Commit, "commits", ("repo_ext_id", "ext_id"), sql="upsert_commits"),
    Shape(records.PullRequest, "pull_requests", proofs=("detail_complete",)),
    Shape(records.PullRequestCommit, "pr_commits", ("pr_ext_id", "ext_id")),
    Shape(records.PullRequestEvent, "pr_events"),
    Shape(records.Review, "reviews", ("kind", "ext_id")),
    Shape(records.WorkItem, "work_items", proofs=("history_complete",)),
    Shape(records.Transition, "work_item_transitions", ("item_ext_id", "ext_id")),
    Shape(records.PipelineRun, "pipeline_runs", ("ext_id", "attempt")),
    Shape(records.Deployment, "deployments"),
)


def rows(shape: Shape, page: Iterable[Record], stamp: datetime) -> list[dict[str, object]]:
    """The page's records of this shape as rows, sorted by key, so that two pages never wait for each other in a circle.

    A record without an `updated_at` is as old as `stamp`. Of several with one key the newest stays; of those the one that
    was read to its end, then the last.
    """

    def age(item: Any) -> tuple[object, ...]:
        return getattr(item, "updated_at", stamp), *(getattr(item, name) for name in shape.proofs)

    identity = attrgetter(*shape.key)
    mine = sorted((item for item in page if isinstance(item, shape.record)), key=age)
    newest, columns = {identity(item): item for item in mine}, shape.columns
    return [{name: getattr(newest[key], name, stamp) for name in columns} for key in sorted(newest)]


@functools.cache
def upsert(shape: Shape) -> TextClause:
    """The statement that writes rows of this shape. Its names are those of SHAPES, never what somebody sent."""
    own = [name for name in shape.columns if name not in shape.key]
    kept = {name: f"excluded.{name}" for name in ("source_id", *own)}
    for name in shape.proofs:
        kept[name] = f"excluded.{name} OR t.{name} AND excluded.updated_at = t.updated_at"
    return text(
        statement(shape.sql).text.format(
            table=shape.table,
            columns=", ".join(shape.columns),
            key=", ".join(shape.key),
            changes=", ".join(f"{name} = {value}" for name, value in kept.items()),
            before=", ".join(f"t.{name}" for name in kept),
            after=", ".join(kept.values()),
        )
    )

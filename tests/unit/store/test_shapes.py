from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import get_args

from worker_app import records
from worker_app.records import PipelineRun, Record, Repository, UnreachableCommit, WorkItem
from worker_app.store import shapes
from worker_app.store.shapes import SHAPES, Shape

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ISSUE = WorkItem(
    ext_id="I_7", key="acme/api#7", project_ext_id="42", type="issue", status="open", status_category="todo", resolution=None,
    assignee_ext_id=None, points=None, created_at=NOON, updated_at=NOON, resolved_at=None, history_complete=False,
)  # fmt: skip


def shape_of(record: type) -> Shape:
    return next(item for item in SHAPES if item.record is record)


def test_every_type_of_record_lies_in_one_table() -> None:
    assert {shape.record for shape in SHAPES} == set(get_args(records.Record)) - {UnreachableCommit}
    assert len({shape.table for shape in SHAPES}) == len(SHAPES)


def test_row_has_the_fields_of_its_record_and_an_age() -> None:
    for shape in SHAPES:
        assert set(shape.columns) == {item.name for item in fields(shape.record)} | {"updated_at"}


def test_record_without_an_age_is_as_old_as_the_walk() -> None:
    given: list[Record] = [Repository("42", "acme/api", "main"), ISSUE]
    (row,) = shapes.rows(shape_of(Repository), given, NOON)
    assert row == {
        "ext_id": "42", "full_name": "acme/api", "default_branch": "main", "is_archived": None, "updated_at": NOON,
    }  # fmt: skip


def test_of_one_key_the_newest_is_kept_wherever_it_stands() -> None:
    newer = replace(ISSUE, status="closed", updated_at=NOON + HOUR)
    for given in ([ISSUE, newer], [newer, ISSUE]):
        assert [row["status"] for row in shapes.rows(shape_of(WorkItem), given, NOON)] == ["closed"]


def test_of_one_age_the_copy_that_was_read_to_its_end_is_kept_then_the_last() -> None:
    whole = replace(ISSUE, history_complete=True)
    for given in ([ISSUE, whole], [whole, ISSUE]):
        assert [row["history_complete"] for row in shapes.rows(shape_of(WorkItem), given, NOON)] == [True]
    later = replace(ISSUE, points=3.0)
    assert [row["points"] for row in shapes.rows(shape_of(WorkItem), [ISSUE, later], NOON)] == [3.0]


def test_rows_are_in_the_order_of_their_keys() -> None:
    def run(ext_id: str, attempt: int) -> PipelineRun:
        return PipelineRun(
            ext_id=ext_id, attempt=attempt, repo_ext_id="42", name="ci", ref="main", sha="a", status="succeeded",
            created_at=NOON, updated_at=NOON, started_at=NOON, finished_at=NOON,
        )  # fmt: skip

    given = [run("2", 10), run("2", 9), run("1", 1)]
    found = [(row["ext_id"], row["attempt"]) for row in shapes.rows(shape_of(PipelineRun), given, NOON)]
    assert found == [("1", 1), ("2", 9), ("2", 10)]

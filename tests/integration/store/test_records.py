"""The record store: one row per identity, whoever brings it and how often, and the newest of its versions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from tests.seed import NOON, Seed, column
from worker_app import errors
from worker_app.records import (
    Commit,
    Deployment,
    PipelineRun,
    PullRequest,
    PullRequestCommit,
    PullRequestEvent,
    Record,
    Repository,
    Review,
    Transition,
    WorkItem,
)
from worker_app.store import records, shapes, sources
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

HOUR = timedelta(hours=1)
AFTER_2_31 = "2310943199"
AFTER_2_53 = "9007199254740993"
REPOSITORY = Repository(ext_id=AFTER_2_31, full_name="acme/api", default_branch="main", is_archived=False)
COMMIT = Commit(
    ext_id="a" * 40, repo_ext_id=AFTER_2_31, author_ext_id="U_1", author_email_hash=bytes(range(32)), authored_at=NOON - HOUR,
    committed_at=NOON, is_merge=False, files=1, additions=2**53 + 1, deletions=1,
)  # fmt: skip
PULL = PullRequest(
    ext_id=AFTER_2_53, repo_ext_id=AFTER_2_31, number=2**53 + 1, title='Fix 🚀 "quotes" \\u0000', author_ext_id="U_1",
    author_is_bot=False, state="merged", is_draft=False, created_at=NOON - HOUR, updated_at=NOON, merged_at=NOON, closed_at=NOON,
    head_sha="b" * 40, merge_sha="c" * 40, head_ref="fix", base_ref="main", commits_total=2, additions=2**31, deletions=0,
    reverts_number=2**31, detail_complete=True,
)  # fmt: skip
PULL_COMMIT = PullRequestCommit("b" * 40, AFTER_2_53, 0, None, NOON)
EVENT = PullRequestEvent("E_1", AFTER_2_53, "ready", "U_1", NOON - HOUR, NOON)
REVIEW = Review("2310943200", "review", AFTER_2_53, "U_2", False, "approved", "b" * 40, NOON, NOON)
ISSUE = WorkItem(
    ext_id="I_7", key="acme/api#7", project_ext_id=AFTER_2_31, type="issue", status="open", status_category="todo",
    resolution=None, assignee_ext_id=None, points=0.5, created_at=NOON - HOUR, updated_at=NOON, resolved_at=None,
    history_complete=True,
)  # fmt: skip
TRANSITION = Transition("T_1", "I_7", None, "closed", "todo", "done", "U_1", NOON, NOON)
PIPELINE = PipelineRun(AFTER_2_53, 1, AFTER_2_31, "ci", "main", "a" * 40, "running", NOON, NOON, NOON, None)
DEPLOYMENT = Deployment(
    "9", AFTER_2_31, "prod", "production", "c" * 40, "succeeded", "prod/c", NOON - HOUR, NOON, NOON + HOUR / 7
)
EVERY: tuple[Record, ...] = (
    REPOSITORY, COMMIT, PULL, PULL_COMMIT, EVENT, REVIEW, ISSUE, TRANSITION, PIPELINE, DEPLOYMENT,
)  # fmt: skip
AGED = tuple(item for item in EVERY if hasattr(item, "updated_at"))


def name(item: object) -> str:
    return type(item).__name__


def table_of(item: Record) -> str:
    return next(shape.table for shape in shapes.SHAPES if isinstance(item, shape.record))


def write(postgres: Postgres, made: Seed, *page: Record, stamp: datetime = NOON) -> None:
    with postgres.transaction() as tx:
        records.write(tx, made.source, page, stamp)


def stored(postgres: Postgres, item: Record) -> list[Mapping[str, Any]]:
    """The rows of the item's table, as far as they are the record's own fields."""
    names = [field.name for field in fields(item)]
    with postgres.transaction() as tx:
        rows = tx.execute(text(f"SELECT {', '.join(names)} FROM {table_of(item)} ORDER BY ext_id")).mappings()
        return [{key: bytes(v) if isinstance(v, memoryview) else v for key, v in row.items()} for row in rows]


def versions(postgres: Postgres, item: Record) -> Sequence[object]:
    """What Postgres changes whenever it writes a row."""
    return column(postgres, f"SELECT xmin || ' ' || ctid FROM {table_of(item)}")


@pytest.mark.parametrize("item", EVERY, ids=name)
def test_record_is_read_back_as_it_was_written(postgres: Postgres, api: Seed, item: Record) -> None:
    write(postgres, api, item)
    assert stored(postgres, item) == [asdict(item)]
    place = f"SELECT provider || ' ' || host || ' ' || source_id FROM {table_of(item)}"
    assert column(postgres, place) == [f"github github.com {api.source.id}"]


def test_page_of_every_type_is_written_at_once(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, *EVERY)
    assert [stored(postgres, item) for item in EVERY] == [[asdict(item)] for item in EVERY]


def test_empty_page_writes_nothing(postgres: Postgres, api: Seed) -> None:
    write(postgres, api)
    assert stored(postgres, PULL) == []


def test_f30_ids_above_31_and_53_bits_are_stored_exactly(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, PULL, PIPELINE)
    assert column(postgres, "SELECT repo_ext_id || ' ' || ext_id || ' ' || number FROM pull_requests") == [
        "2310943199 9007199254740993 9007199254740993"
    ]
    assert column(postgres, "SELECT ext_id FROM pipeline_runs") == ["9007199254740993"]


def test_f28_pending_review_has_no_time(postgres: Postgres, api: Seed) -> None:
    pending = replace(REVIEW, state="pending", submitted_at=None)
    write(postgres, api, pending)
    assert stored(postgres, pending) == [asdict(pending)]
    write(postgres, api, REVIEW)
    assert column(postgres, "SELECT state FROM reviews WHERE submitted_at IS NOT NULL") == ["approved"]


def test_f20_record_without_an_author_is_stored_without_one(postgres: Postgres, api: Seed) -> None:
    ghosts: tuple[Record, ...] = (
        replace(COMMIT, author_ext_id=None, author_email_hash=None),
        replace(PULL, author_ext_id=None, author_is_bot=None),
        replace(EVENT, actor_ext_id=None),
        replace(REVIEW, reviewer_ext_id=None, reviewer_is_bot=None),
        replace(TRANSITION, actor_ext_id=None),
    )
    write(postgres, api, *ghosts)
    assert [stored(postgres, item) for item in ghosts] == [[asdict(item)] for item in ghosts]


def test_f43_time_with_an_offset_is_the_same_instant(postgres: Postgres, api: Seed) -> None:
    at = datetime.fromisoformat("2026-02-28T19:30:00.123456-05:00")
    write(postgres, api, replace(PULL, merged_at=at))
    assert column(postgres, "SELECT merged_at FROM pull_requests") == [datetime(2026, 3, 1, 0, 30, 0, 123456, UTC)]


@pytest.mark.parametrize("item", AGED, ids=name)
def test_older_page_never_overwrites_a_newer_one(postgres: Postgres, api: Seed, item: Any) -> None:
    newer = replace(item, updated_at=NOON + HOUR)
    write(postgres, api, newer)
    write(postgres, api, item, stamp=NOON + 9 * HOUR)  # a late hook: its walk is new, what it brings is not
    assert stored(postgres, item) == [asdict(newer)]
    newest = replace(item, updated_at=NOON + 2 * HOUR)
    write(postgres, api, newest)
    assert stored(postgres, item) == [asdict(newest)]


def test_older_walk_never_overwrites_the_repository_of_a_newer_one(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, replace(REPOSITORY, full_name="acme/new"), stamp=NOON + HOUR)
    write(postgres, api, REPOSITORY, stamp=NOON)
    assert column(postgres, "SELECT full_name FROM repositories") == ["acme/new"]


@pytest.mark.parametrize("item", EVERY, ids=name)
def test_repeat_changes_nothing(postgres: Postgres, api: Seed, item: Record) -> None:
    write(postgres, api, item)
    before = versions(postgres, item)
    write(postgres, api, item)
    assert stored(postgres, item) == [asdict(item)]
    if not isinstance(item, Commit):  # which keeps the stamp of the walk that met it last
        assert versions(postgres, item) == before, "a repeat wrote the row again"


def test_change_of_the_same_age_is_taken(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, PULL, PIPELINE)
    write(postgres, api, replace(PULL, merge_sha=None), replace(PIPELINE, status="succeeded"))
    assert column(postgres, "SELECT merge_sha FROM pull_requests") == [None]
    assert column(postgres, "SELECT status FROM pipeline_runs") == ["succeeded"]


def test_key_that_stands_twice_in_a_page_is_one_row_and_the_newest_wins(postgres: Postgres, api: Seed) -> None:
    newer = replace(PULL, title="newer", updated_at=NOON + HOUR)
    last = replace(COMMIT, additions=7)
    write(postgres, api, newer, PULL, COMMIT, last, REPOSITORY, REPOSITORY)
    assert stored(postgres, PULL) == [asdict(newer)]
    assert stored(postgres, COMMIT) == [asdict(last)]
    assert stored(postgres, REPOSITORY) == [asdict(REPOSITORY)]


@pytest.mark.parametrize(("item", "flag"), [(PULL, "detail_complete"), (ISSUE, "history_complete")])
def test_cut_copy_takes_back_no_proof_of_the_same_age_and_a_newer_one_does(
    postgres: Postgres, api: Seed, item: Any, flag: str
) -> None:
    cut = replace(item, **{flag: False})
    write(postgres, api, item)
    before = versions(postgres, item)
    write(postgres, api, cut)
    assert stored(postgres, item) == [asdict(item)]
    assert versions(postgres, item) == before
    write(postgres, api, replace(cut, updated_at=NOON + HOUR))
    assert [row[flag] for row in stored(postgres, item)] == [False]
    write(postgres, api, replace(item, updated_at=NOON + HOUR))
    assert [row[flag] for row in stored(postgres, item)] == [True]


def test_attempts_of_a_run_and_kinds_of_a_review_are_rows_of_their_own(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, PIPELINE, replace(PIPELINE, attempt=2), REVIEW, replace(REVIEW, kind="comment", state=None))
    assert column(postgres, "SELECT attempt FROM pipeline_runs ORDER BY attempt") == [1, 2]
    assert column(postgres, "SELECT kind FROM reviews ORDER BY kind") == ["comment", "review"]


def test_record_that_another_source_brings_stays_one_row(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, ISSUE)
    with postgres.transaction() as tx:
        other = sources.add_source(tx, api.org.id, "github", "github.com", "acme/web", "43")
        records.write(tx, other, [replace(ISSUE, key="acme/web#1")], NOON)
    assert column(postgres, "SELECT key || ' ' || source_id FROM work_items") == [f"acme/web#1 {other.id}"]


def test_organisations_hosts_and_providers_never_meet(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, PULL)
    with postgres.transaction() as tx:
        rival = sources.add_org(tx, "rival", "UTC")
        for org_id, host in [(rival.id, "github.com"), (api.org.id, "ghe.acme.com")]:
            source = sources.add_source(tx, org_id, "github", host, "acme/api", AFTER_2_31)
            records.write(tx, source, [replace(PULL, title=host, updated_at=NOON + HOUR)], NOON)
    assert column(postgres, "SELECT title FROM pull_requests WHERE org_id = :id ORDER BY host", id=api.org.id) == [
        "ghe.acme.com",
        PULL.title,
    ]


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (replace(PULL, title="a\x00b"), "pull_requests of acme/api: unsupported Unicode escape sequence"),
        (replace(PULL, title="a \ud83d b"), "pull_requests of acme/api: invalid input syntax for type json"),
        (replace(ISSUE, status_category="later"), "work_items of acme/api: .* violates check constraint"),
        (replace(ISSUE, points=float("nan")), "work_items of acme/api: invalid input syntax for type json"),
    ],
    ids=["nul", "surrogate", "word", "nan"],
)
def test_f42_record_that_postgres_cannot_take_is_refused_with_its_page_and_breaks_no_transaction(
    postgres: Postgres, api: Seed, broken: Record, what: str
) -> None:
    with postgres.transaction() as tx:
        with pytest.raises(errors.RowRefused, match=what):
            records.write(tx, api.source, [REPOSITORY, broken], NOON)
        records.write(tx, api.source, [DEPLOYMENT], NOON)
    assert stored(postgres, REPOSITORY) == []
    assert stored(postgres, DEPLOYMENT) == [asdict(DEPLOYMENT)]


def test_commits_of_a_code_host_mark_their_days(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, COMMIT, replace(COMMIT, ext_id="d" * 40, committed_at=NOON - 24 * HOUR))
    assert [str(day) for day in column(postgres, "SELECT day FROM touched_days ORDER BY day")] == [
        "2026-05-31",
        "2026-06-01",
    ]


def test_commit_read_through_git_and_through_its_host_is_two_records(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, COMMIT)
    with postgres.transaction() as tx:
        mirror = sources.add_source(
            tx, api.org.id, "git", "github.com", "https://github.com/acme/api", "github.com/acme/api"
        )
        records.write(tx, mirror, [replace(COMMIT, repo_ext_id=mirror.ext_id)], NOON)
    assert column(postgres, "SELECT provider FROM commits WHERE org_id = :id ORDER BY 1", id=api.org.id) == [
        "git",
        "github",
    ]


def test_records_of_an_organisation_go_with_it(postgres: Postgres, api: Seed) -> None:
    write(postgres, api, *EVERY)
    with postgres.transaction() as tx:
        tx.execute(text("DELETE FROM orgs WHERE id = :id"), {"id": api.org.id})
    assert [stored(postgres, item) for item in EVERY] == [[]] * len(EVERY)

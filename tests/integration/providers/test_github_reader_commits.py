import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.github_answers import NOW
from tests.integration.providers import github_truth
from tests.integration.providers.github_sync import Hosted, Tables, hosting
from worker_app import errors, records
from worker_app.demo import faults
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.history import Historian
from worker_app.demo.recipe import Recipe
from worker_app.demo.things import Commit

RECIPE = Recipe(seed=3, repositories=1, pull_requests=0, issues=0, runs=0, deployments=0, pushes=60)


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    with hosting(FakeGitHub(generate(RECIPE))) as running:
        yield running


@pytest.fixture
def tables(hosted: Hosted) -> Tables:
    """After a first sync."""
    made = Tables(hosted, "commits", hosted.source(), page_size=10)
    assert made.run()
    hosted.fake.log.clear()
    return made


@pytest.fixture
def historian(hosted: Hosted) -> Historian:
    return Historian(hosted.fake.world, hosted.repository(), random.Random(1), "later")


def read(tables: Tables) -> list[str]:
    """The shas that the last run brought."""
    found = [record for page in tables.pages for record in page.records]
    return [record.ext_id for record in found if isinstance(record, records.Commit)]


def is_equal_to_the_world(tables: Tables) -> bool:
    return github_truth.shown(tables) == github_truth.wanted(tables.hosted.fake.truth()["acme/api"], "commits")


def head_of(hosted: Hosted) -> Commit:
    repository = hosted.repository()
    assert repository.head is not None
    return repository.commits[repository.head]


def test_first_walk_expects_as_many_commits_as_github_counts(hosted: Hosted) -> None:
    walk = Tables(hosted, "commits", hosted.source()).begin()

    assert (walk.total, walk.is_full, dict(walk.since)) == (60, True, {})
    assert dict(walk.until) == {"refs/heads/main": head_of(hosted).sha}


def test_history_that_github_cannot_count_in_time_is_read_all_the_same(hosted: Hosted) -> None:
    hosted.fake.faults.add(faults.status(502), path="/graphql")
    tables = Tables(hosted, "commits", hosted.source())

    assert tables.run()

    assert is_equal_to_the_world(tables)


def test_nothing_new_costs_no_quota(hosted: Hosted, tables: Tables) -> None:
    assert tables.run()

    assert read(tables) == []
    assert [entry.status for entry in hosted.fake.log.entries()] == [304, 304, 304]
    assert sum(entry.cost for entry in hosted.fake.log.entries()) == 0


def test_only_new_commits_are_read(hosted: Hosted, tables: Tables, historian: Historian) -> None:
    new = [historian.push(NOW + timedelta(seconds=second), None).sha for second in range(3)]

    walk = tables.begin()
    assert tables.run()

    assert (walk.total, walk.is_full) == (3, False)
    assert read(tables) == new[::-1]
    assert len(hosted.asked("graphql")) == 3  # the totals, twice, and one page
    assert is_equal_to_the_world(tables)


def test_late_push_of_old_commits_is_found(hosted: Hosted, tables: Tables, historian: Historian) -> None:
    old = min(hosted.repository().commits.values(), key=lambda commit: commit.committed_at)
    late = historian.write(old.committed_at + timedelta(seconds=1), None, (old.sha,), "Late")
    later = historian.write(old.committed_at + timedelta(seconds=2), None, (late.sha,), "Later")
    merge = historian.advance(historian.write(NOW, None, (head_of(hosted).sha, later.sha), "Merge"), NOW)

    assert tables.run()

    assert set(read(tables)) == {late.sha, later.sha, merge.sha}
    assert is_equal_to_the_world(tables)


def test_walk_goes_on_after_a_kill_at_every_page(hosted: Hosted, tables: Tables, historian: Historian) -> None:
    base = head_of(hosted)
    for second in range(25):
        historian.push(base.committed_at + timedelta(seconds=second), None)
    tables.page_size = 4

    assert tables.run(kill=lambda: True)

    assert len(read(tables)) == len(set(read(tables))) == 25
    assert is_equal_to_the_world(tables)


def test_forced_push_reads_everything_and_marks_what_is_lost(
    hosted: Hosted, tables: Tables, historian: Historian
) -> None:
    lost = head_of(hosted)
    hosted.repository().head = lost.parents[0]
    historian.push(NOW, None)

    walk = tables.begin()
    tables.cursor = replace(tables.cursor, cursor_at=None)
    tables.stamps = {sha: NOW.replace(year=2000) for sha in tables.stamps}
    assert tables.run()

    assert (walk.is_full, walk.total) == (True, 60)
    assert tables.unreachable == {lost.sha}
    assert is_equal_to_the_world(tables)


def test_comparison_that_github_cannot_make_is_left_to_the_walk(
    hosted: Hosted, tables: Tables, historian: Historian
) -> None:
    hosted.fake.faults.add(faults.status(503), path=".*/compare/.*")
    new = historian.push(NOW, None)

    assert tables.run()

    assert read(tables) == [new.sha]


def test_forced_push_that_no_comparison_told_is_read_anew_by_the_next_run(
    hosted: Hosted, tables: Tables, historian: Historian
) -> None:
    lost = head_of(hosted)
    hosted.fake.faults.add(faults.status(503), path=".*/compare/.*")
    hosted.repository().head = lost.parents[0]
    historian.push(NOW, None)
    tables.stamps = {sha: NOW.replace(year=2000) for sha in tables.stamps}
    cursor = tables.cursor

    assert not tables.run()
    assert tables.cursor == cursor
    assert "no longer holds" in tables.reasons[0]

    assert tables.run()
    assert tables.unreachable == {lost.sha}
    assert is_equal_to_the_world(tables)


def test_branch_that_went_back_reads_everything(hosted: Hosted, tables: Tables) -> None:
    hosted.repository().head = head_of(hosted).parents[0]

    assert tables.begin().is_full


@pytest.mark.parametrize("tip", ["0" * 40, "not a sha"])
def test_tip_that_github_has_forgotten_reads_everything(hosted: Hosted, tables: Tables, tip: str) -> None:
    tables.cursor = records.Cursor(NOW, {"refs/heads/main": tip})

    assert tables.begin().is_full


def test_default_branch_with_another_name_keeps_the_tip(hosted: Hosted, tables: Tables, historian: Historian) -> None:
    hosted.repository().default_branch = "trunk"
    new = historian.push(NOW, None)

    walk = tables.begin()

    assert dict(walk.until) == {"refs/heads/trunk": new.sha}
    assert not walk.is_full


def test_head_that_is_gone_in_mid_walk_begins_the_walk_anew(hosted: Hosted) -> None:
    tables = Tables(hosted, "commits", hosted.source())
    walk = tables.begin()
    lost = walk.until["refs/heads/main"]
    del hosted.repository().commits[lost]

    with pytest.raises(errors.WalkLost):
        list(hosted.reader("commits").read(tables.source, walk, None))


def test_f22_empty_repository_is_a_state_with_no_rows(hosted: Hosted) -> None:
    hosted.repository().head = None
    tables = Tables(hosted, "commits", hosted.source())

    walk = tables.begin()
    assert tables.run()

    assert (walk.state, walk.total, walk.is_full) == ("empty", 0, True)
    assert [type(record) for page in tables.pages for record in page.records] == [records.Repository]
    assert tables.cursor.cursor_at is not None


def test_f22_any_other_409_is_an_error(hosted: Hosted) -> None:
    hosted.fake.faults.add(faults.status(409, "Conflict"), path=".*/commits")

    with pytest.raises(errors.ProviderRefused) as refused:
        Tables(hosted, "commits", hosted.source()).run()
    assert refused.value.status == 409


def test_other_datasets_leave_an_empty_repository_empty(hosted: Hosted) -> None:
    source = hosted.source(state="empty")

    assert hosted.reader("pull_requests").begin(source, records.Cursor(), NOW).state == "empty"
    assert hosted.reader("commits").begin(source, records.Cursor(), NOW).state == "active"


def test_archived_repository_is_a_state(hosted: Hosted) -> None:
    hosted.repository().is_archived = True

    assert Tables(hosted, "commits", hosted.source()).begin().state == "archived"
    assert Tables(hosted, "deployments", hosted.source()).begin().state == "archived"

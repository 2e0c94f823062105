import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.github_answers import NOW
from tests.integration.providers import github_truth
from tests.integration.providers.github_changes import now
from tests.integration.providers.github_sync import Hosted, Tables, hosting
from worker_app import errors, records
from worker_app.demo import faults
from worker_app.demo.editor import Editor
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.messages import Request, Response
from worker_app.demo.recipe import Recipe
from worker_app.providers import github_position

RECIPE = Recipe(seed=5, repositories=1, pull_requests=30, issues=20, runs=8, deployments=4)


@pytest.fixture
def hosted(request: pytest.FixtureRequest) -> Iterator[Hosted]:
    recipe = replace(RECIPE, **getattr(request, "param", {}))
    with hosting(FakeGitHub(generate(recipe))) as running:
        yield running


def is_equal_to_the_world(tables: Tables) -> bool:
    truth = tables.hosted.fake.truth()[tables.hosted.repository(tables.source.external_name).full_name]
    return github_truth.shown(tables) == github_truth.wanted(truth, tables.dataset)


def rewriting(change: Callable[[Any], None]) -> faults.Change:
    """Send the right answer after a change to its document."""

    def rewrite(_: Request, response: Response) -> Response:
        document = json.loads(response.body or b"null")
        change(document)
        response.body, response.is_misbehaviour = json.dumps(document).encode(), True
        return response

    return rewrite


def sizes(hosted: Hosted) -> list[int]:
    """How many items each GraphQL page asked for."""
    asked = [entry.body["variables"] for entry in hosted.fake.log.entries() if isinstance(entry.body, dict)]
    return [variables["first"] for variables in asked if "first" in variables]


@pytest.mark.parametrize("code", [502, 504])
@pytest.mark.parametrize("dataset", ["pull_requests", "commits"])
def test_f17_big_page_that_fails_shrinks_and_nothing_is_lost(hosted: Hosted, dataset: str, code: int) -> None:
    hosted.fake.faults.add(_above(5, code), path="/graphql", times=None)
    tables = Tables(hosted, dataset, hosted.source())

    assert tables.run()

    assert sizes(hosted)[:3] == [25, 12, 6]
    assert 0 not in sizes(hosted)
    assert is_equal_to_the_world(tables)


def _above(most: int, code: int) -> faults.Change:
    def change(request: Request, response: Response) -> Response:
        asked = request.document["variables"].get("first", 0)
        return faults.status(code)(request, response) if asked > most else response

    return change


def test_f17_page_grows_back_when_it_was_a_passing_fault(hosted: Hosted) -> None:
    hosted.fake.faults.add(faults.something_went_wrong(), path="/graphql", times=3, skip=1)
    tables = Tables(hosted, "pull_requests", hosted.source())

    assert tables.run()

    assert sizes(hosted)[:4] == [25, 12, 6, 3]
    assert max(sizes(hosted)[4:]) > 3
    assert is_equal_to_the_world(tables)


def test_f17_histories_of_issues_shrink_too(hosted: Hosted) -> None:
    hosted.fake.faults.add(faults.status(502), path="/graphql", times=2)
    tables = Tables(hosted, "work_items", hosted.source())

    assert tables.run()

    counts = [
        len(entry.body["variables"]["ids"]) for entry in hosted.fake.log.entries() if isinstance(entry.body, dict)
    ]
    assert counts[:3] == [20, 12, 6]
    assert is_equal_to_the_world(tables)


def test_f17_page_of_one_item_that_fails_is_tried_by_another_batch(hosted: Hosted) -> None:
    hosted.fake.faults.add(faults.status(502), path="/graphql", times=None)
    tables = Tables(hosted, "pull_requests", hosted.source())

    with pytest.raises(errors.ProviderFault):
        tables.run()
    hosted.fake.faults.lift()

    assert tables.run()
    assert is_equal_to_the_world(tables)


@pytest.mark.parametrize("dataset", ["pull_requests", "review_comments", "work_items"])
@pytest.mark.parametrize("hosted", [{"ghost_share": 0.5}], indirect=True)
def test_f20_f21_ghosts_are_nobody_in_rest_and_in_graphql(hosted: Hosted, dataset: str) -> None:
    tables = Tables(hosted, dataset, hosted.source())

    assert tables.run()

    assert is_equal_to_the_world(tables)
    assert hosted.fake.world.ghost.node_id not in str(tables.rows)


def test_f20_user_that_is_null_is_nobody() -> None:
    with hosting(FakeGitHub(generate(replace(RECIPE, ghost_share=0.5)), null_users=True)) as hosted:
        tables = Tables(hosted, "review_comments", hosted.source())

        assert tables.run()

        assert None in {comment.reviewer_ext_id for comment in tables.of(records.Review).values()}
        assert is_equal_to_the_world(tables)


def test_f23_switched_off_issues_are_a_disabled_dataset(hosted: Hosted) -> None:
    hosted.repository().has_issues = False

    with pytest.raises(errors.DatasetDisabled):
        Tables(hosted, "work_items", hosted.source()).begin()
    assert Tables(hosted, "pull_requests", hosted.source()).run()


def test_f23_410_in_mid_walk_is_a_disabled_dataset(hosted: Hosted) -> None:
    tables = Tables(hosted, "work_items", hosted.source(), page_size=5)
    hosted.fake.faults.add(faults.status(410, "Issues are disabled for this repo"), path=".*/issues", skip=1)

    with pytest.raises(errors.DatasetDisabled):
        tables.run()


def test_f24_repository_behind_single_sign_on_is_a_state_with_a_link(hosted: Hosted) -> None:
    source = hosted.source()
    hosted.repository().demands_sso = True

    with pytest.raises(errors.SourceUnavailable) as refused:
        hosted.reader("commits").begin(source, records.Cursor(), NOW)

    assert refused.value.state == "sso_required"
    assert "https://github.com/orgs/acme/sso" in str(refused.value)
    assert refused.value.evidence is not None
    assert refused.value.evidence["status"] == 403
    assert len(hosted.fake.log.entries()) == 1


def test_f24_null_nodes_of_graphql_are_the_same_state(hosted: Hosted) -> None:
    saml = {"type": "FORBIDDEN", "message": "SAML", "extensions": {"saml_failure": True}}
    hosted.fake.faults.add(
        rewriting(lambda document: document.update(data={"repository": None}, errors=[saml])), path="/graphql"
    )

    with pytest.raises(errors.SourceUnavailable) as refused:
        Tables(hosted, "pull_requests", hosted.source()).run()
    assert refused.value.state == "sso_required"


def test_repository_that_is_gone_is_asked_again_in_the_next_run(hosted: Hosted) -> None:
    source = hosted.source()
    hosted.repository().is_deleted = True

    with pytest.raises(errors.SourceUnavailable) as refused:
        hosted.reader("commits").begin(source, records.Cursor(), NOW)
    assert refused.value.state == "inaccessible"


@pytest.mark.parametrize("dataset", ["commits", "pull_requests", "work_items", "pipeline_runs"])
def test_f25_renamed_repository_is_the_same_source_under_its_new_name(hosted: Hosted, dataset: str) -> None:
    source = hosted.source()
    tables = Tables(hosted, dataset, source, page_size=5)
    assert tables.run()
    before = set(tables.rows)

    hosted.fake.world.move(hosted.repository(), name="backend")
    tables.source = replace(source, external_name="acme/backend")
    tables.cursor = records.Cursor()

    assert tables.run()
    assert is_equal_to_the_world(tables)
    assert set(tables.rows) == before
    (described,) = tables.of(records.Repository).values()
    assert (described.ext_id, described.full_name) == (source.ext_id, "acme/backend")


@pytest.mark.parametrize("dataset", ["commits", "pull_requests", "work_items", "pipeline_runs", "deployments"])
def test_f25_rename_in_mid_walk_loses_nothing(hosted: Hosted, dataset: str) -> None:
    tables = Tables(hosted, dataset, hosted.source(), page_size=3)
    left = iter(range(6))

    def rename(_: Request) -> None:
        if next(left, None) == 5:
            hosted.fake.world.move(hosted.repository(), name="backend")

    hosted.fake.before_each_answer(rename)

    assert tables.run(kill=lambda: True)

    tables.source = replace(tables.source, external_name="acme/backend")
    assert is_equal_to_the_world(tables)


@pytest.mark.parametrize("hosted", [{"tick_seconds": 90 * 86_400, "issues": 3}], indirect=True)
@pytest.mark.parametrize("dataset", ["work_items", "pull_requests", "review_comments"])
def test_f27_items_with_equal_times_are_all_read(hosted: Hosted, dataset: str) -> None:
    tables = Tables(hosted, dataset, hosted.source(), page_size=2)

    assert tables.run()
    assert is_equal_to_the_world(tables)

    oldest = min(row.updated_at for row in tables.rows.values() if hasattr(row, "updated_at"))
    tables.rows.clear()
    tables.cursor = records.Cursor(oldest + github_position.OVERLAP)
    assert tables.run()
    assert is_equal_to_the_world(tables)


def test_f28_pending_review_is_stored_without_a_time(hosted: Hosted) -> None:
    pull = hosted.repository().pulls[min(hosted.repository().pulls)]
    Editor(hosted.fake.world, hosted.repository()).review(pull, now(), hosted.fake.service.viewer, "PENDING")
    tables = Tables(hosted, "pull_requests", hosted.source())

    assert tables.run()

    pending = [review for review in tables.of(records.Review).values() if review.state == "pending"]
    assert [review.submitted_at for review in pending] == [None]
    assert is_equal_to_the_world(tables)


@pytest.mark.parametrize("hosted", [{"long_pull_commits": 251}], indirect=True)
def test_f29_pull_request_with_251_commits_has_them_all(hosted: Hosted) -> None:
    tables = Tables(hosted, "pull_requests", hosted.source())

    assert tables.run(kill=lambda: True)

    assert max(pull.commits_total for pull in tables.of(records.PullRequest).values()) == 251
    assert is_equal_to_the_world(tables)


@pytest.mark.parametrize("hosted", [{"long_pull_commits": 251}], indirect=True)
def test_f29_commits_that_github_never_shows_are_flagged(hosted: Hosted) -> None:
    def stop(document: Any) -> None:
        commits = ((document["data"].get("node") or {}).get("commits")) or {"pageInfo": {}}
        commits["pageInfo"]["hasNextPage"] = False

    hosted.fake.faults.add(rewriting(stop), path="/graphql", times=None)
    tables = Tables(hosted, "pull_requests", hosted.source())

    assert tables.run()

    flagged = [pull for pull in tables.of(records.PullRequest).values() if not pull.detail_complete]
    assert [pull.commits_total for pull in flagged] == [251]


def test_reviews_that_github_counts_and_does_not_show_are_no_complete_walk(hosted: Hosted) -> None:
    def hide(document: Any) -> None:
        for edge in (document["data"]["repository"]["pullRequests"]).get("edges", ()):
            edge["node"]["reviews"]["totalCount"] += 1

    hosted.fake.faults.add(rewriting(hide), path="/graphql", times=None)
    tables = Tables(hosted, "pull_requests", hosted.source())

    assert not tables.run()
    assert "withheld reviews" in tables.reasons[0]
    assert tables.cursor == records.Cursor()


def test_long_history_of_an_issue_is_read_to_its_end(hosted: Hosted) -> None:
    issue = hosted.repository().issues[max(hosted.repository().issues)]
    editor = Editor(hosted.fake.world, hosted.repository())
    for _ in range(130):
        editor.close(issue, now(), None, "completed")
        editor.reopen(issue, now(), None)
    tables = Tables(hosted, "work_items", hosted.source())

    assert tables.run()

    assert is_equal_to_the_world(tables)


def test_issue_that_goes_between_list_and_history_is_told(hosted: Hosted) -> None:
    gone = hosted.repository().issues[max(hosted.repository().issues)]

    def delete(request: Request) -> None:
        if request.path == "/graphql":
            hosted.fake.world.places.pop(gone.node_id, None)

    hosted.fake.before_each_answer(delete)
    tables = Tables(hosted, "work_items", hosted.source())

    assert not tables.run()
    assert tables.of(records.WorkItem)[str(gone.issue_id),].history_complete is False
    assert len(tables.of(records.WorkItem)) == 20


@pytest.mark.parametrize("hosted", [{"first_id": 2**53 + 1}], indirect=True)
@pytest.mark.parametrize(
    "dataset", ["pull_requests", "review_comments", "work_items", "pipeline_runs", "deployments", "commits"]
)
def test_f30_ids_beyond_a_double_are_exact(hosted: Hosted, dataset: str) -> None:
    tables = Tables(hosted, dataset, hosted.source())

    assert tables.run()

    assert int(tables.source.ext_id) > 2**53
    assert is_equal_to_the_world(tables)


@pytest.mark.parametrize("hosted", [{"has_strange_text": True}], indirect=True)
@pytest.mark.parametrize("dataset", ["pull_requests", "work_items"])
def test_f42_text_that_no_store_takes_is_replaced_and_counted(hosted: Hosted, dataset: str) -> None:
    tables = Tables(hosted, dataset, hosted.source())

    assert tables.run()

    assert tables.replaced_bytes > 0
    assert is_equal_to_the_world(tables)
    assert not any("\0" in str(row) or "\ud83d" in str(row) for row in tables.rows.values())


def test_list_with_organisations_left_out_is_no_complete_walk(hosted: Hosted) -> None:
    hosted.fake.faults.add(
        faults.headers(x_github_sso="partial-results; organizations=1"), path=".*/deployments", times=None
    )
    tables = Tables(hosted, "deployments", hosted.source())

    assert not tables.run()
    assert "single sign-on" in tables.reasons[0]


@pytest.mark.parametrize("dataset", ["commits", "pull_requests"])
def test_partial_data_of_graphql_is_no_complete_walk(hosted: Hosted, dataset: str) -> None:
    hosted.fake.faults.add(
        rewriting(lambda document: document.update(errors=[{"type": "FORBIDDEN", "message": "One field"}])),
        path="/graphql",
        times=None,
    )
    tables = Tables(hosted, dataset, hosted.source())

    assert not tables.run()
    assert "FORBIDDEN: One field" in tables.reasons[0]


def test_cursor_that_does_not_move_is_a_fault(hosted: Hosted) -> None:
    def stuck(document: Any) -> None:
        if repository := (document.get("data") or {}).get("repository"):
            repository["pullRequests"].setdefault("pageInfo", {}).update(hasNextPage=True, endCursor="stuck")

    hosted.fake.faults.add(rewriting(stuck), path="/graphql", times=None)

    with pytest.raises(errors.ProviderFault):
        Tables(hosted, "pull_requests", hosted.source()).run()


def test_every_request_says_which_api_it_speaks(hosted: Hosted) -> None:
    seen: list[Request] = []
    hosted.fake.before_each_answer(seen.append)

    for dataset in ("commits", "work_items"):
        Tables(hosted, dataset, hosted.source()).run()

    assert {
        (one.headers["accept"], one.headers["x-github-api-version"], one.headers["x-github-next-global-id"])
        for one in seen
    } == {("application/vnd.github+json", "2022-11-28", "1")}


def test_stamp_is_githubs_clock_at_the_start(hosted: Hosted) -> None:
    hosted.fake.faults.add(faults.headers(date="Mon, 01 Jun 2026 11:00:00 GMT"), path="/repositories/.*")

    walk = Tables(hosted, "work_items", hosted.source()).begin()

    assert walk.started_at == NOW.replace(hour=11)

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.integration.providers import github_truth
from tests.integration.providers.github_changes import Crowd, now
from tests.integration.providers.github_sync import Hosted, Tables, hosting
from worker_app import errors, records
from worker_app.demo import faults
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.recipe import Recipe
from worker_app.demo.things import RunAttempt, WorkflowRun

RECIPE = Recipe(seed=5, repositories=1, pull_requests=0, issues=0, runs=30, deployments=12, pushes=10)
ATTEMPTS = "/attempts/"
STATUSES = "/statuses"


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    with hosting(FakeGitHub(generate(RECIPE))) as running:
        yield running


@pytest.fixture
def crowd(hosted: Hosted) -> Crowd:
    return Crowd(hosted.fake, hosted.repository(), seed=1)


@pytest.fixture
def runs(hosted: Hosted) -> Tables:
    """After a first sync of workflow runs."""
    made = Tables(hosted, "pipeline_runs", hosted.source(), page_size=10)
    assert made.run()
    hosted.fake.log.clear()
    return made


def is_equal_to_the_world(tables: Tables) -> bool:
    truth = tables.hosted.fake.truth()["acme/api"]
    return github_truth.shown(tables) == github_truth.wanted(truth, tables.dataset)


def try_again(run: WorkflowRun, crowd: Crowd) -> None:
    attempt = RunAttempt(len(run.attempts) + 1, "in_progress", None, now(), now(), crowd.world.ghost)
    run.last.status, run.last.conclusion, run.last.updated_at = "completed", "failure", now()
    run.attempts.append(attempt)


def asked(hosted: Hosted, part: str) -> list[str]:
    return [path for path in hosted.asked() if part in path]


def test_run_that_was_unfinished_is_read_again(hosted: Hosted, runs: Tables, crowd: Crowd) -> None:
    run = crowd.start_run()
    assert runs.run()
    run.last.status, run.last.conclusion, run.last.updated_at = "completed", "success", now()

    assert runs.run()

    assert runs.of(records.PipelineRun)[str(run.id), 1].status == "succeeded"
    assert is_equal_to_the_world(runs)


def test_run_that_is_run_again_keeps_every_attempt(hosted: Hosted, runs: Tables, crowd: Crowd) -> None:
    run = crowd.start_run()
    assert runs.run()
    try_again(run, crowd)
    try_again(run, crowd)

    assert runs.run()

    assert is_equal_to_the_world(runs)
    assert len(asked(hosted, ATTEMPTS)) == 2


def test_attempts_that_an_earlier_walk_has_are_not_asked_for(hosted: Hosted, runs: Tables, crowd: Crowd) -> None:
    run = crowd.start_run()
    try_again(run, crowd)
    run.created_at -= timedelta(days=1)
    for attempt in run.attempts:
        attempt.started_at -= timedelta(hours=1)
    runs.cursor = records.Cursor(now())

    assert runs.run()

    assert asked(hosted, ATTEMPTS) == []
    assert (str(run.id), 2) in runs.of(records.PipelineRun)


def test_attempt_that_github_has_no_more_is_left_out(hosted: Hosted, runs: Tables, crowd: Crowd) -> None:
    try_again(run := crowd.start_run(), crowd)
    hosted.fake.faults.add(faults.status(404, "Not Found"), path=f".*{ATTEMPTS}.*")

    assert runs.run()

    assert {key[1] for key in runs.of(records.PipelineRun) if key[0] == str(run.id)} == {2}


def test_second_walk_stops_three_days_before_the_cursor(hosted: Hosted, runs: Tables, crowd: Crowd) -> None:
    new = crowd.start_run()
    edge = crowd.start_run()
    edge.created_at = now() - timedelta(days=2, hours=23)

    assert runs.run()

    read = {record.ext_id for page in runs.pages for record in page.records if isinstance(record, records.PipelineRun)}
    assert read == {str(new.id), str(edge.id)}
    assert len(asked(hosted, "/actions/runs")) == 1


def test_list_that_is_shorter_than_its_count_is_no_complete_walk(hosted: Hosted) -> None:
    hosted.fake.faults.add(faults.headers(link=None), path=".*/actions/runs", times=None)
    tables = Tables(hosted, "pipeline_runs", hosted.source(), page_size=10)

    assert not tables.run()
    assert tables.reasons == ["GitHub counts 30 workflow runs and showed 10"]


@pytest.mark.parametrize(
    ("status", "message"), [(403, "GitHub Actions is disabled on this repository"), (404, "Not Found")]
)
def test_repository_without_actions_is_a_disabled_dataset(hosted: Hosted, status: int, message: str) -> None:
    hosted.fake.faults.add(faults.status(status, message), path=".*/actions/runs")

    with pytest.raises(errors.DatasetDisabled):
        Tables(hosted, "pipeline_runs", hosted.source()).run()


def test_deployment_that_goes_on_is_read_again(hosted: Hosted, crowd: Crowd) -> None:
    tables = Tables(hosted, "deployments", hosted.source(), page_size=5)
    assert tables.run()
    crowd.deploy()
    assert tables.run()
    for _ in range(3):
        crowd.finish_deployment()
    hosted.fake.log.clear()

    assert tables.run()

    assert is_equal_to_the_world(tables)
    assert len(asked(hosted, STATUSES)) == 1


def test_statuses_that_did_not_change_cost_no_quota(hosted: Hosted, crowd: Crowd) -> None:
    tables = Tables(hosted, "deployments", hosted.source())
    assert tables.run()
    crowd.deploy()
    assert tables.run()
    hosted.fake.log.clear()

    assert tables.run()

    assert [entry.status for entry in hosted.fake.log.entries() if STATUSES in entry.path] == [304]

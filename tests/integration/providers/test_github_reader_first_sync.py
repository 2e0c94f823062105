from collections.abc import Iterator

import pytest

from tests import github_description
from tests.integration.providers import github_truth
from tests.integration.providers.github_sync import Hosted, Tables, hosting
from worker_app import records
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.recipe import Recipe
from worker_app.providers import github

RECIPE = Recipe(seed=7, repositories=1, pull_requests=40, issues=30, runs=30, deployments=15)


@pytest.fixture(scope="module")
def hosted() -> Iterator[Hosted]:
    with hosting(FakeGitHub(generate(RECIPE), check=github_description.reduced())) as running:
        yield running


@pytest.mark.parametrize("page_size", [100, 7])
@pytest.mark.parametrize("dataset", github.DATASETS)
def test_first_sync_holds_the_whole_truth(hosted: Hosted, dataset: str, page_size: int) -> None:
    tables = Tables(hosted, dataset, hosted.source(), page_size)

    assert tables.run()

    assert github_truth.shown(tables) == github_truth.wanted(hosted.fake.truth()["acme/api"], dataset)
    assert tables.cursor.cursor_at is not None
    assert list(tables.of(records.Repository).values()) == [
        records.Repository(tables.source.ext_id, "acme/api", "main", is_archived=False)
    ]
    assert isinstance(tables.pages[0].records[0], records.Repository)

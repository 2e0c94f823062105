import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests import github_description
from tests.integration.providers import github_truth
from tests.integration.providers.github_changes import Crowd
from tests.integration.providers.github_sync import Hosted, Tables, hosting
from worker_app import records
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.messages import Request
from worker_app.demo.recipe import Recipe
from worker_app.providers import github

UPDATED = {"pull_requests": records.PullRequest, "review_comments": records.Review, "work_items": records.WorkItem}


def busy(crowd: Crowd, requests: int) -> Callable[[Request], None]:
    """What happens while somebody reads: something at each of so many requests."""
    left = iter(range(requests))

    def hook(_: Request) -> None:
        if next(left, None) is not None:
            crowd.act()

    return hook


def changed_before(hosted: Hosted, dataset: str, at: datetime) -> dict[tuple[object, ...], str]:
    """What last changed before `at`, by the world itself."""
    repository = hosted.repository()
    found: dict[str, Any] = {
        "pull_requests": {(str(one.id),): one.updated_at for one in repository.pulls.values()},
        "work_items": {(str(one.issue_id),): one.updated_at for one in repository.issues.values()},
        "review_comments": {
            ("comment", str(one.id)): one.updated_at for pull in repository.pulls.values() for one in pull.comments
        },
    }
    return {key: changed for key, changed in found[dataset].items() if changed < at}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dataset", github.DATASETS)
def test_any_kill_then_one_quiet_run_makes_tables_equal_to_the_world(dataset: str, seed: int) -> None:
    recipe = Recipe(seed=seed, repositories=1, pull_requests=15, issues=15, runs=10, deployments=6, pushes=10)
    luck = random.Random(seed)
    with hosting(FakeGitHub(generate(recipe), check=github_description.reduced())) as hosted:
        tables = Tables(hosted, dataset, hosted.source(), page_size=luck.choice([2, 3, 5, 8]))
        crowd = Crowd(hosted.fake, hosted.repository(), seed)
        for _ in range(3):
            hosted.fake.service.hooks[:] = [busy(crowd, requests=40)]
            assert tables.run(kill=lambda: luck.random() < 0.4), tables.reasons
            began_at = tables.cursor.cursor_at
            assert began_at is not None
            assert began_at <= datetime.now(UTC)
            if kind := UPDATED.get(dataset):
                rows = tables.of(kind)
                assert {key: rows[key].updated_at for key in changed_before(hosted, dataset, began_at)} == (
                    changed_before(hosted, dataset, began_at)
                )
        hosted.fake.service.hooks.clear()

        assert tables.run()

        assert github_truth.shown(tables) == github_truth.wanted(hosted.fake.truth()["acme/api"], dataset)

import random
from datetime import timedelta

import pytest

from tests.integration.providers import github_truth
from tests.integration.providers.github_changes import now
from tests.integration.providers.github_sync import Hosted, Tables, hosting
from worker_app import records
from worker_app.demo.editor import Editor
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.messages import Request
from worker_app.demo.recipe import Recipe
from worker_app.demo.things import Thread
from worker_app.providers import github_position

KINDS = {
    "work_items": records.WorkItem,
    "pull_requests": records.PullRequest,
    "review_comments": records.Review,
}
RECIPE = Recipe(seed=9, repositories=1, pull_requests=150, issues=200, runs=0, deployments=0, pushes=5)


def is_equal_to_the_world(tables: Tables) -> bool:
    truth = tables.hosted.fake.truth()["acme/api"]
    return github_truth.shown(tables) == github_truth.wanted(truth, tables.dataset)


class Movers:
    """At each request, three items move to the front and one is added."""

    def __init__(self, hosted: Hosted, dataset: str, seed: int) -> None:
        self.luck = random.Random(seed)
        self.repository = hosted.repository()
        self.editor = Editor(hosted.fake.world, self.repository)
        self.dataset = dataset
        self.requests = 0

    def move(self, _: Request) -> None:
        self.requests += 1
        threads: list[Thread] = [*self.repository.issues.values(), *self.repository.pulls.values()]
        for thread in self.luck.sample(threads, 3):
            self.editor.rename(thread, now(), f"Moved at request {self.requests}")
        self.editor.open_issue(now(), None, "Added")
        for pull in self.luck.sample(list(self.repository.pulls.values()), 1):
            self.editor.comment(pull, now(), None, "Added")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dataset", ["work_items", "pull_requests", "review_comments"])
def test_f26_nothing_is_lost_or_stale_though_items_move(
    dataset: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github_position, "OVERLAP", timedelta(0))  # the rule of the stamp has to do without it
    with hosting(FakeGitHub(generate(RECIPE))) as hosted:
        tables = Tables(hosted, dataset, hosted.source(), page_size=20)
        movers = Movers(hosted, dataset, seed)
        hosted.fake.before_each_answer(movers.move)
        assert tables.run()
        hosted.fake.service.hooks.clear()

        assert tables.run()

        assert movers.requests > 5
        assert is_equal_to_the_world(tables)


def test_f26_item_that_jumps_to_the_front_is_met_by_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github_position, "OVERLAP", timedelta(0))
    recipe = Recipe(seed=1, repositories=1, pull_requests=0, issues=5, runs=0, deployments=0, pushes=1)
    with hosting(FakeGitHub(generate(recipe))) as hosted:
        by_change = sorted(hosted.repository().issues.values(), key=lambda issue: (issue.updated_at, issue.number))
        editor = Editor(hosted.fake.world, hosted.repository())
        left = iter([False, False, False, True])  # the description, page 1, its histories, then page 2

        def jump(_: Request) -> None:
            if next(left, False):
                editor.rename(by_change[0], now(), "Jumped")

        tables = Tables(hosted, "work_items", hosted.source(), page_size=2)
        walk = tables.begin()
        hosted.fake.before_each_answer(jump)
        pages = [
            [int(item.key.rpartition("#")[2]) for item in page.records if isinstance(item, records.WorkItem)]
            for page in hosted.reader("work_items", 2).read(tables.source, walk, None)
        ]

        numbers = [issue.number for issue in by_change]
        assert pages == [[numbers[4], numbers[3]], [numbers[3], numbers[2]], [numbers[1]]]
        tables.cursor = records.Cursor(walk.started_at)
        assert tables.run()
        assert [row.key for row in tables.of(records.WorkItem).values()] == [f"acme/api#{numbers[0]}"]


@pytest.mark.parametrize("dataset", ["work_items", "pull_requests", "review_comments"])
def test_second_run_reads_only_what_changed(dataset: str) -> None:
    with hosting(FakeGitHub(generate(RECIPE))) as hosted:
        tables = Tables(hosted, dataset, hosted.source())
        assert tables.run()
        hosted.fake.log.clear()
        editor = Editor(hosted.fake.world, hosted.repository())
        pull = hosted.repository().pulls[min(hosted.repository().pulls)]
        editor.comment(pull, now(), None, "Added")
        editor.open_issue(now(), None, "Added")

        assert tables.run()

        assert len(hosted.fake.log.entries()) <= 4
        read = [type(record) for page in tables.pages for record in page.records]
        assert read.count(KINDS[dataset]) == 1
        assert is_equal_to_the_world(tables)

from datetime import timedelta

import pytest

from worker_app.demo.generate import generate
from worker_app.demo.history import ancestry
from worker_app.demo.recipe import Recipe
from worker_app.demo.truth import truth
from worker_app.demo.world import World


def told(world: World) -> object:
    return truth(world, next(iter(world.accounts.values())))


def test_generated_world_is_the_same_each_time() -> None:
    assert told(generate(Recipe(seed=5))) == told(generate(Recipe(seed=5)))
    assert told(generate(Recipe(seed=5))) != told(generate(Recipe(seed=6)))


@pytest.mark.parametrize(
    "recipe", [Recipe(), Recipe(seed=9, pull_requests=100, reviews_per_pull=2.5, comments_per_pull=0.5)]
)
def test_generated_counts_are_those_of_the_recipe(recipe: Recipe) -> None:
    for repository in generate(recipe).repositories.values():
        pulls = list(repository.pulls.values())
        assert len(pulls) == recipe.pull_requests
        assert sum(len(pull.reviews) for pull in pulls) == recipe.pull_requests * recipe.reviews_per_pull
        assert sum(len(pull.comments) for pull in pulls) == recipe.pull_requests * recipe.comments_per_pull
        assert len(repository.issues) == recipe.issues
        assert len(repository.runs) == recipe.runs
        assert len(repository.deployments) == recipe.deployments


def test_generated_times_stand_in_order_and_within_the_recipe() -> None:
    recipe = Recipe(seed=3, pull_requests=60)
    for repository in generate(recipe).repositories.values():
        for thread in (*repository.pulls.values(), *repository.issues.values()):
            times = [thread.created_at, *(event.at for event in thread.events)]
            assert times == sorted(times)
            assert recipe.until - timedelta(days=recipe.days) <= times[0]
            assert times[-1] <= thread.updated_at <= recipe.until


def test_generated_commits_have_parents_that_exist_and_distinct_shas() -> None:
    (repository,) = generate(Recipe(repositories=1)).repositories.values()
    assert repository.head is not None
    walked = ancestry(repository.commits, repository.head)
    assert len({commit.sha for commit in walked}) == len(walked) > 50
    assert any(len(commit.parents) == 2 for commit in walked)
    assert [commit.parents for commit in walked].count(()) == 1
    merged = [pull for pull in repository.pulls.values() if pull.merge_sha]
    assert {pull.merge_sha for pull in merged} <= {commit.sha for commit in walked}


def test_generated_oddities_are_there_when_asked_for() -> None:
    recipe = Recipe(
        repositories=1,
        first_id=2**53 + 1,
        tick_seconds=86_400,
        long_pull_commits=251,
        pending_share=0.5,
        has_strange_text=True,
    )
    (repository,) = generate(recipe).repositories.values()
    pulls = list(repository.pulls.values())
    assert min(pull.id for pull in pulls) > 2**53
    assert len({pull.created_at for pull in pulls}) < len(pulls)
    assert len(pulls[0].commits) == 251
    assert any(review.submitted_at is None for pull in pulls for review in pull.reviews)
    assert all("\x00" in pull.title and "\ud83d" in pull.title for pull in pulls)
    assert any(pull.author is None for pull in pulls)


def test_node_ids_are_distinct_and_known_to_the_world() -> None:
    world = generate(Recipe())
    for repository in world.repositories.values():
        for pull in repository.pulls.values():
            assert world.places[pull.node_id].thing is pull
            for review in pull.reviews:
                assert world.places[review.node_id].thread is pull

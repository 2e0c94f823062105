from datetime import timedelta

from worker_app.demo.generate import generate
from worker_app.demo.life import Life
from worker_app.demo.recipe import Recipe
from worker_app.demo.truth import truth


def test_life_changes_the_world_the_same_way_each_time() -> None:
    told = []
    for _ in range(2):
        world = generate(Recipe(seed=2))
        life = Life(world, seed=4)
        steps = [life.step(Recipe().until + timedelta(seconds=number)) for number in range(200)]
        told.append((steps, truth(world, world.accounts["ada"])))
    assert told[0] == told[1]
    assert len(set(told[0][0])) > 50


def test_life_touches_what_it_changes() -> None:
    world = generate(Recipe(repositories=1))
    at = Recipe().until + timedelta(days=1)
    Life(world).step(at)
    (repository,) = world.repositories.values()
    assert [one for one in (*repository.pulls.values(), *repository.issues.values()) if one.updated_at == at]

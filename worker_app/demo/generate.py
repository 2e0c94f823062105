"""Generate: a world from a recipe. Everything that happens to a repository happens in the order of time."""

import random
from datetime import datetime, timedelta
from functools import partial

from worker_app.demo import generate_issues, generate_pulls, generate_runs
from worker_app.demo.editor import Editor
from worker_app.demo.history import Historian
from worker_app.demo.recipe import Recipe
from worker_app.demo.story import Step, Story
from worker_app.demo.things import Account, Repository
from worker_app.demo.timetable import Timetable
from worker_app.demo.world import World

NAMES = ("api", "web", "worker", "mobile", "infra", "docs", "billing", "search", "auth", "data", "admin", "edge")
PEOPLE = (
    "ada",
    "grace",
    "linus",
    "barbara",
    "edsger",
    "margaret",
    "donald",
    "frances",
    "alan",
    "radia",
    "tony",
    "hedy",
)
BOTS = ("dependabot[bot]", "deploy[bot]")


def generate(recipe: Recipe) -> World:
    """The world of `recipe`."""
    born_at = recipe.until - timedelta(days=recipe.days)
    world = World(first_id=recipe.first_id, born_at=born_at)
    organisation = world.add_account(recipe.organisation, "Organization", born_at)
    crowd = _crowd(world, recipe, born_at)
    for number in range(recipe.repositories):
        _fill(_story(world, world.add_repository(organisation, _numbered(NAMES, number), born_at), recipe, crowd))
    return world


def _crowd(world: World, recipe: Recipe, born_at: datetime) -> list[Account | None]:
    """Who acts, each as often as the others; a ghost as often as the recipe says."""
    people = [world.add_account(_numbered(PEOPLE, number), "User", born_at) for number in range(recipe.people)]
    bots = [world.add_account(login, "Bot", born_at) for login in BOTS]
    known = [*people, *bots, world.add_account("imported-ida", "Mannequin", born_at)]
    return [*known * 20, *[None] * round(recipe.ghost_share * len(known) * 20)]


def _story(world: World, repository: Repository, recipe: Recipe, crowd: list[Account | None]) -> Story:
    name = f"{recipe.seed}/{repository.full_name}"
    luck = random.Random(name)  # noqa: S311 - the same world each time, no secret
    times = Timetable(recipe, luck)
    historian = Historian(world, repository, luck, name)
    return Story(world, repository, recipe, luck, times, Editor(world, repository), historian, crowd)


def _fill(story: Story) -> None:
    steps = generate_pulls.plan(story) + generate_issues.plan(story)
    if story.recipe.pushes:
        moments = [story.times.start, *story.times.spread(story.recipe.pushes - 1)]
        steps += [Step(at, partial(_push, story, at)) for at in moments]
    for step in sorted(steps, key=lambda step: step.at):
        step.happen()
    generate_runs.add_runs(story)
    generate_runs.add_deployments(story)


def _push(story: Story, at: datetime) -> None:
    story.historian.push(at, story.somebody())


def _numbered(names: tuple[str, ...], number: int) -> str:
    rounds, index = divmod(number, len(names))
    return names[index] + (f"-{rounds + 1}" if rounds else "")

"""Words of a generated world. Strange ones hold what databases refuse: U+0000 and half of a surrogate pair."""

import random

from worker_app.demo.recipe import Recipe

VERBS = ("Add", "Fix", "Move", "Rename", "Speed up", "Explain", "Drop", "Test", "Guard", "Bump")
THINGS = (
    "the login form",
    "retry of webhooks",
    "the search index",
    "an old flag",
    "the export",
    "time zones",
    "paging",
)
STRANGE = " \x00 \ud83d"


def title(luck: random.Random, recipe: Recipe) -> str:
    """A title."""
    return f"{luck.choice(VERBS)} {luck.choice(THINGS)}" + (STRANGE if recipe.has_strange_text else "")


def body(luck: random.Random, recipe: Recipe) -> str | None:
    """A description; None now and then, as GitHub has it for an empty one."""
    if recipe.has_strange_text:
        return f"See above{STRANGE}"
    return luck.choice((None, "See above.", "Closes an old wish.\n\nWith tests."))

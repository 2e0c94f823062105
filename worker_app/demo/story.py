"""The story of one repository: what its generators draw from and write with."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from worker_app.demo.editor import Editor
from worker_app.demo.history import Historian
from worker_app.demo.recipe import Recipe
from worker_app.demo.things import Account, Repository
from worker_app.demo.timetable import Timetable
from worker_app.demo.world import World


class Step(NamedTuple):
    """Something that will happen."""

    at: datetime
    happen: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Story:
    """One repository in the making."""

    world: World
    repository: Repository
    recipe: Recipe
    luck: random.Random
    times: Timetable
    editor: Editor
    historian: Historian
    crowd: Sequence[Account | None]  # who acts, None for a ghost

    def somebody(self) -> Account | None:
        """Who did it."""
        return self.luck.choice(self.crowd)

    def anybody(self) -> Account:
        """Who did it, where GitHub always names an account."""
        return self.somebody() or self.world.ghost

    def happens(self, chance: float) -> bool:
        """Whether it does this time."""
        return self.luck.random() < chance

    def shares(self, total: float, places: int) -> list[int]:
        """A whole `total` dealt out to `places` at random, none lost."""
        drawn = Counter(self.luck.choices(range(places), k=round(total))) if places else Counter[int]()
        return [drawn[place] for place in range(places)]

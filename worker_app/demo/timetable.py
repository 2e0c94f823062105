"""The timetable of a world: when things happen, in multiples of the recipe's tick and never after its end."""

import random
from datetime import UTC, datetime, timedelta

from worker_app.demo.recipe import Recipe


class Timetable:
    """Draws moments between the start and the end of a recipe."""

    def __init__(self, recipe: Recipe, luck: random.Random) -> None:
        self._tick = recipe.tick_seconds
        self._luck = luck
        self.end = recipe.until
        self.start = self._rounded(recipe.until - timedelta(days=recipe.days))

    def spread(self, count: int) -> list[datetime]:
        """That many moments over the whole time, in order."""
        seconds = (self.end - self.start).total_seconds()
        return sorted(
            self._rounded(self.start + timedelta(seconds=self._luck.random() * seconds)) for _ in range(count)
        )

    def after(self, moment: datetime, *, hours: float) -> datetime:
        """A moment after `moment`, on average so many hours later; it may lie beyond the end, and then nothing happens."""
        return self._rounded(moment + timedelta(hours=self._luck.expovariate(1 / hours)))

    def within(self, moment: datetime, *, hours: float, count: int) -> list[datetime]:
        """That many moments in the hours after `moment` and before the end, in order."""
        seconds = (min(moment + timedelta(hours=hours), self.end) - moment).total_seconds()
        return sorted(
            max(moment, self._rounded(moment + timedelta(seconds=self._luck.random() * seconds))) for _ in range(count)
        )

    def _rounded(self, moment: datetime) -> datetime:
        seconds = int(moment.timestamp())
        return datetime.fromtimestamp(seconds - seconds % self._tick, UTC)

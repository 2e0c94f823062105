"""Page size: how many items one GraphQL request asks for. It halves when GitHub cannot do it in time, and grows back.

It lives in the memory of one walk: a walk that another process resumes begins small again, at the same cursor.
Page: https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#timeouts
"""

from collections.abc import Callable
from typing import TypeVar

from worker_app import errors

MOST = 100  # GitHub refuses more
FIRST = 25
LONGEST_PATIENCE = 16  # pages
# 502 and 504: it took more than ten seconds. 200: an error in the body, or a body that was cut or too big. None: no answer.
TOO_MUCH = frozenset({200, 502, 503, 504, None})

T = TypeVar("T")


class PageSize:
    """The number of items to ask for, 1 to `most`."""

    def __init__(self, most: int = MOST) -> None:
        self._most = min(most, MOST)
        self._patience = 1  # successes in a row before it grows
        self._successes = 0
        self.items = min(FIRST, self._most)

    def shrink(self) -> bool:
        """Halve it; returns False when it was 1. Each time it will wait longer before it grows: timeouts cost points."""
        if self.items == 1:
            return False
        self.items //= 2
        self._successes = 0
        self._patience = min(2 * self._patience, LONGEST_PATIENCE)
        return True

    def grow(self) -> None:
        """Note a success: double it after as many of them as it waits for."""
        self._successes += 1
        if self._successes >= self._patience:
            self.items = min(2 * self.items, self._most)
            self._successes = 0


def shrinking(size: PageSize, ask: Callable[[int], T]) -> T:
    """What `ask` gives for a page of `size` items, which shrinks until GitHub can do it.

    Raises the ProviderFault of a page of one item, and at once one that is not about the size.
    """
    while True:
        try:
            found = ask(size.items)
        except errors.ProviderFault as fault:
            if fault.status not in TOO_MUCH or not size.shrink():
                raise
        else:
            size.grow()
            return found

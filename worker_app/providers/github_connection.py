"""Connections: the lists of GraphQL, each with a cursor of its own, so that one inside another is continued by itself. Pure."""

from typing import Any

from worker_app import errors
from worker_app.providers.github_fields import Json


def next_cursor(connection: Json, after: str | None) -> str:
    """The cursor of the next page; raises ProviderFault when it does not move, so that no list is read for ever."""
    cursor = connection["pageInfo"]["endCursor"]
    if not isinstance(cursor, str) or cursor == after:
        raise errors.ProviderFault("GitHub says that a list goes on, and gives no way to go on", status=500)
    return cursor


class Listing:
    """One connection as far as it was read."""

    def __init__(self, connection: Json) -> None:
        self.nodes: list[Any] = []
        self.after: str | None = None  # where it goes on; None: it was read to its end
        self._total: int | None = None  # as GitHub counts; None: this connection is not counted
        self._has_gap = False
        self.add(connection)

    def add(self, connection: Json | None) -> None:
        """Add the next page; None when there is nothing any more that it could belong to."""
        if connection is None:
            self._has_gap, self.after = True, None
            return
        shown = [node for node in connection["nodes"] if node is not None]
        self._has_gap |= len(shown) < len(connection["nodes"])
        self.nodes += shown
        self._total = connection.get("totalCount")
        goes_on = connection["pageInfo"]["hasNextPage"]
        self.after = next_cursor(connection, self.after) if goes_on else None

    @property
    def is_complete(self) -> bool:
        """Whether it holds all that GitHub says there is."""
        is_short = self._total is not None and len(self.nodes) < self._total
        return self.after is None and not self._has_gap and not is_short

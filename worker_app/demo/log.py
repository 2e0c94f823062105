"""The log of a fake: every request, who sent it, what it got and how many were in flight. Tokens are never in it."""

import threading
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. Times are seconds since the epoch."""

    arrived_at: float
    left_at: float
    method: str
    path: str  # with the query
    credential: str | None  # its name; None: nobody's
    bucket: str  # core, graphql, auth
    endpoint: str  # REST: method and path as documented; GraphQL: graphql
    status: int
    in_flight: int  # of the credential, this one included
    cost: int  # points of the quota, 0 for a 304 and a refusal
    is_refused: bool  # by a limit
    body: object = None  # GraphQL: the query and its variables


class Log:
    """Entries in the order in which the requests ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """Keep one more."""
        with self._lock:
            self._entries.append(entry)

    def entries(self) -> list[Entry]:
        """All of them so far."""
        with self._lock:
            return list(self._entries)

    def clear(self) -> None:
        """Forget them."""
        with self._lock:
            self._entries.clear()

    def counts(self) -> Counter[str]:
        """Requests by endpoint."""
        return Counter(entry.endpoint for entry in self.entries())

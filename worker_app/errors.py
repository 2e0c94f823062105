"""The one tree of errors: the class says what happens next, the message says what a person does.

Stands on the ground floor and knows nothing. `TransientError` is tried again and spends an attempt, `PermanentError` waits
for a human, `Deferral` waits for a moment and spends nothing. A message names the thing, where it is and the remedy; it
never holds a secret.
"""

from datetime import datetime


class DevHopsError(Exception):
    """Root of every error that the project raises on purpose."""


class TransientError(DevHopsError):
    """Worth another try: a lost connection, a lock that is held, a remote that answered with a fault of its own."""


class PermanentError(DevHopsError):
    """Another try cannot help: a person has to change something first."""


class Deferral(DevHopsError):
    """Not now: the work goes on at `not_before` (aware UTC) and spends no attempt."""

    def __init__(self, message: str, *, not_before: datetime) -> None:
        super().__init__(message)
        self.not_before = not_before


class SettingsError(PermanentError):
    """The environment is wrong or contradicts itself; the message holds every fault, one a line. Exit code 78."""


class UsageError(PermanentError):
    """A command or a request asks for what does not exist or cannot be. Exit code 2."""


class Conflict(PermanentError):
    """The thing exists already, or is busy; the message names it. Exit code 1."""


class SchemaBehind(TransientError):
    """The store's schema is older than this program needs; only the migration job may change it. Exit code 75."""


class SchemaAhead(PermanentError):
    """The store's schema is newer than this program can use. Exit code 78."""


class RowRefused(PermanentError):
    """Postgres does not take a row: it breaks a rule of the schema, and would break it again."""


class StoreAway(TransientError):
    """Postgres or Redis does not answer. Exit code 75."""


class LeaseLost(DevHopsError):
    """Another owner holds the row now; whoever gets this stops at once and writes nothing more."""


class WalkLost(TransientError):
    """The frozen end of a walk is no longer there (a forced push between two workers); the walk starts anew."""


class SourceUnavailable(PermanentError):
    """This source alone cannot be read; `state` is the word that `sources.state` gets, `inaccessible` or `gone`."""

    def __init__(self, message: str, *, state: str = "inaccessible") -> None:
        super().__init__(message)
        self.state = state

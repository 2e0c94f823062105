"""The one tree of errors: the class says what happens next, the message says what a person does.

Stands on the ground floor and knows nothing. `TransientError` is tried again and spends an attempt, `PermanentError` waits
for a human, `Deferral` waits for a moment and spends nothing. A message names the thing, where it is and the remedy; it
never holds a secret.
"""

from collections.abc import Mapping
from uuid import UUID


class DevHopsError(Exception):
    """Root of every error that the project raises on purpose."""


class TransientError(DevHopsError):
    """Worth another try: a lost connection, a lock that is held, a remote that answered with a fault of its own."""


class PermanentError(DevHopsError):
    """Another try cannot help: a person has to change something first."""


class Deferral(DevHopsError):
    """Not now: the work goes on in `retry_in` seconds or later and spends no attempt."""

    def __init__(self, message: str, *, retry_in: float) -> None:
        super().__init__(message)
        self.retry_in = retry_in


class RateLimited(Deferral):
    """A provider's limit, as the gate knows it, lets no request start now.

    `provider`, `org_id` and `host` are the gate's key, `bucket` is what is closed, `reason` is the gate's word and `detail` the
    provider's; `fails` counts the generations in a row in which the bucket was refused.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_in: float,
        provider: str,
        org_id: str,
        host: str,
        bucket: str,
        reason: str,
        detail: str = "",
        fails: int = 0,
    ) -> None:
        super().__init__(message, retry_in=retry_in)
        self.provider = provider
        self.org_id = org_id
        self.host = host
        self.bucket = bucket
        self.reason = reason
        self.detail = detail
        self.fails = fails


class GateUnavailable(Deferral):
    """The gate's Redis has been away for so long that bulk work stands back."""


class QueryTooExpensive(PermanentError):
    """A query costs more than the provider ever allows in one request: it has to shrink, another try cannot help."""

    def __init__(self, message: str, *, cost: float, limit: float) -> None:
        super().__init__(message)
        self.cost = cost
        self.limit = limit


class ProviderFault(TransientError):
    """A provider answered with a fault of its own, or not at all; `status` is the HTTP status, None without an answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ProviderRefused(PermanentError):
    """A provider does not take what it was asked, for good; `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class CredentialRefused(PermanentError):
    """A credential is missing, cannot be read, or the provider does not take it (any more); the message never holds it."""


class CredentialMissing(CredentialRefused):
    """The organisation has no such credential; one of another organisation counts as none."""


class CredentialRevoked(CredentialRefused):
    """The credential was removed here, and its secret erased."""


class CredentialUndecryptable(CredentialRefused):
    """The row does not open: written for another place, by a key that the ring lacks, or damaged. Holds ids alone."""

    def __init__(
        self, reason: str, *, org_id: UUID, provider: str, credential_id: UUID, version: int, key_id: str
    ) -> None:
        super().__init__(
            f"credential {credential_id} version {version} ({provider}, organisation {org_id}, key {key_id}) does not open: "
            f"{reason}; give the key ring that wrote it, or add the credential anew"
        )
        self.org_id = org_id
        self.provider = provider
        self.credential_id = credential_id
        self.version = version
        self.key_id = key_id


class CredentialMalformed(CredentialRefused):
    """The row opened, and what is in it is no credential that this program knows; the message names fields, never values."""


class SealBroken(PermanentError):
    """What was sealed does not open: another key, another place, or damage; the vault says whose it was."""


class SettingsError(PermanentError):
    """The environment is wrong or contradicts itself; the message holds every fault, one a line. Exit code 78."""


class UsageError(PermanentError):
    """A command or a request asks for what does not exist or cannot be. Exit code 2."""


class UnsafeMessage(PermanentError):
    """A message would carry what its task does not declare, or a secret; it was not sent. Names `task` and `key`, no value."""

    def __init__(self, message: str, *, task: str, key: str) -> None:
        super().__init__(message)
        self.task = task
        self.key = key


class Conflict(PermanentError):
    """The thing exists already, or is busy; the message names it. Exit code 1."""


class SchemaBehind(TransientError):
    """The store's schema is older than this program needs; only the migration job may change it. Exit code 75."""


class SchemaAhead(PermanentError):
    """The store's schema is newer than this program can use. Exit code 78."""


class MigrationFailed(PermanentError):
    """A step of the migration job failed, and nothing of it was kept; the message names it. Exit code 1."""


class RowRefused(PermanentError):
    """Postgres does not take a row: it breaks a rule of the schema, and would break it again."""


class StoreAway(TransientError):
    """Postgres, Redis or ClickHouse does not answer, or cannot now. Exit code 75."""


class StoreRefused(PermanentError):
    """A store does not take a statement, and would not the next time; `code` is ClickHouse's own number, None without one."""

    def __init__(self, message: str, *, code: int | None) -> None:
        super().__init__(message)
        self.code = code


class LeaseLost(DevHopsError):
    """Another owner holds the row now; whoever gets this stops at once and writes nothing more."""


class WalkLost(TransientError):
    """The frozen end of a walk is no longer there (a forced push between two workers); the walk starts anew."""


class SourceUnavailable(PermanentError):
    """This source alone cannot be read; `state` is the word that `sources.state` gets: inaccessible, sso_required or gone.

    `evidence` is what the provider said: status, headers, the beginning of the body; no secret in it.
    """

    def __init__(
        self, message: str, *, state: str = "inaccessible", evidence: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.state = state
        self.evidence = evidence


class DatasetDisabled(PermanentError):
    """The provider has this dataset of the source switched off (issues, for example); the others go on."""

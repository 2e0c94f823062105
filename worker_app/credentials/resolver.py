"""Resolver: opens a credential of an organisation for one client.

There is no fallback: what is missing, removed or does not open fails, and no variable of the environment stands in for it.
"""

from uuid import UUID

import structlog

from worker_app import errors, telemetry
from worker_app.credentials.kinds import Credential, from_document
from worker_app.records import CredentialStamp
from worker_app.store import credentials as rows
from worker_app.store.credentials import Row
from worker_app.store.postgres import Postgres
from worker_app.vault import Vault

log = structlog.get_logger(__name__)


class CredentialResolver:
    """Opens credentials of organisations. Each call reads and opens anew: nothing is kept in clear."""

    def __init__(self, postgres: Postgres, opener: Vault) -> None:
        self._postgres = postgres
        self._vault = opener

    def resolve(self, org_id: UUID, credential_id: UUID, stamp: CredentialStamp | None = None) -> Credential:
        """The credential of this organisation in the version of `stamp`, and no other; without a stamp the newest.

        Raises CredentialMissing, CredentialRevoked, CredentialUndecryptable or CredentialMalformed, each told to the log by ids
        alone, and StoreAway when Postgres does not answer.
        """
        try:
            row = self._row(org_id, credential_id, stamp)
            return from_document(self._vault.open(row.place, row.sealed), row.place.host)
        except errors.CredentialRefused as error:
            _tell(error, org_id, credential_id, stamp)
            raise

    def _row(self, org_id: UUID, credential_id: UUID, stamp: CredentialStamp | None) -> Row:
        """The row that may be opened, its use noted."""
        with self._postgres.transaction() as tx:
            row = rows.find(tx, org_id, credential_id, None if stamp is None else stamp.version)
            if row is None:
                raise errors.CredentialMissing(_missing(org_id, credential_id, stamp))
            if row.state == "revoked":
                raise errors.CredentialRevoked(_revoked(row))
            if stamp is not None and stamp.fingerprint != row.fingerprint:
                raise errors.CredentialMissing(_changed(row))
            if row.use_is_due:
                rows.note_use(tx, row.place)
        return row


def _missing(org_id: UUID, credential_id: UUID, stamp: CredentialStamp | None) -> str:
    which = "" if stamp is None else f" in version {stamp.version}, which the run was planned with"
    return f"organisation {org_id} has no credential {credential_id}{which}; `dev-hops credentials list` shows those there are"


def _revoked(row: Row) -> str:
    named = f"credential {row.name!r} ({row.place.provider}, {row.place.host})"
    if row.has_current:
        return (
            f"version {row.place.version} of {named} was revoked after the run was planned with it; "
            "`dev-hops runs retry` plans it anew with the newest"
        )
    return (
        f"{named} was removed; add one of this name again, and what names it goes on; "
        "`dev-hops runs retry` reads again what failed"
    )


def _changed(row: Row) -> str:
    return (
        f"version {row.place.version} of credential {row.name!r} ({row.place.provider}, {row.place.host}) does not hold the "
        "secret any more that the run was planned with; `dev-hops runs retry` plans it anew with the newest"
    )


def _tell(error: errors.CredentialRefused, org_id: UUID, credential_id: UUID, stamp: CredentialStamp | None) -> None:
    log.warning(
        "credential.refused",
        org_id=str(org_id),
        credential_id=str(credential_id),
        version=None if stamp is None else stamp.version,
        error_class=type(error).__name__,
    )
    if isinstance(error, errors.CredentialUndecryptable):
        telemetry.CREDENTIAL_UNDECRYPTABLE.labels(error.provider).inc()

"""Resolver: opens a credential of an organisation for one client.

There is no fallback: what is missing, removed or does not open fails, and no variable of the environment stands in for it.
"""

from uuid import UUID

from worker_app import errors
from worker_app.credentials.kinds import Credential, from_document
from worker_app.store import credentials as rows
from worker_app.store.postgres import Postgres
from worker_app.vault import Vault


class CredentialResolver:
    """Opens credentials of organisations. Each call reads and opens anew: nothing is kept in clear."""

    def __init__(self, postgres: Postgres, opener: Vault) -> None:
        self._postgres = postgres
        self._vault = opener

    def resolve(self, org_id: UUID, credential_id: UUID, version: int | None = None) -> Credential:
        """The credential of this organisation, its newest version unless one is named.

        Raises CredentialMissing, CredentialRevoked, CredentialUndecryptable or CredentialMalformed, and StoreAway when
        Postgres does not answer.
        """
        with self._postgres.transaction() as tx:
            row = rows.find(tx, org_id, credential_id, version)
            if row is None:
                raise errors.CredentialMissing(
                    f"organisation {org_id} has no credential {credential_id}; `dev-hops credentials list` shows those there are"
                )
            if row.state == "revoked":
                raise errors.CredentialRevoked(
                    f"credential {row.name!r} ({row.place.provider}, {row.place.host}) was removed; "
                    "add one of this name again, and what names it goes on"
                )
            if row.use_is_due:
                rows.note_use(tx, row.place)
        return from_document(self._vault.open(row.place, row.sealed), row.place.host)

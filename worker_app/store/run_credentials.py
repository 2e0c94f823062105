"""Which version of each credential a run was planned with, so that all its batches use the same one.

A stamp is taken when a run is planned, and anew when it is opened again: between the two nothing of the run is open. A batch
that an older program planned has none and is stamped when it is first claimed.
"""

from uuid import UUID

from worker_app import jobs
from worker_app.records import CredentialStamp
from worker_app.store.postgres import Transaction, statement


def stamp(tx: Transaction, run_id: UUID) -> None:
    """Note the newest version of every credential that open batches of a run carry, in place of what was noted before."""
    tx.execute(statement("stamp_run"), {"run_id": run_id, "is_new": True})


def adopt(tx: Transaction, run_id: UUID, batch_id: UUID) -> tuple[UUID | None, CredentialStamp | None]:
    """What a batch without a stamp is read with from now on: its source's credential, in the version that its run has first.

    The caller has claimed the batch in this transaction. A credential without a stamp is one that there is no row of.
    """
    tx.execute(statement("adopt_credential"), {"batch_id": batch_id, "no_credential": jobs.NO_CREDENTIAL})
    tx.execute(statement("stamp_run"), {"run_id": run_id, "is_new": False})
    row = tx.execute(statement("find_stamp"), {"batch_id": batch_id}).one()
    return planned(row.credential_id, row.version, row.fingerprint)


def planned(
    credential_id: UUID | None, version: int | None, fingerprint: bytes | None
) -> tuple[UUID | None, CredentialStamp | None]:
    """A batch's credential and its stamp from the columns in which they stand; (None, None): it is read without one."""
    if credential_id in (None, jobs.NO_CREDENTIAL):
        return None, None
    if version is None or fingerprint is None:
        return credential_id, None
    return credential_id, CredentialStamp(version, bytes(fingerprint))

"""Many sealed rows in little time, for the benchmark of the credentials and for tests."""

from uuid import UUID, uuid4

from worker_app import vault
from worker_app.credentials import adding, kinds
from worker_app.credentials.kinds import GitHubToken
from worker_app.secret import Secret
from worker_app.store.postgres import Postgres, statement
from worker_app.vault import Place, Vault

HOST = "github.com"


def token(number: int) -> GitHubToken:
    """The credential number so and so."""
    return GitHubToken(HOST, Secret(f"ghp_{number:036d}"))


def fill(postgres: Postgres, sealer: Vault, org_id: UUID, count: int, first: int = 0) -> dict[UUID, GitHubToken]:
    """`count` credentials of an organisation, numbered from `first`, in one transaction; returns what each id holds."""
    filled = {uuid4(): token(number) for number in range(first, first + count)}
    with postgres.transaction() as tx:
        mark = adding.fingerprint_key(tx, sealer)
        given = [_row(sealer, mark, org_id, credential_id, made) for credential_id, made in filled.items()]
        tx.execute(statement("insert_credential"), given)
    return filled


def _row(sealer: Vault, mark: bytes, org_id: UUID, credential_id: UUID, made: GitHubToken) -> dict[str, object]:
    place = Place(org_id, made.provider, made.host, credential_id, 1)
    sealed = sealer.seal(place, kinds.to_document(made))
    return {
        "id": credential_id, "version": 1, "org_id": org_id, "provider": made.provider, "host": made.host,
        "name": str(credential_id), "kind": made.kind, "key_id": sealed.key_id, "wrapped_dek": sealed.wrapped_dek,
        "ciphertext": sealed.ciphertext, "fingerprint": vault.fingerprint(mark, made.token), "created_by": "bench",
    }  # fmt: skip

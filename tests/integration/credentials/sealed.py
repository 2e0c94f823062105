"""Sealed rows of tests: credentials of organisations under one key ring, added through the same function as in production."""

from uuid import UUID

from tests.seed import column
from worker_app import key_ring
from worker_app.credentials import adding
from worker_app.credentials.kinds import Credential, GitHubToken
from worker_app.credentials.resolver import CredentialResolver
from worker_app.records import CredentialStamp
from worker_app.secret import Secret
from worker_app.store import sources
from worker_app.store.credentials import Entry
from worker_app.store.postgres import Postgres
from worker_app.vault import RingKeys, Vault

CANARY = "ghp_canary8f3a"
RING = key_ring.generate()
TOKEN = GitHubToken("github.com", Secret(CANARY))


def vault_of(ring: str = RING) -> Vault:
    """The vault of a ring."""
    return Vault(RingKeys(key_ring.parse(ring)))


def resolver_of(postgres: Postgres, ring: str = RING) -> CredentialResolver:
    """Who opens rows by a ring."""
    return CredentialResolver(postgres, vault_of(ring))


def org(postgres: Postgres, name: str = "acme") -> UUID:
    """A new organisation."""
    with postgres.transaction() as tx:
        return sources.add_org(tx, name, "UTC").id


def token(text: str, host: str = "github.com") -> GitHubToken:
    """A token with this text."""
    return GitHubToken(host, Secret(text))


def add(
    postgres: Postgres,
    org_id: UUID,
    credential: Credential = TOKEN,
    name: str = "main",
    *,
    replaces: bool = False,
    revoke_old: bool = False,
    sealer: Vault | None = None,
) -> Entry:
    """A credential under a name, or its next version."""
    given = {"org_id": org_id, "name": name, "created_by": "me", "replaces": replaces, "revoke_old": revoke_old}
    with postgres.transaction() as tx:
        return adding.add(tx, sealer or vault_of(), credential, **given)  # type: ignore[arg-type]


def stamp(postgres: Postgres, entry: Entry) -> CredentialStamp:
    """What a run would note of this version."""
    query = "SELECT fingerprint FROM org_credentials WHERE id = :id AND version = :version"
    (mark,) = column(postgres, query, id=entry.id, version=entry.version)
    assert isinstance(mark, bytes | memoryview)
    return CredentialStamp(entry.version, bytes(mark))

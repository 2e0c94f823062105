"""Credentials: typed secrets of one host, from what a person gives to what a request is signed with, and back.

A secret leaves its row here as a `Secret` and goes to one client. There is no fallback: what is missing, removed or does not
open fails, and no variable of the environment stands in for it.
"""

import json
import re
from dataclasses import dataclass, fields
from typing import Any, ClassVar
from uuid import UUID

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from worker_app import errors, vault
from worker_app.secret import Secret
from worker_app.store import credentials as rows
from worker_app.store.postgres import Postgres, Transaction
from worker_app.vault import Vault

FINGERPRINT = "fingerprint"  # purpose of the vault's key that fingerprints are made with
LEAST_RSA_BITS = 2048  # what GitHub makes for its Apps
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?")
_NO_HOST_OF_PEOPLE = {"api.github.com": "github.com", "www.github.com": "github.com"}


@dataclass(frozen=True, slots=True)
class GitHubToken:
    """A personal access token, classic or fine-grained."""

    provider: ClassVar[str] = "github"
    kind: ClassVar[str] = "github_token"
    host: str
    token: Secret


@dataclass(frozen=True, slots=True)
class GitHubApp:
    """A GitHub App in one installation; `private_key` is PEM, RSA."""

    provider: ClassVar[str] = "github"
    kind: ClassVar[str] = "github_app"
    host: str
    app_id: int
    installation_id: int
    private_key: Secret


Credential = GitHubToken | GitHubApp
_KINDS: dict[str, type[Credential]] = {made.kind: made for made in (GitHubToken, GitHubApp)}


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


def add(
    tx: Transaction,
    sealer: Vault,
    credential: Credential,
    *,
    org_id: UUID,
    name: str,
    created_by: str,
    replaces: bool = False,
) -> rows.Entry:
    """Seal and write a credential under a name, or with `replaces` its next version.

    Raises Conflict where the name is taken, UsageError where there is none to replace, SettingsError where the key ring is
    that of another database.
    """
    place = rows.next_place(tx, org_id, credential.provider, credential.host, name, replaces=replaces)
    mark = vault.fingerprint(_fingerprint_key(tx, sealer), _secret_of(credential))
    sealed = sealer.seal(place, to_document(credential))
    return rows.add(tx, place, sealed, name=name, kind=credential.kind, fingerprint=mark, created_by=created_by)


def to_document(credential: Credential) -> dict[str, object]:
    """What is sealed of a credential: its kind and fields, secrets still closed; the row binds the host."""
    own = {item.name: getattr(credential, item.name) for item in fields(credential) if item.name != "host"}
    return {"kind": credential.kind, **own}


def from_document(text: bytes, host: str) -> Credential:
    """The credential in an opened row. Raises CredentialMalformed, which names fields of ours and echoes nothing."""
    document = _parsed(text)
    kind = document.pop("kind", None)
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise errors.CredentialMalformed(
            f"the credential for {host} is of no kind that this program knows; deploy the program that wrote it"
        )
    expected = {item.name: item.type for item in fields(made) if item.name != "host"}
    faults = [f"{name} is missing or broken" for name, kind in expected.items() if not _fits(document.get(name), kind)]
    if unknown := len(document.keys() - expected.keys()):
        faults.append(f"{unknown} more fields than it has")
    if faults:
        raise errors.CredentialMalformed(f"the {made.kind} for {host} is malformed: {'; '.join(faults)}; add it anew")
    values: dict[str, Any] = {
        name: Secret(document[name]) if kind is Secret else document[name] for name, kind in expected.items()
    }
    return made(host=host, **values)


def token_of(text: str) -> Secret:
    """A token as a person gave it, without the white space around it. Raises UsageError for what no header can hold."""
    token = text.strip()
    if not token:
        raise errors.UsageError("the secret is empty; give it on standard input, by --file or by --env")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise errors.UsageError(
            "the token holds a space, a line break or another character that no token has; copy it again, alone"
        )
    return Secret(token)


def private_key_of(text: str) -> Secret:
    """A private key in PEM as a person gave it. Raises UsageError where it is none that a GitHub App signs with."""
    key = text.strip()
    found = _loaded(key)
    if not isinstance(found, rsa.RSAPrivateKey) or found.key_size < LEAST_RSA_BITS:
        raise errors.UsageError(
            "the private key is no RSA key in PEM without a passphrase; give the .pem file as GitHub made it for the App"
        )
    return Secret(key)


def host_of(text: str) -> str:
    """A host as a person sees it, in lower case. Raises UsageError for an address in its place."""
    host = text.strip().lower().removesuffix(":443")
    if not _HOST.fullmatch(host):
        shown = re.sub(r"^.*@", "***@", text)[:100]
        raise errors.UsageError(
            f"host is {shown!r}: write it as in github.com, without scheme, path, user and final dot"
        )
    if host in _NO_HOST_OF_PEOPLE:
        raise errors.UsageError(f"host is {text!r}: write the one that people see, {_NO_HOST_OF_PEOPLE[host]}")
    return host


def _fingerprint_key(tx: Transaction, sealer: Vault) -> bytes:
    """The key of all fingerprints; whoever comes first makes it."""
    stored = rows.vault_key(tx, FINGERPRINT)
    if stored is None:
        rows.add_vault_key(tx, FINGERPRINT, *sealer.new_key(FINGERPRINT))
        stored = rows.vault_key(tx, FINGERPRINT)
        assert stored is not None
    return sealer.stored_key(FINGERPRINT, *stored)


def _secret_of(credential: Credential) -> Secret:
    """The one secret that every kind of credential has."""
    (secret,) = (value for item in fields(credential) if isinstance(value := getattr(credential, item.name), Secret))
    return secret


def _fits(value: object, kind: object) -> bool:
    if kind is Secret:
        return isinstance(value, str) and value != ""
    return type(value) is int and value > 0


def _parsed(text: bytes) -> dict[str, Any]:
    """The JSON object in `text`, empty where it is none; the parser's own error would carry the text along."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _loaded(pem: str) -> object:
    """The private key in `pem`; None where there is none that opens without a passphrase."""
    try:
        return load_pem_private_key(pem.encode("ascii"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None

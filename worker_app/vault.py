"""The vault: seals a credential for one place and opens it there alone. Two layers of AES-256-GCM, no state, no clear text kept.

Each version of a credential has a random key of its own (the DEK), which a key of the ring wraps. Both layers bind the place
that the row was written for, so that a row that was copied to another organisation, provider, host, credential or version
does not open. The ring's key id is bound by the wrapping alone: a rotation wraps anew and leaves the data as it is.
Knows no SQL and no credential type.
"""

import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from worker_app import errors
from worker_app.key_ring import KeyRing
from worker_app.secret import Secret

NONCE_BYTES = 12
KEY_BITS = 256
FINGERPRINT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Place:
    """What a row is written for, and the only thing that it opens as."""

    org_id: UUID
    provider: str
    host: str  # the one host that the secret may be sent to
    credential_id: UUID
    version: int

    @property
    def bound(self) -> bytes:
        """The place as bytes that no other place has."""
        return b"dev-hops/cred/v1" + length_prefixed(
            self.org_id.bytes,
            self.provider.encode(),
            self.host.encode(),
            self.credential_id.bytes,
            self.version.to_bytes(8, "big"),
        )


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed document; each layer is nonce (12 bytes) and ciphertext with its tag."""

    key_id: str  # of the ring
    wrapped_dek: bytes = field(repr=False)
    ciphertext: bytes = field(repr=False)


class KeyProvider(Protocol):
    """Who wraps and unwraps the keys of rows: the key ring, or a service that keeps its keys to itself.

    A key that is wrapped has 32 bytes. What a service needs beside its answer, such as its own version of a key, stands in what
    `wrap` returns. A call may be slow: it has its own deadline and lets other greenlets run. One that gets no answer raises
    TransientError: the batch that needs it is tried again, and a rotation goes on where it was.
    """

    @property
    def writes(self) -> str:
        """The id of the key that wraps from now on."""
        ...

    def wrap(self, key_id: str, key: bytes, bound: bytes) -> bytes:
        """`key`, wrapped by the key `key_id` and bound to `bound`."""
        ...

    def unwrap(self, key_id: str, wrapped: bytes, bound: bytes) -> bytes:
        """What `wrap` was given. Raises SealBroken for another key, another `bound`, or damage, and for nothing else."""
        ...


class RingKeys:
    """Wraps by the keys of a ring in this process."""

    def __init__(self, ring: KeyRing) -> None:
        self.writes = ring.writes
        self._ciphers = {key_id: AESGCM(key) for key_id, key in ring.keys.items()}

    def wrap(self, key_id: str, key: bytes, bound: bytes) -> bytes:
        """`key`, wrapped by the ring's key `key_id` and bound to `bound`."""
        return _encrypted(self._ciphers[key_id], key, bound)

    def unwrap(self, key_id: str, wrapped: bytes, bound: bytes) -> bytes:
        """What `wrap` was given. Raises SealBroken also for a key that the ring lacks."""
        if key_id not in self._ciphers:
            raise errors.SealBroken(f"CREDENTIAL_KEYS has no key {key_id}")
        return _decrypted(self._ciphers[key_id], wrapped, bound)


class Vault:
    """Seals and opens credentials with the keys of `keys`."""

    def __init__(self, keys: KeyProvider) -> None:
        self._keys = keys

    def seal(self, place: Place, document: Mapping[str, object]) -> Sealed:
        """`document`, whose secrets are `Secret`s, sealed for `place` by the key that writes."""
        key_id, dek = self._keys.writes, AESGCM.generate_key(KEY_BITS)
        clear = json.dumps(document, default=_revealed, separators=(",", ":")).encode()
        return Sealed(
            key_id,
            self._keys.wrap(key_id, dek, _wrap_bound(place, key_id)),
            _encrypted(AESGCM(dek), clear, place.bound),
        )

    def open(self, place: Place, sealed: Sealed) -> bytes:
        """The JSON text that was sealed for `place`. Raises CredentialUndecryptable, with ids alone, for anything else."""
        with _named(place, sealed):
            return _decrypted(AESGCM(self._dek(place, sealed)), sealed.ciphertext, place.bound)

    def rewrap(self, place: Place, sealed: Sealed) -> Sealed:
        """What was sealed for `place`, its DEK wrapped by the key that writes; the data stays. Raises CredentialUndecryptable."""
        key_id = self._keys.writes
        with _named(place, sealed):
            dek = self._dek(place, sealed)
        return replace(sealed, key_id=key_id, wrapped_dek=self._keys.wrap(key_id, dek, _wrap_bound(place, key_id)))

    def new_key(self, purpose: str) -> tuple[str, bytes]:
        """A new random key for `purpose`, as the ring's key id and the wrapped key: what is stored of it."""
        key_id = self._keys.writes
        return key_id, self._keys.wrap(key_id, secrets.token_bytes(KEY_BITS // 8), _purpose_bound(purpose, key_id))

    def stored_key(self, purpose: str, key_id: str, wrapped: bytes) -> bytes:
        """The key that `new_key` made. Raises SettingsError when the ring does not open it: it is another database's ring."""
        try:
            return self._keys.unwrap(key_id, wrapped, _purpose_bound(purpose, key_id))
        except errors.SealBroken as error:
            raise errors.SettingsError(
                f"CREDENTIAL_KEYS is ***: it does not open what this database keeps under key {key_id}; "
                "give the key ring whose key of this id wrapped it"
            ) from error

    def rewrapped_key(self, purpose: str, key_id: str, wrapped: bytes) -> tuple[str, bytes]:
        """The key that `new_key` made, wrapped by the key that writes. Raises SettingsError as `stored_key` does."""
        key, writes = self.stored_key(purpose, key_id, wrapped), self._keys.writes
        return writes, self._keys.wrap(writes, key, _purpose_bound(purpose, writes))

    def _dek(self, place: Place, sealed: Sealed) -> bytes:
        return self._keys.unwrap(sealed.key_id, sealed.wrapped_dek, _wrap_bound(place, sealed.key_id))


@contextmanager
def _named(place: Place, sealed: Sealed) -> Iterator[None]:
    """Tells whose row does not open, by ids alone."""
    try:
        yield
    except errors.SealBroken as error:
        raise errors.CredentialUndecryptable(
            str(error),
            org_id=place.org_id,
            provider=place.provider,
            credential_id=place.credential_id,
            version=place.version,
            key_id=sealed.key_id,
        ) from error


def fingerprint(key: bytes, secret: Secret) -> bytes:
    """Tells whether two credentials hold the same secret, to whoever has `key`; 16 bytes of HMAC-SHA256."""
    return hmac.digest(key, secret.reveal().encode(), "sha256")[:FINGERPRINT_BYTES]


def length_prefixed(*parts: bytes) -> bytes:
    """The parts, each behind its length, so that no two inputs give the same bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _wrap_bound(place: Place, key_id: str) -> bytes:
    return place.bound + b"dek" + length_prefixed(key_id.encode())


def _purpose_bound(purpose: str, key_id: str) -> bytes:
    return b"dev-hops/vault/v1" + length_prefixed(purpose.encode(), key_id.encode())


def _revealed(value: Any) -> str:
    if not isinstance(value, Secret):
        raise TypeError(f"a credential cannot hold a {type(value).__name__}")
    return value.reveal()


def _encrypted(cipher: AESGCM, clear: bytes, bound: bytes) -> bytes:
    # Random nonces are safe here: a DEK seals one text, and a ring key wraps far fewer than 2^32 keys (NIST SP 800-38D, 8.3).
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, clear, bound)


def _decrypted(cipher: AESGCM, sealed: bytes, bound: bytes) -> bytes:
    try:
        return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError) as error:  # a row that was cut short has no whole nonce or tag
        raise errors.SealBroken("it was sealed by another key or for another place, or is damaged") from error

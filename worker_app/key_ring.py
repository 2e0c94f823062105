"""The key ring: which random keys wrap the keys of rows. The first writes, all read. Its text is CREDENTIAL_KEYS.

Knows no row and no cipher. A key never stands in a message; its id does.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

KEY_BYTES = 32  # AES-256
KEY_ID = re.compile(
    r"[a-z][a-z0-9_-]{0,15}"
)  # too short for a key, so that one in the wrong place is not taken for an id
LEAST_DISTINCT_BYTES = 16  # of 32 random bytes about 30 are distinct; fewer than 16 come once in 10^15 keys
MAKE_A_KEY = 'echo "k1:$(head -c 32 /dev/urandom | base64)"'


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys by id, the one that writes first; the repr shows none."""

    keys: Mapping[str, bytes] = field(repr=False)

    @property
    def writes(self) -> str:
        """The id of the key that new rows are wrapped by."""
        return next(iter(self.keys))


def parse(text: str) -> KeyRing:
    """The ring of `id:base64,id:base64`. Raises ValueError with every fault in one line, never with a key in it."""
    keys: dict[str, bytes] = {}
    faults = []
    for number, entry in enumerate(text.split(","), start=1):
        key_id, _, encoded = entry.strip().partition(":")
        if not KEY_ID.fullmatch(key_id):
            faults.append(f"entry {number} has no id before a colon, such as k1")
            continue
        if not encoded:
            faults.append(f"{key_id} has no key behind its id and a colon")
            continue
        key = _decoded(encoded)
        faults += [f"{key_id} {fault}" for fault in _faults(key)]
        if key_id in keys:
            faults.append(f"{key_id} is there twice")
        elif key in keys.values():
            faults.append(f"{key_id} is the same key as another one")
        keys[key_id] = key
    if faults:
        raise ValueError(f"{'; '.join(faults)}. Make a key with: {MAKE_A_KEY}")
    return KeyRing(keys)


def generate(key_id: str = "k1") -> str:
    """The text of a new ring with one random key."""
    return f"{key_id}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def _decoded(encoded: str) -> bytes:
    """The key's bytes; empty where the text is no base64."""
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _faults(key: bytes) -> Iterator[str]:
    if not key:
        yield "is not base64"
    elif len(key) != KEY_BYTES:
        yield f"has {len(key)} bytes instead of {KEY_BYTES}"
    elif len(set(key)) < LEAST_DISTINCT_BYTES or len({(b - a) % 256 for a, b in pairwise(key)}) == 1:
        yield "is a pattern: it was not made by a random generator"
    elif all(0x20 <= byte < 0x7F for byte in key):
        yield "is readable text: it was not made by a random generator"

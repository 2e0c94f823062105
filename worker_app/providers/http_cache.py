"""The cache of conditional requests: what a provider sent with an ETag or a Last-Modified, and may call unchanged later.

In the memory of one process, bounded, the least used goes first. An entry belongs to one organisation and to one generation of
its credential: providers bind an ETag to the token that it was given to.
Page: https://www.rfc-editor.org/rfc/rfc9110#name-conditional-requests
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from requests.structures import CaseInsensitiveDict

from worker_app.gate.key import GateKey

ENTRY_BYTES = 500  # what an entry takes beside its body and headers, roughly
OF_THE_BODY = frozenset({"content-length", "content-encoding", "content-type", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Address:
    """Whose entry it is and of what."""

    key: GateKey
    generation: str  # of the credential
    method: str
    url: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A reply of status 200 that can be asked for again under a condition."""

    headers: CaseInsensitiveDict[str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def condition(self) -> Mapping[str, str]:
        """The headers that ask whether it has changed; empty when the reply cannot be asked for so."""
        asked = {"If-None-Match": self.headers.get("ETag"), "If-Modified-Since": self.headers.get("Last-Modified")}
        return {name: value for name, value in asked.items() if value}

    @property
    def may_be_kept(self) -> bool:
        """Whether there is a condition, and the provider did not forbid to keep it."""
        return bool(self.condition) and "no-store" not in self.headers.get("Cache-Control", "").lower()

    def refreshed(self, headers: Mapping[str, str]) -> CaseInsensitiveDict[str]:
        """Its headers under those of a 304: date and quota are the fresh ones, what describes the body stays."""
        merged = CaseInsensitiveDict(self.headers)
        merged.update({name: value for name, value in headers.items() if name.lower() not in OF_THE_BODY})
        return merged

    @property
    def size_bytes(self) -> int:
        """The memory that it takes, roughly."""
        return ENTRY_BYTES + len(self.body) + sum(len(name) + len(value) for name, value in self.headers.items())


class Cache:
    """Up to `most_entries` replies of `most_bytes` together; safe for threads and greenlets."""

    def __init__(self, *, most_bytes: int = 32 * 2**20, most_entries: int = 5_000) -> None:
        self._most_bytes = most_bytes
        self._most_entries = most_entries
        self._entries: OrderedDict[Address, Stored] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """The memory that the entries take, roughly."""
        return self._bytes

    def get(self, address: Address) -> Stored | None:
        """What is stored there, now the most recently used; None when nothing is."""
        with self._lock:
            stored = self._entries.get(address)
            if stored is not None:
                self._entries.move_to_end(address)
            return stored

    def put(self, address: Address, stored: Stored) -> None:
        """Keep it in place of what was there; what is too big, or may not be kept, only removes that."""
        with self._lock:
            old = self._entries.pop(address, None)
            self._bytes -= old.size_bytes if old else 0
            if stored.may_be_kept and stored.size_bytes <= self._most_bytes:
                self._entries[address] = stored
                self._bytes += stored.size_bytes
            while len(self._entries) > self._most_entries or self._bytes > self._most_bytes:
                _, oldest = self._entries.popitem(last=False)
                self._bytes -= oldest.size_bytes

"""A canary: a secret that a test plants, and a search for it in everything that a service leaves behind."""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import redis
from sqlalchemy import text

from worker_app.store.postgres import Postgres


@dataclass(frozen=True)
class Canary:
    """A secret text and where it was found. Places are (name, content)."""

    value: str

    @property
    def forms(self) -> frozenset[bytes]:
        """The bytes as which it would be met."""
        raw = self.value.encode()
        written = {raw, quote(self.value, safe="").encode(), quote_plus(self.value).encode(), raw[::-1]}
        written |= {json.dumps(self.value)[1:-1].encode(), self.value.replace("\n", "\\n").encode()}
        for before in range(3):  # whatever stands before it, in one of three places it is the same text
            core = base64.b64encode(b"\0" * before + raw)[4 if before else 0 : -4]
            written |= {core, core.replace(b"+", b"-").replace(b"/", b"_")}
        return frozenset(written | {form.hex().encode() for form in written})

    def found_in(self, places: Iterable[tuple[str, bytes]]) -> list[str]:
        """The names of the places that hold it in any form."""
        forms = self.forms
        return [name for name, content in places if any(form in content or form in name.encode() for form in forms)]


def redis_places(client: redis.Redis) -> Iterator[tuple[str, bytes]]:
    """Every key of a Redis with all that it holds."""
    for key in client.scan_iter(count=1000):
        name = key if isinstance(key, bytes) else str(key).encode()
        yield f"redis {name.decode(errors='replace')}", name + repr(_content(client, key)).encode()


def _content(client: Any, key: Any) -> object:
    kind = client.type(key)
    reads = {
        "string": client.get,
        "list": lambda key: client.lrange(key, 0, -1),
        "hash": client.hgetall,
        "set": client.smembers,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "stream": client.xrange,
        "none": lambda _: None,  # it has just expired
    }
    return reads[kind.decode() if isinstance(kind, bytes) else kind](key)


def postgres_places(postgres: Postgres) -> Iterator[tuple[str, bytes]]:
    """Every row of every table with all its columns; bytes stand there in hexadecimal digits."""
    with postgres.transaction() as tx:
        tables = tx.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars().all()
        for table in tables:
            rows = tx.execute(text(f'SELECT CAST(t.* AS text) FROM "{table}" t')).scalars()
            yield from ((f"table {table}", row.encode()) for row in rows)


def process_places(pids: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    """Environment and command line of processes and of all that they have started."""
    for pid in _with_children(set(pids)):
        for name in ("environ", "cmdline"):
            try:
                yield f"process {pid} {name}", Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue  # it has ended


def _with_children(pids: set[int]) -> set[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    while new := {pid for pid, parent in parents.items() if parent in pids} - pids:
        pids = pids | new
    return pids

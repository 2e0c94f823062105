"""CLICKHOUSE_URL taken apart: what the settings check and the client connects to."""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

PORTS = {"http": 8123, "https": 8443}
SHAPE = (
    "it is http[s]://USER:PASSWORD@HOST:PORT/DATABASE, with %xx for special characters of user and password, and a database "
    "whose name has letters, digits and underscores alone"
)


@dataclass(frozen=True, slots=True)
class ClickHouseAddress:
    """Where one database of a ClickHouse is; as text it has neither user nor password."""

    scheme: str
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}/{self.database}"


def parse(url: str) -> ClickHouseAddress:
    """The parts of `url`. Raises ValueError with the right shape, and nothing of what was given."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise ValueError(SHAPE) from None
    database = parts.path.removeprefix("/")
    if not parts.hostname or not re.fullmatch(r"\w+", database, re.ASCII) or parts.query or parts.fragment:
        raise ValueError(SHAPE)
    user, password = unquote(parts.username or "default"), unquote(parts.password or "")
    return ClickHouseAddress(parts.scheme, parts.hostname, port, user, password, database)

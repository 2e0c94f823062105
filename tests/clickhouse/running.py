"""The front in a process of its own, and what a test says to it."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests
from requests.auth import HTTPBasicAuth

from tests.clickhouse.address import PASSWORD, USER
from tests.clickhouse.faults import Fault, Kind

CHECKOUT = Path(__file__).resolve().parent.parent.parent
MISSING = "chdb-core-lite is not installed: make install-clickhouse"
DEADLINE = 20.0


@dataclass(frozen=True, slots=True)
class ClickHouse:
    """A running front."""

    url: str  # without user and database

    def database_url(self, name: str) -> str:
        """The address of one database, as CLICKHOUSE_URL takes it."""
        return f"http://{quote(USER, safe='')}:{quote(PASSWORD, safe='')}@{urlsplit(self.url).netloc}/{name}"

    def reply(
        self, statement: str, method: str = "POST", headers: Mapping[str, str] | None = None, **names: str
    ) -> requests.Response:
        """What the protocol says to a statement; `names` are those of the URL."""
        user = HTTPBasicAuth(USER.encode(), PASSWORD.encode())
        given = {"query": statement, **names}
        return requests.request(method, self.url, params=given, auth=user, headers=headers, timeout=DEADLINE)

    def query(self, statement: str, database: str = "default") -> str:
        """What a statement gives as text, columns apart by tabs; a failing one raises with ClickHouse's words."""
        reply = self.reply(statement, database=database)
        assert reply.ok, reply.text
        return reply.text.rstrip("\n")

    @contextmanager
    def failing(self, kind: Kind, **how: Any) -> Iterator[None]:
        """Inside the block statements fail in this way; `how` gives fields of Fault."""
        fault = Fault(kind, **how)
        requests.post(f"{self.url}/faults", json=asdict(fault), timeout=DEADLINE).raise_for_status()
        try:
            yield
        finally:
            self.forget()

    def asked(self) -> list[str]:
        """The statements since the last `forget`, without rows."""
        return [str(statement) for statement in requests.get(f"{self.url}/faults", timeout=DEADLINE).json()]

    def forget(self) -> None:
        """Clear faults and statements; delays that run end."""
        requests.delete(f"{self.url}/faults", timeout=DEADLINE).raise_for_status()


@contextmanager
def running(folder: Path, timezone: str = "UTC", port: int = 0) -> Iterator[ClickHouse]:
    """A front on `folder` whose server stands in `timezone`; ends with the block, or with this process.

    Skips the test where the engine is not installed: it is large, and in an extra of its own.
    """
    if importlib.util.find_spec("chdb") is None:
        pytest.skip(MISSING)
    command = [sys.executable, "-m", "tests.clickhouse", "--port", str(port), "--folder", str(folder)]
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env={"TZ": timezone, "PATH": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C of the tests ends it by its closed input, after the fixtures that need it
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address, "the front did not start; try it by hand: python -m tests.clickhouse"
        yield ClickHouse(address)
    finally:
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        process.stdout.close()

"""ClickHouse: the client, and which of its refusals pass by themselves.

One client serves any number of greenlets or threads: it has no session (ClickHouse refuses two statements at once in one),
a pool of connections of its own, and a deadline on every call. It opens at the first call, so that a ClickHouse that is away
keeps no process from starting. Values are bound by name, never written into a statement.
Page: https://clickhouse.com/docs/integrations/python
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import urllib3

from worker_app import clickhouse_address, errors, secret
from worker_app.clickhouse_address import ClickHouseAddress

try:
    import clickhouse_connect
    from clickhouse_connect.driver.client import Client
    from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError
except ModuleNotFoundError:  # it is in an extra; `connect` says so
    clickhouse_connect = None  # type: ignore[assignment]
    ClickHouseError = OperationalError = OSError  # type: ignore[misc,assignment]

CONNECT_SECONDS = 3
CALL_SECONDS = (
    7  # with the time to connect below the 10 s after which Postgres ends an idle transaction around the call
)
MOST_SAID = 300  # characters of what ClickHouse said that are repeated
POOL_SIZE = 8  # connections that are kept; more are opened for a moment where more callers come at once
UNKNOWN_DATABASE = 81
LOGIN_CODES = (192, 193, 194, 497, 516)  # unknown user, wrong or missing password, access denied, authentication failed
# Refusals that pass: timeouts (159, 160, 209), too much at once (202, 203, 252, 439), memory of the moment (241), network and
# replicas (210, 279, 285, 286), Keeper away or its tables read-only (225, 242, 319, 999), shutting down or cancelled (236, 394).
PASSING_CODES = frozenset((159, 160, 202, 203, 209, 210, 225, 236, 241, 242, 252, 279, 285, 286, 319, 394, 439, 999))
PASSING_STATUSES = frozenset((408, 429, 500, 502, 503, 504))  # of a proxy, where ClickHouse itself said nothing
Row = tuple[Any, ...]


class ClickHouse:
    """A client of one database. Methods raise StoreAway where another try helps, StoreRefused where it cannot."""

    def __init__(self, address: ClickHouseAddress, *, call_seconds: int = CALL_SECONDS) -> None:
        self.address = address
        self._call_seconds = call_seconds
        self._pool = urllib3.PoolManager(maxsize=POOL_SIZE, block=False)
        self._client: Client | None = None

    def query(self, statement: str, parameters: Mapping[str, object] | None = None) -> list[Row]:
        """The rows of a SELECT, times aware. Parameters stand in it as `{name:Type}`."""
        with self._told_apart():
            result = self._open().query(statement, parameters=dict(parameters or {}))
            return [tuple(row) for row in result.result_rows]

    def command(self, statement: str, parameters: Mapping[str, object] | None = None) -> None:
        """Run a statement that has no rows to give."""
        with self._told_apart():
            self._open().command(statement, parameters=dict(parameters or {}))

    def insert(self, table: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]]) -> None:
        """Add `rows` in one block; `columns` gives name and type of each value, in order."""
        if not rows:
            return
        with self._told_apart():
            self._open().insert(table, rows, list(columns), column_type_names=list(columns.values()))

    def close(self) -> None:
        """Close every pooled connection; the next call opens new ones."""
        self._pool.clear()

    def _open(self) -> Client:
        # No lock: whoever came behind would wait for every failing try before it. Of two at once either client will do.
        if self._client is None:
            self._client = self._connect(self.address.database)
        return self._client

    def _connect(self, database: str | None) -> Client:
        address = self.address
        client = clickhouse_connect.get_client(
            interface=address.scheme,
            host=address.host,
            port=address.port,
            username=address.user,
            password=address.password,
            database=database,
            client_name="dev-hops",
            connect_timeout=CONNECT_SECONDS,
            send_receive_timeout=self._call_seconds,
            query_retries=0,  # whoever asks knows whether to try again, and when
            settings={"max_execution_time": self._call_seconds},  # the server ends what nobody waits for any more
            autogenerate_session_id=False,
            tz_mode="aware",
            pool_mgr=self._pool,
        )
        client.http_retries = 0  # type: ignore[attr-defined]
        return client

    def create_database(self) -> None:
        """Make the database that the address names, where it is missing; needs the right to only in that case."""
        try:
            self.query("SELECT 1")
        except errors.StoreRefused as error:
            if error.code != UNKNOWN_DATABASE:
                raise
            with self._told_apart():
                self._connect(None).command(f"CREATE DATABASE IF NOT EXISTS {self.address.database}")

    @contextmanager
    def _told_apart(self) -> Iterator[None]:
        try:
            yield
        except (ClickHouseError, urllib3.exceptions.HTTPError, OSError) as error:
            raise _told(self.address, error) from None  # the chain would show the client's own state


def _told(address: ClickHouseAddress, error: Exception) -> errors.DevHopsError:
    code, text = getattr(error, "code", None), _first_line(error)
    if code in LOGIN_CODES:
        return errors.StoreRefused(
            f"ClickHouse at {address} does not let {address.user!r} in (code {code}); check user, password and "
            f"rights in CLICKHOUSE_URL: {text}",
            code=code,
        )
    if code in PASSING_CODES:
        return errors.StoreAway(f"ClickHouse at {address} cannot now (code {code}): {text}")
    if code is None and _is_of_the_network(error, text):
        return errors.StoreAway(f"ClickHouse at {address} does not answer: {text}")
    return errors.StoreRefused(f"ClickHouse at {address} refuses (code {code}): {text}", code=code)


def _is_of_the_network(error: Exception, text: str) -> bool:
    """Whether nothing of ClickHouse's own came back; the client has faults of values that it cannot write, too."""
    if status := re.search(r"HTTP status (\d+)", text):
        return int(status[1]) in PASSING_STATUSES
    return isinstance(error, OperationalError | urllib3.exceptions.HTTPError | OSError)


def _first_line(error: Exception) -> str:
    """The beginning of the client's message, without the address and the version that it ends with."""
    if reason := re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(error)):  # what the system said, out of four wrappings
        return reason[1].strip()
    text = re.sub(r" \(for url .*?\)| \(version .*|^Received ClickHouse.*?DB::Exception: ", "", str(error))
    return secret.sanitized((text.strip().splitlines() or [type(error).__name__])[0], MOST_SAID)


def connect(url: str, *, call_seconds: int = CALL_SECONDS) -> ClickHouse:
    """A client for CLICKHOUSE_URL; nothing is asked yet, and each call ends within about `call_seconds`.

    Raises SettingsError where the address is out of shape or the client's library is missing.
    """
    if clickhouse_connect is None:
        raise errors.SettingsError(
            "CLICKHOUSE_URL is set and clickhouse-connect is not installed: pip install 'dev-hops[clickhouse]', or unset it"
        )
    for name in ("clickhouse_connect", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.ERROR)  # they warn of what they raise
    try:
        return ClickHouse(clickhouse_address.parse(url), call_seconds=call_seconds)
    except ValueError as error:
        raise errors.SettingsError(f"CLICKHOUSE_URL: {error}") from None

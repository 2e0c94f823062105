"""Postgres: the engine, the wait callback that keeps the gevent hub free, and the transaction that every store opens.

psycopg2 is C and blocks the whole hub while it waits, unless a wait callback is set: twenty greenlets in `pg_sleep(1)` take
twenty seconds without it and one with it. Whoever builds an engine in a patched process sets the callback first.
Page: https://www.psycopg.org/docs/advanced.html#support-for-coroutine-libraries
"""

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import resources

import psycopg2.extensions
from gevent import monkey
from gevent.socket import wait_read, wait_write
from sqlalchemy import TextClause, create_engine, text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool

from worker_app import errors

STATEMENT_TIMEOUT_SECONDS = 30  # a killed greenlet does not stop its query; the server does, after this
IDLE_IN_TRANSACTION_SECONDS = 10  # an idle transaction blocks every schema change
CONNECT_TIMEOUT_SECONDS = 10
WAIT_SECONDS = STATEMENT_TIMEOUT_SECONDS + 15  # a server that says nothing for longer is gone
Transaction = Connection  # what callers hold: a connection inside one transaction
DEADLOCK = "40P01"
SERIALIZATION = "40001"
LOCK_TIMEOUT = "55P03"
ROW_FAULTS = ("22", "23")  # classes of SQLSTATE: data exception, integrity constraint violation
RAISED = "P0001"  # by a trigger


def _wait(connection: psycopg2.extensions.connection) -> None:
    """Let other greenlets run while libpq waits; raises a timeout, on which psycopg2 closes the connection."""
    while True:
        state = connection.poll()
        if state == psycopg2.extensions.POLL_OK:
            return
        if state == psycopg2.extensions.POLL_READ:
            wait_read(connection.fileno(), timeout=WAIT_SECONDS)
        elif state == psycopg2.extensions.POLL_WRITE:
            wait_write(connection.fileno(), timeout=WAIT_SECONDS)
        else:
            raise OperationalError("poll", None, RuntimeError(f"libpq is in state {state}"))


def install_wait_callback() -> None:
    """Make psycopg2 yield to the hub; does nothing in a process that gevent has not patched. May be called again."""
    if monkey.is_module_patched("socket"):
        psycopg2.extensions.set_wait_callback(_wait)


def is_hub_safe() -> bool:
    """Whether a query of this process lets other greenlets run, or there are none to keep waiting."""
    return psycopg2.extensions.get_wait_callback() is not None or not monkey.is_module_patched("socket")


@functools.cache
def statement(name: str) -> TextClause:
    """The SQL of `store/sql/<name>.sql`, parameters as `:name`."""
    source = resources.files("worker_app.store").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    return text(source)


class Postgres:
    """One pool of connections. Every statement runs in a transaction that ends."""

    def __init__(self, url: str, *, pool_size: int, application_name: str = "dev-hops") -> None:
        install_wait_callback()
        self.engine: Engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,  # a bound that can be passed is none
            pool_timeout=10,
            pool_pre_ping=True,  # a restarted server costs one ping, not one failed task per pooled connection
            pool_recycle=1800,
            connect_args=_connect_args(application_name),
        )

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A connection inside one transaction: committed at the end, rolled back on any error.

        Raises StoreAway when Postgres does not answer or gave up on a lock, so that callers know that another try helps.
        """
        with _told_apart(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def statements(self) -> Iterator[Transaction]:
        """A connection on which every statement is a transaction of its own, for many in a row: one round trip each.

        Raises StoreAway as `transaction` does.
        """
        with _told_apart(), self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    def now(self) -> datetime:
        """The database's clock, aware UTC: the only clock that decides what is due."""
        with self.transaction() as tx:
            return now(tx)

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


@contextmanager
def _told_apart() -> Iterator[None]:
    """What time may mend becomes StoreAway; a fault of the statement stays what it is."""
    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeout, TimeoutError) as error:
        raise errors.StoreAway(f"Postgres does not answer: {_first_line(error)}") from error
    except DBAPIError as error:
        if error.connection_invalidated or getattr(error.orig, "pgcode", None) in (
            DEADLOCK,
            SERIALIZATION,
            LOCK_TIMEOUT,
        ):
            raise errors.StoreAway(f"Postgres gave up: {_first_line(error)}") from error
        raise


def now(tx: Transaction) -> datetime:
    """The database's clock at the start of this transaction, aware UTC."""
    moment: datetime = tx.execute(text("SELECT now()")).scalar_one()
    return moment


@contextmanager
def refusable(tx: Transaction) -> Iterator[None]:
    """A savepoint around statements that one bad row may break. Raises RowRefused with Postgres's words, `tx` goes on."""
    try:
        with tx.begin_nested():
            yield
    except DBAPIError as error:
        code = getattr(error.orig, "pgcode", None) or ""
        if code[:2] in ROW_FAULTS or code == RAISED:
            raise errors.RowRefused(_first_line(error)) from error
        raise


def single_connection(url: str, *, application_name: str) -> Engine:
    """An engine without a pool, in autocommit: for the migration job, whose lock belongs to one session."""
    install_wait_callback()
    arguments = _connect_args(application_name)
    return create_engine(url, poolclass=NullPool, connect_args=arguments)


def _connect_args(application_name: str) -> dict[str, object]:
    options = {
        "statement_timeout": f"{STATEMENT_TIMEOUT_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
        "timezone": "UTC",
    }
    return {
        "application_name": application_name,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        "keepalives": 1,
        "keepalives_idle": 30,  # seconds; with the next two a dead host is seen after a minute
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }


def _first_line(error: Exception) -> str:
    """The first line of a driver's message without the address it may hold."""
    line = str(getattr(error, "orig", None) or error).strip().splitlines()
    return re.sub(r"://[^@\s]*@", "://***@", line[0]) if line else type(error).__name__

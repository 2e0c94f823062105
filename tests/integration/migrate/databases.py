"""Copies of a database, for scenarios that need many alike."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool


def beside(url: str, suffix: str) -> str:
    """The address of another database on the same server, which may not be there."""
    address = make_url(url)
    return address.set(database=f"{address.database}_{suffix}").render_as_string(hide_password=False)


@contextmanager
def copies(url: str, count: int) -> Iterator[list[str]]:
    """The addresses of `count` databases that are like the one at `url`, to which nobody is connected; dropped at the end."""
    address = make_url(url)
    urls = [beside(url, str(number)) for number in range(count)]
    names = [make_url(item).database for item in urls]
    engine = create_engine(address.set(database="postgres"), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for name in names:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {address.database}"))
        try:
            yield urls
        finally:
            for name in names:
                connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))

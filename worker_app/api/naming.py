"""Naming: what people call an organisation or a source, found in Postgres; a fault says which field it is about."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from worker_app import errors
from worker_app.records import Source
from worker_app.store import sources
from worker_app.store.postgres import Transaction
from worker_app.store.sources import Org


def org_id(tx: Transaction, org: str | None) -> UUID | None:
    """The id of an organisation by name or id; None where none is named. Raises UsageError."""
    with _field("org", org):
        return None if org is None else sources.org(tx, org).id


def org(tx: Transaction, named: str | UUID | None) -> Org:
    """The organisation, or the only one where none is named. Raises UsageError."""
    with _field("org", named):
        return sources.org(tx, named)


def source(tx: Transaction, named: str, org: str | None = None) -> Source:
    """The source by id, name or end of a name. Raises UsageError where none or several fit."""
    owner = org_id(tx, org)
    with _field("source", named):
        return sources.source(tx, named, owner)


@contextmanager
def _field(name: str, value: str | UUID | None) -> Iterator[None]:
    try:
        yield
    except errors.UsageError as error:
        given = f"{name} is missing" if value is None else f"{name} is {str(value)[:100]!r}"
        raise errors.UsageError(f"{given}: {error}") from error

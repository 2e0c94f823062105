"""Credentials as rows: sealed, by version. What is in them only the vault reads; what people see of them holds no secret."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import text

from worker_app import errors
from worker_app.store.postgres import Transaction, statement
from worker_app.vault import Place, Sealed


@dataclass(frozen=True, slots=True)
class Entry:
    """A credential as people see it."""

    id: UUID
    org_id: UUID
    org: str
    provider: str
    host: str  # the one host that it may be sent to
    name: str
    kind: str
    version: int
    key_id: str  # of the key ring
    state: str
    created_by: str
    created_at: datetime  # of this version, aware UTC
    last_used_at: datetime | None  # to the hour
    sources_count: int  # that name it


@dataclass(frozen=True, slots=True)
class Row:
    """One sealed version of a credential."""

    place: Place
    name: str
    sealed: Sealed
    fingerprint: bytes
    state: str  # active, superseded, revoked
    has_current: bool  # some version of this credential is active
    use_is_due: bool  # its last use was noted more than an hour ago


def find(tx: Transaction, org_id: UUID, credential_id: UUID, version: int | None = None) -> Row | None:
    """A version of a credential of this organisation, the newest unless one is named; None where there is none."""
    given = {"id": credential_id, "org_id": org_id, "version": version}
    row = tx.execute(statement("find_credential"), given).one_or_none()
    if row is None:
        return None
    place = Place(row.org_id, row.provider, row.host, row.id, row.version)
    sealed = Sealed(row.key_id, bytes(row.wrapped_dek), bytes(row.ciphertext))
    return Row(place, row.name, sealed, bytes(row.fingerprint), row.state, row.has_current, row.use_is_due)


def note_use(tx: Transaction, place: Place) -> None:
    """Note that this version was used now."""
    tx.execute(
        statement("note_credential_use"), {"id": place.credential_id, "org_id": place.org_id, "version": place.version}
    )


def entries(tx: Transaction, org_id: UUID | None = None, credential_id: UUID | None = None) -> list[Entry]:
    """The credentials of an organisation (None: of all) that can be used, by name; or the one with this id."""
    return [Entry(*row) for row in tx.execute(statement("list_credentials"), {"org_id": org_id, "id": credential_id})]


def entry(
    tx: Transaction, name_or_id: str, org_id: UUID | None = None, provider: str | None = None, host: str | None = None
) -> Entry:
    """The credential with this id or name, at one provider and host where given. Raises UsageError when none or several fit."""
    found = [
        item
        for item in entries(tx, org_id)
        if name_or_id in (str(item.id), item.name) and provider in (None, item.provider) and host in (None, item.host)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise errors.UsageError(
            f"{len(found)} credentials are called {name_or_id!r}: name one by its id from `dev-hops credentials list`"
        )
    elsewhere = sorted({item.host for item in entries(tx, org_id) if name_or_id in (str(item.id), item.name)})
    if elsewhere:
        raise errors.UsageError(
            f"credential {name_or_id!r} is for {', '.join(elsewhere)}, and is sent nowhere else: what is to be read is on "
            f"{host}; write the host before its name ({elsewhere[0]}/…), or add a credential for {host}"
        )
    where = f" for {provider} at {host}" if provider else ""
    raise errors.UsageError(
        f"there is no credential {name_or_id!r}{where}; `dev-hops credentials list` shows those there are"
    )


def next_place(tx: Transaction, org_id: UUID, provider: str, host: str, name: str, *, replaces: bool) -> Place:
    """Where the next version of this name is written; the current one is superseded.

    A name keeps its id, also after it was removed, so that the sources that name it go on with the new version. Raises
    Conflict where there is a current one that nobody asked to replace, UsageError where there is none to replace.
    """
    named = {"org_id": org_id, "provider": provider, "host": host, "name": name}
    newest = tx.execute(
        text(
            "SELECT id, version, state FROM org_credentials WHERE org_id = :org_id AND provider = :provider AND host = :host "
            "AND name = :name ORDER BY version DESC LIMIT 1 FOR UPDATE"
        ),
        named,
    ).one_or_none()
    is_current = newest is not None and newest.state == "active"
    if is_current and not replaces:
        raise errors.Conflict(
            f"credential {name!r} for {provider} at {host} exists already; --replace gives it a new secret"
        )
    if replaces and not is_current:
        raise errors.UsageError(
            f"there is no credential {name!r} for {provider} at {host} to replace; leave --replace out"
        )
    if newest is None:
        return Place(org_id, provider, host, uuid4(), 1)
    tx.execute(
        text("UPDATE org_credentials SET state = 'superseded' WHERE id = :id AND state = 'active'"), {"id": newest.id}
    )
    return Place(org_id, provider, host, newest.id, newest.version + 1)


def add(
    tx: Transaction, place: Place, sealed: Sealed, *, name: str, kind: str, fingerprint: bytes, created_by: str
) -> Entry:
    """Write a sealed version. Raises Conflict when somebody else wrote one of the same name at this moment."""
    row = tx.execute(
        statement("insert_credential"),
        {
            "id": place.credential_id,
            "version": place.version,
            "org_id": place.org_id,
            "provider": place.provider,
            "host": place.host,
            "name": name,
            "kind": kind,
            "key_id": sealed.key_id,
            "wrapped_dek": sealed.wrapped_dek,
            "ciphertext": sealed.ciphertext,
            "fingerprint": fingerprint,
            "created_by": created_by,
        },
    ).one_or_none()
    if row is None:
        raise errors.Conflict(f"credential {name!r} was changed at this very moment; look at it and try again")
    return entries(tx, place.org_id, place.credential_id)[0]


def erase(tx: Transaction, item: Entry) -> None:
    """Erase every version of a credential: what uses it is refused from now on."""
    tx.execute(statement("erase_credential"), {"id": item.id, "org_id": item.org_id})


def erase_before(tx: Transaction, place: Place) -> None:
    """Erase the versions before this one: the open runs that hold them are refused from now on."""
    tx.execute(
        statement("erase_old_versions"), {"id": place.credential_id, "org_id": place.org_id, "version": place.version}
    )


def erase_unheld(tx: Transaction) -> int:
    """Erase the superseded versions that no open run was planned with; returns how many."""
    return tx.execute(statement("erase_unheld_versions")).rowcount

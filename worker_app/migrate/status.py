"""Status: the schema of each store beside what this program needs. Read only.

`look` asks the ledger alone, cheap enough for every start; `examine` also asks what else knows: the files' checksums, Alembic's
own table, ClickHouse itself. Ledgers that disagree mean a store that was emptied, restored or changed by hand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from worker_app.migrate import steps
from worker_app.migrate.steps import Series
from worker_app.store import schema
from worker_app.store.postgres import Postgres, Transaction
from worker_app.store.schema import Ledger

USABLE = ("current", "ahead")  # states that this program can work on

Witness = Callable[[Transaction, Mapping[int, bytes]], str]
"""What else knows a store's schema: given the checksums of finished steps by number, says what disagrees, or nothing."""


@dataclass(frozen=True, slots=True)
class Status:
    """A store's schema beside what this program needs. The field names are public."""

    store: str
    have: int
    want: int
    in_progress: bool
    state: str  # current, behind, ahead, unusable, disagrees
    needs: int = 0  # the oldest program number that may use what is newer than :want, 0 where nothing is newer
    fault: str = ""  # what disagrees

    @property
    def message(self) -> str:
        """One sentence with both numbers and the remedy."""
        if self.state == "disagrees":
            return f"{self.store}: {self.fault}"
        if self.state == "current":
            return f"{self.store}: schema {self.have} is current"
        newer = f"{self.store}: schema {self.have} is newer than this program ({self.want})"
        if self.state == "ahead":
            return f"{newer}, and compatible"
        if self.state == "unusable":
            return f"{newer}; it needs {self.needs} or later: deploy the newer program"
        busy = " and a migration has started" if self.in_progress else ""
        return f"{self.store}: schema {self.have} is behind {self.want}{busy}; run `dev-hops migrate {self.store}`"


def of_postgres(store: Postgres) -> Status:
    """How the schema of Postgres stands. Raises StoreAway when it does not answer."""
    return look(store, (steps.postgres(),))[0]


def look(store: Postgres, wanted: Sequence[Series]) -> tuple[Status, ...]:
    """How the schema of each store stands, by one read of the ledger. Raises StoreAway when Postgres does not answer."""
    with store.transaction() as tx:
        return _look(tx, wanted)


def examine(store: Postgres, wanted: Sequence[Series], witnesses: Mapping[str, Witness]) -> tuple[Status, ...]:
    """`look`, and what the witness of each store says. Raises StoreAway when a store does not answer."""
    with store.transaction() as tx:
        seen = _look(tx, wanted)
        return tuple(_examined(tx, series, status, witnesses) for series, status in zip(wanted, seen, strict=True))


def alembic_agrees(tx: Transaction, applied: Mapping[int, bytes]) -> str:
    """The witness of Postgres: what Alembic's own table says otherwise than the ledger."""
    stamped, finished = schema.alembic_number(tx), max(applied, default=0)
    if stamped == finished or (stamped > finished and schema.is_started(tx, "postgres", stamped)):
        return ""
    return f"the ledger says {finished} and alembic_version says {stamped}; restore the database as a whole"


def _look(tx: Transaction, wanted: Sequence[Series]) -> tuple[Status, ...]:
    found = schema.read(tx, {series.store: series.newest for series in wanted})
    return tuple(_status(series, found[series.store]) for series in wanted)


def _status(series: Series, ledger: Ledger) -> Status:
    state = _state(ledger, series.newest)
    return Status(series.store, ledger.have, series.newest, ledger.in_progress, state, ledger.needs)


def _state(ledger: Ledger, want: int) -> str:
    if ledger.in_progress or ledger.have < want:
        return "behind"
    if ledger.have == want:
        return "current"
    return "ahead" if ledger.needs <= want else "unusable"


def _examined(tx: Transaction, series: Series, status: Status, witnesses: Mapping[str, Witness]) -> Status:
    applied = schema.checksums(tx, series.store)
    faults = []
    if names := steps.edited(series, applied):
        faults.append(f"the file of an applied step was edited: {', '.join(names)}; restore it")
    if said := witnesses[series.store](tx, applied):
        faults.append(said)
    return replace(status, state="disagrees", fault="; ".join(faults)) if faults else status

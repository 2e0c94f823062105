"""Steps: the numbered changes of each store that this program brings, and whether the ledger knows the same ones.

A step is one file, `NNNN_name`. Its checksum is written when it is applied, so that an edit afterwards is seen.
"""

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from worker_app import errors
from worker_app.settings import Settings
from worker_app.store.schema import Ledger, Step

# Number -> the oldest program number that may run on it; a step that takes away what programs use raises it. A step that is
# not named here suits no older program.
POSTGRES_COMPATIBLE_FROM = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1}
CLICKHOUSE_COMPATIBLE_FROM = {1: 1}

STEP_FILE = re.compile(r"\d{4}_\w+")


@dataclass(frozen=True, slots=True)
class Series:
    """All steps of one store, in order: number 1 is the first, and none is left out."""

    store: str  # postgres or clickhouse, as in the ledger
    folder: Path
    steps: tuple[Step, ...]

    @property
    def newest(self) -> int:
        """The number that this program needs; 0 where it brings none."""
        return self.steps[-1].number if self.steps else 0


@functools.cache
def postgres() -> Series:
    """The Alembic revisions of this program."""
    return read("postgres", _folder("postgres") / "versions", ".py", POSTGRES_COMPATIBLE_FROM)


@functools.cache
def clickhouse() -> Series:
    """The ClickHouse statements of this program."""
    return read("clickhouse", _folder("clickhouse"), ".sql", CLICKHOUSE_COMPATIBLE_FROM)


def configured(settings: Settings) -> tuple[Series, ...]:
    """The steps of every store that is configured, Postgres first."""
    return (postgres(),) if settings.clickhouse_url is None else (postgres(), clickhouse())


def read(store: str, folder: Path, suffix: str, compatible_from: Mapping[int, int]) -> Series:
    """The steps in the files of `folder` that end in `suffix`. Raises SettingsError for two of one number and for a gap."""
    files = sorted(path for path in folder.glob(f"*{suffix}") if STEP_FILE.fullmatch(path.stem))
    found = tuple(_step(path, compatible_from) for path in files)
    for position, step in enumerate(found, start=1):
        if step.number != position:
            fault = "there are two" if step.number < position else "one is missing before it"
            raise errors.SettingsError(
                f"{store}: {step.name} is step {position} in order, and {fault}; number the files anew"
            )
    return Series(store, folder, found)


def refuse_foreign(series: Series, ledger: Ledger, applied: Mapping[int, bytes]) -> None:
    """Raise SettingsError (exit 78) when an applied step was edited since, or the ledger knows newer ones."""
    if names := edited(series, applied):
        raise errors.SettingsError(f"the file of an applied step was edited: {', '.join(names)}; restore it")
    if ledger.have > series.newest:
        raise errors.SettingsError(
            f"{series.store}: schema {ledger.have} is newer than this program ({series.newest}); deploy the newer one"
        )


def edited(series: Series, applied: Mapping[int, bytes]) -> list[str]:
    """The names of steps whose file is not what was applied; `applied` holds checksums by number."""
    return [step.name for step in series.steps if applied.get(step.number, step.checksum) != step.checksum]


def _step(path: Path, compatible_from: Mapping[int, int]) -> Step:
    number = int(path.stem[:4])
    checksum = hashlib.sha256(path.read_bytes()).digest()
    return Step(number, path.stem, checksum, compatible_from.get(number, number))


def _folder(store: str) -> Path:
    return Path(str(resources.files("worker_app.migrations") / store))

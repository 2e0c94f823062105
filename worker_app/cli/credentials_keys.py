"""`credentials rotate-keys`: every sealed row passes to the key that writes, while everything serves."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from worker_app import errors
from worker_app.cli import context, exits, output
from worker_app.cli.credentials import credentials_group
from worker_app.credentials import canary, rotation
from worker_app.credentials.rotation import Unopened
from worker_app.key_ring import KeyRing
from worker_app.runtime import Runtime
from worker_app.store.vault_keys import KeyUse
from worker_app.vault import RingKeys


@dataclass(frozen=True, slots=True)
class Key:
    """One key and what it wraps. The field names are public."""

    key_id: str
    rows: int  # versions of credentials that are not revoked
    vault_keys: int
    writes: bool
    in_ring: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """Which key wraps how much. The field names are public."""

    keys: tuple[Key, ...]
    done: bool  # nothing is on another key than the one that writes


@dataclass(frozen=True, slots=True)
class Rotation:
    """What one rotation did, and how it stands now. The field names are public."""

    rotated: int  # rows
    unopened: tuple[Unopened, ...]
    keys: tuple[Key, ...]
    done: bool


@credentials_group.command("rotate-keys")
@click.option("--check", is_flag=True, help="Change nothing: exit 0 once only the first key is in use, else 1.")
@output.json_option
def rotate_keys(check: bool, as_json: bool) -> None:
    """Wrap everything by the first key of CREDENTIAL_KEYS. Safe while serving, to interrupt and to run again or twice at once."""
    with context.opened() as runtime:
        ring = runtime.settings.require_credential_keys()
        _refuse_foreign(runtime)
        answer = _standing(runtime, ring) if check else _rotated(runtime, ring)
    output.emit(answer, as_json=as_json, show=lambda console: _draw(console, answer))
    if isinstance(answer, Rotation):
        _note_unopened(answer.unopened)
    if not answer.done:
        raise SystemExit(exits.EXIT_FAILED)


def _refuse_foreign(runtime: Runtime) -> None:
    """Raises SettingsError for a ring that lacks a key in use, or has another key under its id: counts by id would not tell."""
    with runtime.postgres.transaction() as tx:
        if found := canary.faults(tx, runtime.settings):
            raise errors.SettingsError("\n".join(found))


def _rotated(runtime: Runtime, ring: KeyRing) -> Rotation:
    """Raises SettingsError for a ring that lacks a key in use."""
    canary.require(runtime.postgres, runtime.settings)
    with _progress(rotation.uses(runtime.postgres), ring.writes) as report:
        found = rotation.rotate(runtime.postgres, RingKeys(ring), report)
    now = _standing(runtime, ring)
    return Rotation(found.rows, found.unopened, now.keys, now.done)


def _standing(runtime: Runtime, ring: KeyRing) -> Standing:
    """Every key of the ring and every one in use, the one that writes first."""
    found = rotation.uses(runtime.postgres)
    used = {use.key_id: use for use in found}
    keys = [used.get(key_id, KeyUse(key_id, 0, 0)) for key_id in dict.fromkeys((*ring.keys, *used))]
    return Standing(
        tuple(
            Key(key.key_id, key.rows, key.vault_keys, key.key_id == ring.writes, key.key_id in ring.keys)
            for key in keys
        ),
        rotation.is_done(found, ring.writes),
    )


@contextmanager
def _progress(found: Sequence[KeyUse], writes: str) -> Iterator[Callable[[int], None]]:
    """Shows, on a terminal alone, how many rows are on the key that writes."""
    console = Console(stderr=True)
    columns = (TextColumn("rows on {task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        there = sum(use.rows for use in found if use.key_id == writes)
        task = bar.add_task(writes, total=sum(use.rows for use in found), completed=there)
        yield lambda rows: bar.advance(task, rows)


def _draw(console: Console, answer: Standing | Rotation) -> None:
    rows = [(key.key_id, key.rows, key.vault_keys, key.writes, key.in_ring) for key in answer.keys]
    output.table("KEY", "ROWS", "VAULT KEYS", "WRITES", "IN RING", rows=rows, empty="")(console)
    console.print(_verdict(answer), markup=False)


def _verdict(answer: Standing | Rotation) -> str:
    others = ", ".join(key.key_id for key in answer.keys if not key.writes and key.in_ring)
    if answer.done:
        writes = next(key.key_id for key in answer.keys if key.writes)
        return f"everything is on {writes}, the key that writes" + (f"; {others} wraps nothing" if others else "")
    if isinstance(answer, Standing):
        return "run `dev-hops credentials rotate-keys`; keep every key that is in use"
    return "not everything is on the key that writes: keep every key in use, and run it again once every process has this ring"


def _note_unopened(unopened: Sequence[Unopened]) -> None:
    for row in unopened:
        output.note(f"credential {row.id} version {row.version} (key {row.key_id}) does not open, and stays as it is")
    if unopened:
        output.note("add those anew with `dev-hops credentials add --replace --revoke-old`, or remove them")

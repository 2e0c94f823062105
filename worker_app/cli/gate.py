"""The rate-limit gate: which keys are closed, until when, and what the provider said; and an end before its time."""

import sys
from collections.abc import Sequence
from textwrap import shorten

import click
from rich.console import Console

from worker_app import errors
from worker_app.cli import context, exits, output
from worker_app.gate.key import WHOLE_KEY, GateKey
from worker_app.runtime import Runtime
from worker_app.store import sources
from worker_app.store.sources import Org
from worker_app.sync import gates
from worker_app.sync.explain_findings import countdown
from worker_app.sync.gates import Cleared, GateView

COLUMNS = ("BUCKET", "CLOSED FOR", "REASON", "THE PROVIDER SAID", "LEFT", "WHOLE IN")
SAID_WIDTH = 60  # characters of what the provider said; --json has all of it
EMPTY = "no gate is known: no provider with a limit was asked yet"


@click.group("gate")
def gate_group() -> None:
    """Gates: one for each provider, organisation and host; while one is closed, no worker asks.

    A KEY is written provider/org/host, as in github/acme/github.com. Parts may be left out where one key alone fits.
    """


@gate_group.command("list")
@click.option("--closed", "only_closed", is_flag=True, help="Only what is closed now.")
@output.json_option
def list_gates(only_closed: bool, as_json: bool) -> None:
    """List what is known of every gate, the closed ones first."""
    with context.opened() as runtime:
        _, every = _look(runtime)
    found = [view for view in every if view.is_closed or not only_closed]
    rows = [(view.name, *_cells(view), f"{view.live} of {view.conc}") for view in found]
    empty = "no gate is closed" if every and only_closed else EMPTY
    show = output.table("GATE", *COLUMNS, "REQUESTS", rows=rows, empty=empty)
    output.emit(found, as_json=as_json, show=show)


@gate_group.command("show")
@click.argument("named", metavar="KEY")
@output.json_option
def show_gate(named: str, as_json: bool) -> None:
    """Show every bucket of one KEY."""
    with context.opened() as runtime:
        orgs, every = _look(runtime)
    key = gates.key_named(named, every, orgs)
    found = [view for view in every if view.key == key]
    output.emit(found, as_json=as_json, show=lambda console: _show(console, found))


@gate_group.command("clear")
@click.argument("named", metavar="KEY")
@click.option("--bucket", default=WHOLE_KEY, show_default=True, help="Only this bucket; * is all of the key.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
def clear_gate(named: str, bucket: str, yes: bool, as_json: bool) -> None:
    """Open KEY before its time, and let the batches that wait for it go on within 30 s.

    The provider has not said that it may be asked: one that is asked too early may refuse for longer.
    """
    with context.opened() as runtime:
        orgs, every = _look(runtime)
        key = gates.key_named(named, every, orgs)
        if not (yes or as_json):
            _confirm(_closed(every, key, bucket))
        done = gates.clear(runtime.postgres, runtime.gate, key, bucket, by=context.author())
    output.emit(done, as_json=as_json, show=output.sentence(_said(done)))


def _look(runtime: Runtime) -> tuple[list[Org], list[GateView]]:
    """The organisations, and what the gate knows. Raises StoreAway."""
    states = gates.states(runtime.gate)
    with runtime.postgres.transaction() as tx:
        orgs = sources.orgs(tx)
    return orgs, gates.views(states, orgs)


def _closed(every: Sequence[GateView], key: GateKey, bucket: str) -> list[GateView]:
    return [view for view in every if view.key == key and view.is_closed and bucket in (WHOLE_KEY, view.bucket)]


def _confirm(closed: Sequence[GateView]) -> None:
    """Ask the person, where there is something that the provider may mind; a no ends the command with 1."""
    for view in closed:
        said = f": {view.detail}" if view.detail else ""
        output.note(f"{_of(view)} is closed for {countdown(view.retry_in)} ({view.reason}{said})")
    try:
        is_wanted = not closed or click.confirm("open it all the same?", err=True)
    except click.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        raise errors.UsageError("nobody is there to be asked whether to open it all the same: give --yes") from None
    if not is_wanted:
        output.note("nothing was changed")
        raise SystemExit(exits.EXIT_FAILED)


def _show(console: Console, found: Sequence[GateView]) -> None:
    if not found:
        console.print("nothing is known of it: it is open", markup=False)
        return
    first = found[0]
    console.print(f"{first.name}: {first.live} of {first.conc} requests are under way", markup=False)
    output.table(*COLUMNS, rows=[_cells(view) for view in found], empty="")(console)


def _cells(view: GateView) -> tuple[str | None, ...]:
    left = None if view.remaining is None else f"{view.remaining} of {view.limit}"
    whole_in = None if view.reset_in is None else countdown(view.reset_in)
    closed_for = countdown(view.retry_in) if view.is_closed else None
    said = shorten(view.detail, SAID_WIDTH, placeholder="…") or None
    return view.bucket, closed_for, view.reason or None, said, left, whole_in


def _of(view: GateView) -> str:
    return view.name if view.bucket == WHOLE_KEY else f"{view.bucket} of {view.name}"


def _said(done: Cleared) -> str:
    what = done.gate if done.bucket == WHOLE_KEY else f"{done.bucket} of {done.gate}"
    batches = f"{done.batches} deferred {'batch goes' if done.batches == 1 else 'batches go'} on within 30 s"
    first = f"{what} is open again" if done.windows else f"nothing of {what} was closed"
    return f"{first}; {batches}" if done.batches else first


COMMANDS = (gate_group,)

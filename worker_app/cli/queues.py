"""Queues: what is ready, running and how old, and the fleets that consume them."""

from dataclasses import dataclass

import click
from rich.console import Console

from worker_app import errors, queue_depth
from worker_app.cli import context, fleets, output
from worker_app.queue_depth import FleetDepth, QueueDepth
from worker_app.runtime import Runtime
from worker_app.sync import gates

COLUMNS = ("QUEUE", "READY", "OLDEST s", "RUNNING", "HELD", "CONSUMERS")


@dataclass(frozen=True, slots=True)
class Shown:
    """One look."""

    queues: list[QueueDepth]
    fleets: list[FleetDepth] | None  # None: what is held back cannot be told, and so their work neither


@click.command("queues")
@click.option("--watch", is_flag=True, help="Draw it again every second until Ctrl-C.")
@output.json_option
def show_queues(watch: bool, as_json: bool) -> None:
    """Show every queue: messages ready (what `redis-cli llen QUEUE` counts), their age, tasks running, workers.

    HELD are those of the ready messages that a closed gate would send away: no more workers are needed for them. Below stand
    the fleets; `dev-hops fleets --json` has them as a document.
    """
    with context.opened() as runtime:
        output.watch(
            lambda: _read(runtime), _draw, is_watched=watch, as_json=as_json, answer=lambda shown: shown.queues
        )


def _read(runtime: Runtime) -> Shown:
    held, present = _held(runtime), queue_depth.workers(runtime.broker)
    found = queue_depth.depths(runtime.broker, held=held, present=present)
    known = runtime.settings.dev_hops_fleets
    return Shown(found, None if held is None else queue_depth.by_fleet(known, found, present))


def _held(runtime: Runtime) -> dict[str, int] | None:
    """What gates hold back; None, which shows as a dash, where Postgres or the gate's Redis does not answer."""
    try:
        return queue_depth.held(gates.states(runtime.gate), runtime.postgres.transaction)
    except errors.StoreAway:
        return None


def _draw(shown: Shown, console: Console) -> None:
    rows = [
        (item.queue, item.ready, item.oldest_age_seconds, item.running, item.held, item.consumers)
        for item in shown.queues
    ]
    output.table(*COLUMNS, rows=rows, empty="")(console)
    if shown.fleets is not None:
        console.print()
        fleets.table(shown.fleets, console)


COMMANDS = (show_queues,)

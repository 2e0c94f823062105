"""Queues: what is ready, running and how old."""

import time

import click
from rich.console import Console

from worker_app import errors, queue_depth
from worker_app.cli import context, output
from worker_app.queue_depth import QueueDepth
from worker_app.runtime import Runtime
from worker_app.sync import gates

COLUMNS = ("QUEUE", "READY", "OLDEST s", "RUNNING", "HELD", "CONSUMERS")


@click.command("queues")
@click.option("--watch", is_flag=True, help="Draw it again every second until Ctrl-C.")
@output.json_option
def show_queues(watch: bool, as_json: bool) -> None:
    """Show every queue: messages ready (what `redis-cli llen QUEUE` counts), their age, tasks running, workers.

    HELD are those of the ready messages that a closed gate would send away: no more workers are needed for them.
    """
    with context.opened() as runtime:
        while True:
            found = queue_depth.depths(runtime.broker, held=_held(runtime))
            output.emit(found, as_json=as_json, show=lambda console, shown=found: _draw(console, shown, watch))  # type: ignore[misc]
            if not watch or as_json:
                return
            time.sleep(1)


def _held(runtime: Runtime) -> dict[str, int] | None:
    """What gates hold back; None, which shows as a dash, where Postgres or the gate's Redis does not answer."""
    try:
        return queue_depth.held(gates.states(runtime.gate), runtime.postgres.transaction)
    except errors.StoreAway:
        return None


def _draw(console: Console, found: list[QueueDepth], clear: bool) -> None:
    if clear:
        console.clear()
    rows = [
        (item.queue, item.ready, item.oldest_age_seconds, item.running, item.held, item.consumers) for item in found
    ]
    output.table(*COLUMNS, rows=rows, empty="")(console)


COMMANDS = (show_queues,)

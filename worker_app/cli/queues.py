"""Queues: what is ready, running and how old."""

import time

import click
from rich.console import Console

from worker_app import queue_depth
from worker_app.cli import context, output
from worker_app.queue_depth import QueueDepth

COLUMNS = ("QUEUE", "READY", "OLDEST s", "RUNNING", "HELD", "CONSUMERS")


@click.command("queues")
@click.option("--watch", is_flag=True, help="Draw it again every second until Ctrl-C.")
@output.json_option
def show_queues(watch: bool, as_json: bool) -> None:
    """Show every queue: messages ready (what `redis-cli llen QUEUE` counts), their age, tasks running, workers."""
    with context.opened() as runtime:
        while True:
            found = queue_depth.depths(runtime.broker)
            output.emit(found, as_json=as_json, show=lambda console, shown=found: _draw(console, shown, watch))  # type: ignore[misc]
            if not watch or as_json:
                return
            time.sleep(1)


def _draw(console: Console, found: list[QueueDepth], clear: bool) -> None:
    if clear:
        console.clear()
    rows = [
        (item.queue, item.ready, item.oldest_age_seconds, item.running, item.held, item.consumers) for item in found
    ]
    output.table(*COLUMNS, rows=rows, empty="")(console)


COMMANDS = (show_queues,)

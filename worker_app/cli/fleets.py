"""Fleets: how much work each has, and who is there to do it."""

from collections.abc import Sequence

import click
from rich.console import Console

from worker_app import queue_depth
from worker_app.cli import context, output
from worker_app.queue_depth import FleetDepth
from worker_app.runtime import Runtime
from worker_app.sync import gates

COLUMNS = ("FLEET", "WORK", "READY", "HELD", "RUNNING", "SLOTS", "WORKERS", "OLDEST s")


@click.command("fleets")
@click.option("--watch", is_flag=True, help="Draw it again every second until Ctrl-C.")
@output.json_option
def show_fleets(watch: bool, as_json: bool) -> None:
    """Show every fleet: its work as the autoscaler sees it, what that is made of, and its workers.

    WORK is READY and RUNNING without HELD, which a closed gate would send away. OLDEST is the age of what is not held.
    """
    with context.opened() as runtime:
        output.watch(lambda: read(runtime), table, is_watched=watch, as_json=as_json)


def read(runtime: Runtime) -> list[FleetDepth]:
    """The fleets of the settings. Raises StoreAway where a store does not answer: no number is better than a wrong one."""
    states = gates.states(runtime.gate)
    return queue_depth.fleet_depths(
        runtime.broker, runtime.settings.dev_hops_fleets, states, runtime.postgres.transaction
    )


def table(found: Sequence[FleetDepth], console: Console) -> None:
    """Draw the fleets."""
    rows = [
        (item.fleet, item.work, item.ready, item.held, item.running, item.slots, item.workers, item.oldest_age_seconds)
        for item in found
    ]
    output.table(*COLUMNS, rows=rows, empty="")(console)


COMMANDS = (show_fleets,)

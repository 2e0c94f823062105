"""Explain: one answer to "why is it not running?"."""

import click
from rich.console import Console

from worker_app.cli import context, output
from worker_app.settings import Settings
from worker_app.sync import explain
from worker_app.sync.explain import Explanation
from worker_app.sync.explain_findings import Bounds


@click.command("explain")
@click.argument("named", metavar="JOB|RUN|BATCH")
@output.json_option
def explain_one(named: str, as_json: bool) -> None:
    """Say why a job, a run or a batch is not running: the decisive reason first, then all that was found.

    It is named by its id or an unambiguous beginning of it; a source's name stands for the run of it that was asked
    for by hand and is not over, else for its schedule.
    """
    with context.opened() as runtime:
        found = explain.explain(runtime.postgres, runtime.broker, runtime.locks, bounds_of(runtime.settings), named)
    output.emit(found, as_json=as_json, show=lambda console: _show(console, found))


def bounds_of(settings: Settings) -> Bounds:
    """What an explanation reckons with. They are this process's settings: the fleet should have the same."""
    return Bounds(
        cap=settings.sync_concurrency_per_provider,
        outbox_max_depth=settings.outbox_max_depth,
        dispatch_interval_seconds=settings.dispatch_interval_seconds,
        rescue_interval_seconds=settings.rescue_interval_seconds,
        visibility_timeout_seconds=settings.visibility_timeout_seconds,
        fleets=settings.dev_hops_fleets,
    )


def _show(console: Console, found: Explanation) -> None:
    console.print(found.answer, markup=False)
    console.print()
    rows = [(item.code, item.since, item.until, item.text, item.remedy) for item in found.findings]
    output.table("CODE", "SINCE", "UNTIL", "FOUND", "DO", rows=rows, empty="")(console)
    if found.batches:
        console.print()
        console.print(
            "batches: " + ", ".join(f"{number} {state}" for state, number in found.batches.items()), markup=False
        )
    if found.what == "job":
        console.print()
        lines = [
            (
                item.scheduled_for,
                item.outcome,
                item.reason,
                item.skipped_slots,
                item.run_id and str(item.run_id)[:8],
                item.run_state,
            )
            for item in found.ledger
        ]
        columns = ("SLOT", "OUTCOME", "REASON", "SKIPPED", "RUN", "STATE")
        output.table(*columns, rows=lines, empty="no slot was served yet")(console)


COMMANDS = (explain_one,)

"""Sync now, and the runs: list, show, watch, cancel, retry."""

from uuid import uuid4

import click
from rich.console import Console

from worker_app import errors, jobs
from worker_app.cli import context, exits, output, progress
from worker_app.cli.directory import org_option
from worker_app.jobs import RunState
from worker_app.runtime import Runtime
from worker_app.store import runs, sources
from worker_app.store.runs import RunView
from worker_app.sync import control


def find(runtime: Runtime, run: str) -> RunView:
    """The run with this id or this unambiguous beginning of an id. Raises UsageError."""
    with runtime.postgres.transaction() as tx:
        ids = runs.beginning_with(tx, run)
        found = runs.views(tx, run_id=ids[0]) if len(ids) == 1 else []
    if found:
        return found[0]
    what = "several runs have" if ids else "no run has"
    raise errors.UsageError(f"{what} an id that begins with {run!r}; `dev-hops runs list` shows the latest")


@click.command()
@click.argument("source")
@org_option
@click.option("--wait", is_flag=True, help="Show progress until the run is over; exit 1 unless it succeeded.")
@click.option("--idempotency-key", help="The same key twice is one run.")
@output.json_option
def sync(source: str, org_name: str | None, wait: bool, idempotency_key: str | None, as_json: bool) -> None:
    """Sync SOURCE (name or id) now. The workers do it; this command only asks for it."""
    with context.opened() as runtime:
        with runtime.postgres.transaction() as tx:
            found = sources.source(tx, source, sources.org(tx, org_name).id if org_name else None)
            run_id = jobs.keyed_run_id(found.org_id, idempotency_key) if idempotency_key else uuid4()
            runs.add_manual(tx, found.org_id, found.provider, found.id, run_id)
        if wait:
            _finish(progress.follow(runtime, run_id, quiet=as_json), as_json)
        else:
            view = find(runtime, str(run_id))
            text = f"run {run_id} is queued; watch it with `dev-hops runs watch {run_id}`"
            output.emit(view, as_json=as_json, show=output.sentence(text))


@click.group("runs")
def runs_group() -> None:
    """Runs: one execution of a sync, or of the metrics that follow it."""


@runs_group.command("list")
@org_option
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many, the newest first."
)
@output.json_option
def list_runs(org_name: str | None, limit: int, as_json: bool) -> None:
    """List the latest runs."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        org_id = sources.org(tx, org_name).id if org_name else None
        found = runs.views(tx, org_id=org_id, limit=limit)
    rows = [
        (
            str(item.id)[:8],
            item.kind,
            item.source or item.org,
            item.state,
            item.trigger,
            _of(item.batches_done, item.batches_total) if item.kind not in ("metrics", "report") else None,
            item.records,
            item.created_at,
            item.error,
        )
        for item in found
    ]
    empty = "no run yet; `dev-hops sync SOURCE` starts one"
    columns = ("RUN", "KIND", "SOURCE", "STATE", "TRIGGER", "BATCHES", "RECORDS", "CREATED", "ERROR")
    output.emit(found, as_json=as_json, show=output.table(*columns, rows=rows, empty=empty))


@runs_group.command("show")
@click.argument("run")
@output.json_option
def show_run(run: str, as_json: bool) -> None:
    """Show one RUN (id or its beginning)."""
    with context.opened() as runtime:
        found = find(runtime, run)
    output.emit(found, as_json=as_json, show=lambda console: _show(console, found))


@runs_group.command("watch")
@click.argument("run")
@output.json_option
def watch_run(run: str, as_json: bool) -> None:
    """Show the progress of RUN until it is over; exit 1 unless it succeeded."""
    with context.opened() as runtime:
        _finish(progress.follow(runtime, find(runtime, run).id, quiet=as_json), as_json)


@runs_group.command("cancel")
@click.argument("run")
@output.json_option
def cancel_run(run: str, as_json: bool) -> None:
    """End RUN: what has not begun at once, what runs after its page. What was stored stays."""
    with context.opened() as runtime:
        found = find(runtime, run)
        done = control.cancel(runtime.postgres, found.id, cap=runtime.settings.sync_concurrency_per_provider)
        view = find(runtime, str(found.id))
    rest = "" if done.state == RunState.CANCELLED else "; what runs of it ends after its page"
    text = f"run {found.id} is cancelled: {_batches(done.closed)} had not begun{rest}"
    output.emit(view, as_json=as_json, show=output.sentence(text))


@runs_group.command("retry")
@click.argument("run")
@output.json_option
def retry_run(run: str, as_json: bool) -> None:
    """Try again what failed of RUN: its failed batches from where they stood, or the whole of a run that has none."""
    with context.opened() as runtime:
        found = find(runtime, run)
        count = control.retry(runtime.postgres, found.id, cap=runtime.settings.sync_concurrency_per_provider)
        view = find(runtime, str(found.id))
    what = f"{_batches(count)} of it go on" if count > 1 else "one batch of it goes on" if count else "it begins anew"
    text = f"run {found.id} is open again: {what}; watch it with `dev-hops runs watch {found.id}`"
    output.emit(view, as_json=as_json, show=output.sentence(text))


def _finish(view: RunView, as_json: bool) -> None:
    output.emit(view, as_json=as_json, show=lambda console: _show(console, view))
    if view.state != RunState.SUCCEEDED:
        raise SystemExit(exits.EXIT_FAILED)


def _show(console: Console, view: RunView) -> None:
    for name, value in output.document(view).items():
        console.print(f"{name:>16}  {'-' if value is None else value}", markup=False)


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count or 'no'} batches"


def _of(done: int, total: int | None) -> str:
    return f"{done}/{'?' if total is None else total}"


COMMANDS = (sync, runs_group)

"""Reports: what a schedule rendered, and any period rendered again by hand."""

from datetime import datetime

import click

from worker_app import errors
from worker_app.cli import context, output
from worker_app.cli.directory import org_option
from worker_app.reports import render
from worker_app.store import reports, sources
from worker_app.store.reports import Output


@click.group("reports")
def reports_group() -> None:
    """Reports: a period of days in Markdown for people and, with --json, for programs."""


@reports_group.command("list")
@org_option
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many, the newest first."
)
@output.json_option
def list_reports(org_name: str | None, limit: int, as_json: bool) -> None:
    """List the latest reports."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        org_id = sources.org(tx, org_name).id if org_name else None
        found = reports.views(tx, org_id, limit=limit)
    rows = [
        (
            str(item.id)[:8],
            item.template,
            item.org,
            item.period_from,
            item.period_to,
            "schedule" if item.scheduled_job_id else "manual",
            item.rendered_at,
        )
        for item in found
    ]
    columns = ("REPORT", "TEMPLATE", "ORGANISATION", "FROM", "TO", "TRIGGER", "RENDERED")
    empty = f"no report yet; `dev-hops reports run {min(render.TEMPLATES)}` renders one"
    output.emit(found, as_json=as_json, show=output.table(*columns, rows=rows, empty=empty))


@reports_group.command("show")
@click.argument("report", required=False)
@org_option
@output.json_option
def show_report(report: str | None, org_name: str | None, as_json: bool) -> None:
    """Show one REPORT (id or its beginning), the newest unless named."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        org_id = sources.org(tx, org_name).id if org_name else None
        found = reports.views(tx, org_id, report.lower() if report else None, limit=2 if report else 1)
        if len(found) != 1:
            raise errors.UsageError(_none_or_several(report, len(found)))
        shown = reports.output(tx, found[0])
    _print(shown, as_json)


@reports_group.command("run")
@click.argument("template")
@org_option
@click.option("--from", "start", type=click.DateTime(["%Y-%m-%d"]), help="First day, in the organisation's zone.")
@click.option(
    "--to",
    "end",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Last day, included; yesterday unless named, with the 6 before.",
)
@output.json_option
def run_report(
    template: str, org_name: str | None, start: datetime | None, end: datetime | None, as_json: bool
) -> None:
    """Render TEMPLATE (sync-health) for any period now, store it and print it."""
    with context.opened() as runtime:
        shown = render.by_hand(
            runtime.postgres,
            runtime.metrics,
            org_name,
            template,
            start.date() if start else None,
            end.date() if end else None,
        )
    _print(shown, as_json)


def _none_or_several(report: str | None, count: int) -> str:
    if report is None:
        return f"there is no report yet; `dev-hops reports run {min(render.TEMPLATES)}` renders one"
    what = "no report has" if count == 0 else "several reports have"
    return f"{what} an id that begins with {report!r}; `dev-hops reports list` shows the latest"


def _print(shown: Output, as_json: bool) -> None:
    """The report as it is stored, so that it can be sent on; when it was rendered stands beside it, on standard error."""
    if not as_json:
        output.note(f"report {shown.id}, rendered {output.cell(shown.rendered_at)}")
    output.emit(shown, as_json=as_json, show=lambda _: click.echo(shown.body_markdown, nl=False))


COMMANDS = (reports_group,)

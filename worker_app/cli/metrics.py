"""Metrics: the computed numbers as a table with bars, as CSV or as JSON."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from itertools import groupby
from types import MappingProxyType

import click
from rich.console import Console

from worker_app import errors
from worker_app.cli import context, output
from worker_app.cli.directory import org_option
from worker_app.metrics import commits
from worker_app.records import Source
from worker_app.store import sources
from worker_app.store.metrics import MetricRow

FIELDS = ("metric", "definition_v", "grain", "grain_id", "day", "value", "num", "den", "n", "coverage", "computed_at")
BAR_WIDTH = 30
TABLE_WIDTH = 66  # of the columns beside the bar
DAYS_SHOWN = 30
HEADINGS = {
    "commits": "COMMITS",
    "commit_authors": "AUTHORS",
    "additions": "+LINES",
    "deletions": "-LINES",
    "files_touched": "FILES",
    "merge_commits": "MERGES",
}


@click.group("metrics")
def metrics_group() -> None:
    """Metrics: developer-health numbers, computed from what was synced."""


@metrics_group.command("show")
@org_option
@click.option(
    "--metric", "names", multiple=True, help=f"One of {', '.join(commits.METRICS)}; may be given more than once."
)
@click.option("--grain", type=click.Choice(["org", "repo"]), help="Per organisation or per repository.")
@click.option("--from", "start", type=click.DateTime(["%Y-%m-%d"]), help="First day, in the organisation's zone.")
@click.option("--to", "end", type=click.DateTime(["%Y-%m-%d"]), help="Last day, included.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@output.json_option
def show_metrics(
    org_name: str | None,
    names: tuple[str, ...],
    grain: str | None,
    start: datetime | None,
    end: datetime | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show daily metrics: a table of the latest days and a bar chart; with --json or --csv every row."""
    if unknown := [name for name in names if name not in commits.METRICS]:
        raise errors.UsageError(f"metric is {unknown[0]!r}: there are {', '.join(commits.METRICS)}")
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        org = sources.org(tx, org_name)
        found = runtime.metrics.read(
            tx,
            org.id,
            metrics=names,
            grain=grain,
            start=start.date() if start else None,
            end=end.date() if end else None,
        )
        names_shown = names_of(sources.sources(tx, org.id))
    if as_csv and not as_json:
        click.echo(_csv(found), nl=False)
        return
    output.emit(
        [_document(row) for row in found],
        as_json=as_json,
        show=lambda console: draw(console, found, grain or "repo", names=names_shown),
    )


def _document(row: MetricRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in FIELDS}


def _csv(found: list[MetricRow]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for row in found:
        values = output.document(_document(row))
        writer.writerow("" if values[name] is None else values[name] for name in FIELDS)
    return text.getvalue()


def names_of(known: Iterable[Source]) -> dict[str, str]:
    """What people call the repositories whose ids are numbers, by the ids of their grain."""
    return {
        _grain_id(source, source.ext_id): _grain_id(source, source.external_name)
        for source in known
        if source.ext_id.isdecimal()
    }


def _grain_id(source: Source, name: str) -> str:
    return commits.repo_place(source.provider, source.host, name).grain_id


def draw(
    console: Console,
    found: list[MetricRow],
    grain: str,
    *,
    days: int = DAYS_SHOWN,
    names: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Draw the latest days of every repository or organisation: its metrics as columns, the first of them as a bar.

    `names` are shown in place of the ids of repositories.
    """

    def name(row: MetricRow) -> str:
        return names.get(row.grain_id, row.grain_id)

    shown = sorted((row for row in found if row.grain == grain and row.value is not None), key=name)
    if not shown:
        console.print("no metrics yet; they follow the first sync of a source", markup=False)
    for named, rows in groupby(shown, key=name):
        by_day: defaultdict[date, dict[str, MetricRow]] = defaultdict(dict)
        for row in rows:
            by_day[row.day][row.metric] = row
        console.print(named, style="bold", markup=False)
        _draw_days(console, by_day, sorted(by_day)[-days:])


def _draw_days(console: Console, by_day: dict[date, dict[str, MetricRow]], days: list[date]) -> None:
    names = [name for name in commits.METRICS if any(name in by_day[day] for day in days)]
    most = max(by_day[day][names[0]].value or 0.0 for day in days if names[0] in by_day[day])
    rows = []
    for day in days:
        values = [by_day[day][name].value if name in by_day[day] else None for name in names]
        read = _read(day, list(by_day[day].values()))
        rows.append(
            (day.isoformat(), *values, read, _bar(values[0], most, min(BAR_WIDTH, console.width - TABLE_WIDTH)))
        )
    output.table("DAY", *(HEADINGS[name] for name in names), "READ", "", rows=rows, empty="")(console)
    if len(by_day) > len(days):
        console.print(f"… and {len(by_day) - len(days)} earlier days; --json or --csv shows all", markup=False)


def _read(day: date, rows: list[MetricRow]) -> str:
    """How completely the day was read; a day that was not over when it was computed says so."""
    coverage = min(row.coverage for row in rows)
    was_over = any(row.computed_at is not None and row.computed_at.date() > day for row in rows)
    return f"{coverage:.0%}" if was_over or coverage == 1 else "so far"


def _bar(value: float | None, most: float, width: int) -> str:
    return "█" * max(1, round(width * value / most)) if value and most and width > 0 else ""


COMMANDS = (metrics_group,)

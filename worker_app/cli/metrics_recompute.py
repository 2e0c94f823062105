"""`metrics recompute`: every day that has records is computed anew, from the records that Postgres keeps."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

import click
from rich.console import Console

from worker_app import errors
from worker_app.cli import context, output
from worker_app.cli.directory import org_option
from worker_app.cli.metrics import metrics_group
from worker_app.store import metrics, runs, sources


@dataclass(frozen=True, slots=True)
class Recomputation:
    """What was ordered for one organisation. The field names are public."""

    org: str
    days: int
    run: UUID | None  # that computes them; None where there is nothing to compute


@metrics_group.command("recompute")
@org_option
@click.option("--from", "start", type=click.DateTime(["%Y-%m-%d"]), help="First day, in the organisation's zone.")
@click.option("--to", "end", type=click.DateTime(["%Y-%m-%d"]), help="Last day, included.")
@output.json_option
def recompute(org_name: str | None, start: datetime | None, end: datetime | None, as_json: bool) -> None:
    """Compute the days that have records anew: of one organisation, or of all. The workers do it.

    After CLICKHOUSE_URL was set or unset, or a store of metrics was restored.
    """
    if start and end and start > end:
        raise errors.UsageError(f"--from is {start:%Y-%m-%d} and --to is {end:%Y-%m-%d}: give them in order")
    ordered = []
    with context.opened() as runtime:
        with runtime.postgres.transaction() as tx:
            orgs = [sources.org(tx, org_name)] if org_name else sources.orgs(tx)
        for org in orgs:
            with runtime.postgres.transaction() as tx:
                days = metrics.touch_recorded(tx, org.id, start.date() if start else None, end.date() if end else None)
                run = uuid4() if days else None
                if run is not None:
                    runs.add_metrics(tx, org.id, run, "manual")
            ordered.append(Recomputation(org.name, days, run))
    output.emit(ordered, as_json=as_json, show=_table(ordered))


def _table(ordered: list[Recomputation]) -> Callable[[Console], None]:
    rows = [(item.org, item.days, item.run) for item in ordered]
    return output.table("ORGANISATION", "DAYS", "RUN", rows=rows, empty="there is no organisation yet")

"""Render: a report run, or a person's wish, becomes one stored report. What is asked for is checked here.

A run is claimed, read in one snapshot, rendered, and written and closed in one transaction. Its report's id is made of the
run's, so a run that is rendered twice leaves one report. Another try cannot mend an order that makes no sense: the run fails.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID, uuid4, uuid5
from zoneinfo import ZoneInfo

import structlog

from worker_app import errors, jobs
from worker_app.jobs import Run, RunState
from worker_app.reports import period, sync_health, sync_health_text
from worker_app.reports.period import Period
from worker_app.reports.sync_health import Activity, Facts
from worker_app.store import reports, runs, sources
from worker_app.store.metrics import MetricSink
from worker_app.store.postgres import Postgres, Transaction, now
from worker_app.store.reports import NewOutput, Output
from worker_app.store.sources import Org
from worker_app.sync import lease, promote

REMEDY = "; remove the schedule and add it again"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a template makes of a period: the same content twice, and how far its inputs were read."""

    markdown: str
    body: Mapping[str, Any]
    input_watermark: datetime | None


def _sync_health(tx: Transaction, sink: MetricSink, org: Org, days: Period) -> Draft:
    facts = Facts(
        org=org,
        period=days,
        datasets=reports.datasets(tx, org.id, days.start, days.as_of),
        faults=reports.faults(tx, org.id),
        now=_activity(tx, sink, org, days),
        before=_activity(tx, sink, org, days.before()),
    )
    content = sync_health.content(facts)
    return Draft(sync_health_text.text(content), sync_health.document(content), content.input_watermark)


def _activity(tx: Transaction, sink: MetricSink, org: Org, days: Period) -> Activity:
    span = org.id, days.start, days.as_of
    return Activity(
        runs=reports.run_counts(tx, *span),
        batches=reports.batch_counts(tx, *span),
        slots=reports.slot_counts(tx, *span),
        rows=sink.read(tx, org.id, grain="org", start=days.first, end=days.last),
    )


TEMPLATES: Mapping[str, Callable[[Transaction, MetricSink, Org, Period], Draft]] = dict(
    zip(jobs.REPORT_TEMPLATES, (_sync_health,), strict=True)
)


def run(postgres: Postgres, sink: MetricSink, run_id: UUID, *, lease_seconds: int) -> RunState | None:
    """Render what the run's schedule asks for and close the run: succeeded, or failed with what is wrong with the order.

    None: a duplicate message, a closed or an unknown run. Raises LeaseLost when another worker took the run over.
    """
    owner = uuid4()
    with postgres.transaction() as tx:
        claimed = runs.claim(tx, run_id, owner, "compute", lease_seconds)
    if claimed is None:
        return None

    def renew() -> bool:
        with postgres.transaction() as tx:
            return runs.renew(tx, run_id, owner, lease_seconds)

    with lease.kept(renew, lease_seconds):
        try:
            output = _render_run(postgres, sink, claimed)
        except errors.PermanentError as error:
            return _fail(postgres, claimed, owner, error)
        with postgres.transaction() as tx:
            reports.write(tx, output)
            if not runs.close(tx, run_id, owner, RunState.SUCCEEDED):
                raise errors.LeaseLost(f"run {run_id} was taken over")
    promote.after(postgres, claimed.job_id)
    return RunState.SUCCEEDED


def by_hand(
    postgres: Postgres,
    sink: MetricSink,
    org_name: str | None,
    template: str,
    first: date | None = None,
    last: date | None = None,
) -> Output:
    """Render any period at once and store it; the same period again takes the place of the one before.

    Raises UsageError naming the template, organisation or end of the period that cannot be, and the remedy.
    """
    check_template(template)
    with postgres.transaction() as tx:
        reports.snapshot(tx)
        org = sources.org(tx, org_name)
        days = period.between(first, last, ZoneInfo(org.tz), now(tx))
        draft = TEMPLATES[template](tx, sink, org, days)
    key = uuid5(jobs.NAMESPACE, f"{org.id}|report|{template}|{days.first}|{days.last}")
    with postgres.transaction() as tx:
        reports.write(tx, _output(org.id, key, None, template, days, draft))
        (view,) = reports.views(tx, org.id, str(key))
        return reports.output(tx, view)


def output_id(run_id: UUID) -> UUID:
    """The id of the report that a run leaves."""
    return uuid5(jobs.NAMESPACE, f"{run_id}|report")


def check_template(template: object) -> str:
    """The name of a template that there is. Raises UsageError."""
    if isinstance(template, str) and template in TEMPLATES:
        return template
    raise errors.UsageError(f"template is {template!r:.80}: there is {', '.join(sorted(TEMPLATES))}")


def check_params(params: object) -> tuple[str, int]:
    """Template and number of days from what a scheduled job says. Raises UsageError naming field, value and remedy."""
    if not isinstance(params, dict):
        raise errors.UsageError(
            f"params is {params!r:.80}: give an object such as {{'template': 'sync-health'}}{REMEDY}"
        )
    try:
        template = check_template(params.get("template"))
    except errors.UsageError as error:
        raise errors.UsageError(f"params.{error}{REMEDY}") from error
    count = params.get("period_days", period.DEFAULT_DAYS)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= period.MOST_DAYS:
        raise errors.UsageError(
            f"params.period_days is {count!r:.80}: give whole days from 1 to {period.MOST_DAYS}{REMEDY}"
        )
    return template, count


def _render_run(postgres: Postgres, sink: MetricSink, claimed: Run) -> NewOutput:
    with postgres.transaction() as tx:
        reports.snapshot(tx)
        order, org = reports.order(tx, claimed.id), sources.org(tx, claimed.org_id)
        if order.params is None:
            raise errors.UsageError(
                "the schedule of this report was removed, and its run does not say what to render; "
                "`dev-hops reports run TEMPLATE` renders it by hand"
            )
        template, count = check_params(order.params)
        days = period.last_days(order.slot, ZoneInfo(org.tz), count)
        draft = TEMPLATES[template](tx, sink, org, days)
    return _output(org.id, output_id(claimed.id), claimed.job_id, template, days, draft)


def _output(org_id: UUID, key: UUID, job_id: UUID | None, template: str, days: Period, draft: Draft) -> NewOutput:
    return NewOutput(
        org_id=org_id,
        id=key,
        scheduled_job_id=job_id,
        template=template,
        period_from=days.first,
        period_to=days.last,
        body_markdown=draft.markdown,
        body=draft.body,
        input_watermark=draft.input_watermark,
    )


def _fail(postgres: Postgres, claimed: Run, owner: UUID, error: errors.PermanentError) -> RunState:
    log.error("report.failed", error=str(error), error_class=type(error).__name__)
    with postgres.transaction() as tx:
        if not runs.close(tx, claimed.id, owner, RunState.FAILED, str(error), type(error).__name__):
            raise errors.LeaseLost(f"run {claimed.id} was taken over")
    promote.after(postgres, claimed.job_id)
    return RunState.FAILED

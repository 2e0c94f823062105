"""Reports: what a report of an organisation is made from, read in one snapshot, and what was rendered."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from worker_app.store.postgres import Transaction, statement


@dataclass(frozen=True, slots=True)
class Order:
    """What a report run was asked for, as it is stored: nothing of it has been checked."""

    slot: datetime  # aware UTC
    params: object  # of the scheduled job; None once that was removed


@dataclass(frozen=True, slots=True)
class DatasetLine:
    """A source with one of its datasets: how far it was read, and how its newest batch of the period ended."""

    source_id: UUID
    source: str
    provider: str
    state: str
    reason: str | None
    dataset: str | None  # None: nothing is known of any dataset
    scope: str
    is_disabled: bool
    disabled_reason: str | None
    began_at: datetime | None  # the start of its last complete walk, aware UTC; None before the first
    ended_at: datetime | None  # when the newest batch of the period's runs ended, aware UTC; None: there was none
    ended: str | None  # succeeded, incomplete, failed, cancelled
    error_class: str | None


@dataclass(frozen=True, slots=True)
class RunCount:
    """How many runs of a period are of one kind and in one state."""

    kind: str
    state: str
    n: int


@dataclass(frozen=True, slots=True)
class BatchCount:
    """How many batches of a period's runs are in one state; the failed ones by the class of their error."""

    state: str
    error_class: str | None
    n: int


@dataclass(frozen=True, slots=True)
class SlotCount:
    """How many slots of a period came to one outcome, and how many older slots were folded into them."""

    outcome: str
    n: int
    folded: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A scheduled job that cannot be served."""

    id: UUID
    kind: str
    cron_source: str  # as typed
    tz: str
    fault: str | None
    fault_count: int
    quarantined_until: datetime | None


@dataclass(frozen=True, slots=True)
class NewOutput:
    """A rendered report to store."""

    org_id: UUID
    id: UUID
    scheduled_job_id: UUID | None  # None: rendered by hand
    template: str
    period_from: date
    period_to: date  # included
    body_markdown: str
    body: Mapping[str, Any]  # the same content, as JSON can hold it
    input_watermark: datetime | None  # the oldest cursor of the sources, aware UTC; None while one was never read


@dataclass(frozen=True, slots=True)
class OutputView:
    """A rendered report as people see it in a list; the field names are public."""

    id: UUID
    org: str
    scheduled_job_id: UUID | None
    template: str
    period_from: date
    period_to: date  # included
    input_watermark: datetime | None
    rendered_at: datetime


@dataclass(frozen=True, slots=True)
class Output(OutputView):
    """A rendered report with what it says; the field names are public."""

    body_markdown: str
    body: Mapping[str, Any]


def snapshot(tx: Transaction) -> None:
    """Let all that the transaction reads be of one moment, so that the parts of a report fit together. Its first statement."""
    tx.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))


def order(tx: Transaction, run_id: UUID) -> Order:
    """What a claimed report run was asked for."""
    return Order(*tx.execute(statement("report_order"), {"run_id": run_id}).one())


def datasets(tx: Transaction, org_id: UUID, start: datetime, end: datetime) -> list[DatasetLine]:
    """Every source of an organisation with each of its datasets, in no order. `end` is not included, here and below."""
    found = tx.execute(statement("report_sources"), _span(org_id, start, end)).mappings()
    return [DatasetLine(**row) for row in found]


def run_counts(tx: Transaction, org_id: UUID, start: datetime, end: datetime) -> list[RunCount]:
    """The runs that came into being between two moments, in no order."""
    return [RunCount(*row) for row in tx.execute(statement("report_runs"), _span(org_id, start, end))]


def batch_counts(tx: Transaction, org_id: UUID, start: datetime, end: datetime) -> list[BatchCount]:
    """The batches of those runs, in no order."""
    return [BatchCount(*row) for row in tx.execute(statement("report_batches"), _span(org_id, start, end))]


def slot_counts(tx: Transaction, org_id: UUID, start: datetime, end: datetime) -> list[SlotCount]:
    """The slots between two moments of the scheduled jobs that there are, in no order."""
    return [SlotCount(*row) for row in tx.execute(statement("report_slots"), _span(org_id, start, end))]


def faults(tx: Transaction, org_id: UUID) -> list[Fault]:
    """The scheduled jobs of an organisation that cannot be served, in no order."""
    return [Fault(*row) for row in tx.execute(statement("report_faults"), {"org_id": org_id})]


def write(tx: Transaction, output: NewOutput) -> None:
    """Store a rendered report; the same id again takes the place of the one before."""
    tx.execute(
        statement("write_report"),
        {
            "org_id": output.org_id,
            "id": output.id,
            "scheduled_job_id": output.scheduled_job_id,
            "template": output.template,
            "period_from": output.period_from,
            "period_to": output.period_to,
            "body_markdown": output.body_markdown,
            "body": json.dumps(output.body),
            "input_watermark": output.input_watermark,
        },
    )


def views(tx: Transaction, org_id: UUID | None = None, prefix: str | None = None, limit: int = 20) -> list[OutputView]:
    """Rendered reports, the newest first: of one organisation, or whose id begins with `prefix`, where given."""
    found = tx.execute(statement("list_reports"), {"org_id": org_id, "prefix": prefix, "limit": limit}).mappings()
    return [OutputView(**row) for row in found]


def output(tx: Transaction, view: OutputView) -> Output:
    """A report with what it says."""
    row = tx.execute(
        text(
            "SELECT body_markdown, body FROM report_outputs WHERE id = :id "
            "AND org_id = (SELECT id FROM orgs WHERE name = :org)"
        ),
        {"id": view.id, "org": view.org},
    ).one()
    given = {name: getattr(view, name) for name in OutputView.__slots__}
    return Output(**given, body_markdown=row.body_markdown, body=row.body)


def _span(org_id: UUID, start: datetime, end: datetime) -> dict[str, object]:
    return {"org_id": org_id, "start": start, "end": end}

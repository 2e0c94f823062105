"""Schedule orders: what the body of `POST /schedules` asks for, made sense of and given to `sync.orders`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from worker_app import errors, jobs
from worker_app.api import naming
from worker_app.api.asking import listed
from worker_app.api.bodies import ScheduleOrder
from worker_app.records import Source
from worker_app.store.postgres import Postgres, Transaction
from worker_app.store.schedules import Schedule
from worker_app.store.sources import Org
from worker_app.sync import orders
from worker_app.sync.orders import DEFAULT, Policies

PERIOD_DAYS = 7  # of a report that names none


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose schedule it is to be."""

    org: Org
    source: Source | None  # None: of all sources of a provider, or of the whole organisation


def refuse_contradictions(order: ScheduleOrder) -> None:
    """Raise UsageError for fields that say nothing together."""
    kind = order.kind or "sync"
    if kind == "sync" and order.source is None and order.provider is None:
        raise errors.UsageError("source is missing: name a source, or give provider for every source of a provider")
    if order.source is not None and order.provider is not None:
        raise errors.UsageError(f"provider is {order.provider[:100]!r} beside source: leave one of them out")
    wrong: dict[str, str | int | None] = {"source": order.source, "provider": order.provider} if kind != "sync" else {}
    wrong |= {"template": order.template, "period_days": order.period_days} if kind != "report" else {}
    for name, value in wrong.items():
        if value is not None:
            raise errors.UsageError(f"{name} is {str(value)[:100]!r} and kind is {kind}, which has none: leave it out")
    if kind == "report" and order.template is None:
        raise errors.UsageError(f"template is missing for kind report: give {listed(jobs.REPORT_TEMPLATES)}")
    if order.catchup_max is not None and order.catchup != "all":
        raise errors.UsageError(
            f"catchup_max is {order.catchup_max} and catchup is {order.catchup or DEFAULT.catchup}, which mints one run at "
            "most: leave it out, or let catchup be all and overlap be allow"
        )


def subject(tx: Transaction, order: ScheduleOrder) -> Subject:
    """Who is meant. Raises UsageError naming the field."""
    if order.source is None:
        return Subject(naming.org(tx, order.org), None)
    source = naming.source(tx, order.source, order.org)
    return Subject(naming.org(tx, source.org_id), source)


def place(postgres: Postgres, order: ScheduleOrder, of: Subject, key: str | None, least_seconds: int) -> Schedule:
    """Write it down. Raises UsageError naming the field, and Conflict where the key names another schedule."""
    when: dict[str, Any] = {
        "cron_line": order.cron,
        "tz": of.org.tz if order.tz is None else order.tz,
        "least_seconds": least_seconds,
        "policies": _policies(order),
        "job_id": _job_id(of.org.id, key),
    }
    if of.source is not None:
        return orders.add_sync(postgres, of.source, **when)
    if order.provider is not None:
        return orders.add_provider_sync(postgres, of.org, order.provider, **when)
    if order.template is None:
        return orders.add_metrics(postgres, of.org, **when)
    return orders.add_report(postgres, of.org, order.template, period_days=order.period_days or PERIOD_DAYS, **when)


def _job_id(org_id: UUID, key: str | None) -> UUID:
    return uuid4() if key is None else jobs.keyed_job_id(org_id, key)


def _policies(order: ScheduleOrder) -> Policies:
    window, most = order.catchup_window_seconds, order.catchup_max
    return Policies(
        overlap=order.overlap or DEFAULT.overlap,
        catchup=order.catchup or DEFAULT.catchup,
        catchup_max=DEFAULT.catchup_max if most is None else most,
        catchup_window=DEFAULT.catchup_window if window is None else timedelta(seconds=window),
        max_jitter_seconds=order.max_jitter_seconds or DEFAULT.max_jitter_seconds,
    )

"""Bodies: what people send as JSON, one dataclass each. The metadata of a field is what checks it and what describes it."""

from dataclasses import dataclass, field
from typing import Any

from worker_app import jobs
from worker_app.api.asking import listed
from worker_app.sync import orders

KINDS = ("sync", "metrics", "report")
LEAST_WINDOW_SECONDS = int(orders.WINDOW_LEAST.total_seconds())
MOST_WINDOW_SECONDS = int(orders.WINDOW_MOST.total_seconds())


def _text(says: str, remedy: str, *, is_optional: bool = False, shortest: int = 0) -> Any:
    return _field(says=says, remedy=remedy, is_optional=is_optional, **({"shortest": shortest} if shortest else {}))


def _choice(says: str, choices: tuple[str, ...]) -> Any:
    return _field(
        says=says, remedy=f"give {listed(choices)}, or leave it out", is_optional=True, shortest=0, choices=choices
    )


def _number(says: str, least: int, most: int) -> Any:
    return _field(says=says, is_optional=True, least=least, most=most)


def _field(**metadata: Any) -> Any:
    return field(metadata=metadata, default=None) if metadata["is_optional"] else field(metadata=metadata)


SOURCE_REMEDY = "give the name or the id of a source, from GET /sources"
ORG_SAYS = "name or id of an organisation; it may be left out where one alone fits"
ORG_REMEDY = "give the name or the id of an organisation, or leave it out"


@dataclass(frozen=True, slots=True)
class SyncOrder:
    """Sync one source now."""

    source: str = _text("name, end of a name, or id of a source", SOURCE_REMEDY, shortest=1)
    org: str | None = _text(ORG_SAYS, ORG_REMEDY, is_optional=True)


@dataclass(frozen=True, slots=True)
class ScheduleOrder:
    """Sync sources, compute metrics or render a report whenever a cron line says."""

    cron: str = _text(
        "five fields, a macro such as `@daily`, or `H` for a spread minute: `H/15 * * * *`",
        "give a cron line, as in '*/15 * * * *'",
        shortest=1,
    )
    source: str | None = _text(
        "for kind sync: name, end of a name, or id of the source", SOURCE_REMEDY + ", or leave it out", is_optional=True
    )
    org: str | None = _text(ORG_SAYS, ORG_REMEDY, is_optional=True)
    kind: str | None = _choice("what it starts; sync unless named", KINDS)
    provider: str | None = _text(
        "for kind sync, in place of `source`: every source of this provider",
        "give the name of a provider, or leave it out",
        is_optional=True,
    )
    template: str | None = _choice("for kind report: what it is made by", jobs.REPORT_TEMPLATES)
    period_days: int | None = _number(
        "for kind report: days that it is about; 7 unless named", 1, orders.PERIOD_MOST_DAYS
    )
    tz: str | None = _text(
        "IANA time zone of the cron line; the organisation's unless named",
        "give an IANA name such as Europe/Berlin, or leave it out",
        is_optional=True,
    )
    overlap: str | None = _choice(
        "what a slot does while the run before it is active; skip unless named", orders.OVERLAPS
    )
    catchup: str | None = _choice("which slots missed in an outage still run; latest unless named", orders.CATCHUPS)
    catchup_max: int | None = _number(
        "for catchup all: most runs of one catch-up; 24 unless named", 1, orders.CATCHUP_MOST
    )
    catchup_window_seconds: int | None = _number(
        "how far back missed slots are looked for; a week unless named", LEAST_WINDOW_SECONDS, MOST_WINDOW_SECONDS
    )
    max_jitter_seconds: int | None = _number(
        "most seconds by which a run may start later; 0 unless named", 0, orders.JITTER_MOST_SECONDS
    )

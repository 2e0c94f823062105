"""The sync-health report in Markdown: the same content as its JSON, for people. Pure; says no time of rendering."""

from collections.abc import Iterator, Sequence

from worker_app.reports import markdown
from worker_app.reports.markdown import NO_DATA, cell, share, table
from worker_app.reports.sync_health import ENOUGH, Content, Number

NUMBERS = {
    "days_read": f"days read to their end by {share(ENOUGH)} of the sources",
    "runs_not_succeeded": "closed runs that did not succeed",
    "batches_failed": "closed batches that failed",
    "slots_skipped": "slots that were skipped",
}
OUTCOMES = {
    "minted": "served by a run",
    "buffered": "waited for the run before",
    "skipped_overlap": "skipped: the run before was still active",
    "skipped_catchup": "skipped: too old for the catch-up rule",
}
FOLDED = "skipped: nobody served it in time, a newer slot stands for it"


def text(found: Content) -> str:
    """The whole report; ends with a line feed."""
    parts = [
        f"# Sync health of {markdown.text(found.org.name)}",
        _head(found),
        *(f"## {title}\n\n{body}" for title, body in _sections(found)),
    ]
    return "\n\n".join(parts) + "\n"


def _head(found: Content) -> str:
    span = f"{found.period_from} to {found.period_to}, days in {markdown.text(found.org.tz)}"
    lines = [f"{span}; sources: {found.sources_count}; input watermark: {cell(found.input_watermark)}."]
    if not found.is_over:
        lines.append(f"The last day is not over: this is what there was up to {cell(found.as_of)}.")
    if not found.sources_count:
        lines.append("This organisation has no source yet: add one with `dev-hops sources add ADDRESS`.")
    return "\n".join(lines)


def _sections(found: Content) -> Iterator[tuple[str, str]]:
    yield (
        "Numbers",
        table(
            ("number", "value", "of", "trend", "before", "n", "coverage", "definition", "input watermark"),
            [_number(item) for item in found.numbers],
        ),
    )
    yield f"Days below {share(ENOUGH)}", _days_below(found)
    yield (
        "Sources not read to the end",
        table(
            ("source", "provider", "missing from", "read until"),
            [(item.source, item.provider, item.missing_from, item.read_until) for item in found.missing_sources],
            empty="None." if found.sources_count else _nothing("source"),
        ),
    )
    yield "Sources", _sources(found)
    yield (
        "Runs",
        table(
            ("kind", "state", "runs"),
            [(item.kind, item.state, item.n) for item in found.runs],
            empty=_nothing("run"),
        ),
    )
    yield (
        "Failed batches",
        table(
            ("error class", "batches"),
            [(item.error_class, item.n) for item in found.errors],
            empty=_nothing("batch has ended") if _has_no_evidence(found.numbers, "batches_failed") else "None.",
        ),
    )
    yield (
        "Disabled datasets",
        table(
            ("source", "provider", "dataset", "reason"),
            [(item.source, item.provider, item.dataset, item.reason) for item in found.disabled_datasets],
            empty="None." if found.sources_count else _nothing("source"),
        ),
    )
    yield "Schedules with a fault", _schedules(found)
    yield "Slots", _slots(found)


def _number(item: Number) -> tuple[object, ...]:
    trend = markdown.MARKS.get(item.trend or "", "no trend")
    of = f"{item.num} of {item.den}" if item.den else None
    return (
        NUMBERS[item.name],
        share(item.value),
        of,
        trend,
        share(item.previous),
        item.n,
        share(item.coverage),
        item.definition_v,
        item.input_watermark,
    )


def _days_below(found: Content) -> str:
    rows = [
        (item.day, share(item.coverage), item.n, item.definition_v, item.input_watermark, item.missing)
        for item in found.days_below
    ]
    columns = ("day", "coverage", "n", "definition", "input watermark", "sources missing")
    is_unknown = _has_no_evidence(found.numbers, "days_read")
    drawn = table(columns, rows, empty="No day of the period is known: no data." if is_unknown else "None.")
    if any(item.missing == 0 for item in found.days_below):
        drawn += (
            "\n\nWhere no source is missing, the metrics of that day are older than the last reading of some source."
        )
    return drawn


def _sources(found: Content) -> str:
    columns = ("source", "provider", "state", "reason", "dataset", "last complete walk began", "age at the end",
               "newest batch ended", "as", "error class")  # fmt: skip
    rows = [
        (
            item.source,
            item.provider,
            item.state,
            item.reason or "–",
            item.dataset,
            item.walk_began_at,
            markdown.age(item.age_seconds) if item.age_seconds != 0 else "read after the end",
            item.ended_at,
            item.ended,
            item.error_class or "–",
        )
        for item in found.sources
    ]
    return table(columns, rows, empty=_nothing("source"))


def _schedules(found: Content) -> str:
    columns = ("schedule", "kind", "cron", "time zone", "fault", "times", "set aside until")
    rows = [
        (item.id, item.kind, item.cron_source, item.tz, item.fault, item.fault_count, item.quarantined_until)
        for item in found.schedules
    ]
    return table(columns, rows, empty="None.")


def _slots(found: Content) -> str:
    folded = sum(item.folded for item in found.slots)
    rows: list[tuple[object, ...]] = [(OUTCOMES.get(item.outcome, item.outcome), item.n) for item in found.slots]
    if folded:
        rows.append((FOLDED, folded))
    return table(("what became of it", "slots"), rows, empty=_nothing("slot"))


def _has_no_evidence(numbers: Sequence[Number], name: str) -> bool:
    return any(item.name == name and item.value is None for item in numbers)


def _nothing(what: str) -> str:
    return f"No {what}: {NO_DATA}."

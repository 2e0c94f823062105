import json
import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from worker_app.reports import period, sync_health, sync_health_text
from worker_app.reports.sync_health import Activity, Content, Facts, Number
from worker_app.store.metrics import MetricRow
from worker_app.store.reports import BatchCount, DatasetLine, Fault, RunCount, SlotCount
from worker_app.store.sources import Org

MONDAY = datetime(2026, 6, 8, 6, tzinfo=UTC)
WEEK = period.last_days(MONDAY, ZoneInfo("UTC"), 7)  # 1 to 7 June
FIRST = date(2026, 6, 1)
ORG = Org(UUID(int=1), "acme", "UTC")
QUIET = Activity((), (), (), ())


def dataset(name: str = "/srv/app", began_at: datetime | None = MONDAY, **changes: object) -> DatasetLine:
    given = {
        "source_id": UUID(int=sum(name.encode())), "source": name, "provider": "git", "state": "active", "reason": None,
        "dataset": "commits", "scope": "", "is_disabled": False, "disabled_reason": None, "began_at": began_at,
        "ended_at": None, "ended": None, "error_class": None, **changes,
    }  # fmt: skip
    return DatasetLine(**given)  # type: ignore[arg-type]


def row(day: date, coverage: float, **changes: object) -> MetricRow:
    given = {
        "metric": "commits", "definition_v": 1, "grain": "org", "grain_id": "1", "day": day, "value": 3.0, "num": 3.0,
        "den": 1.0, "n": 3, "coverage": coverage, "input_watermark": MONDAY, **changes,
    }  # fmt: skip
    return MetricRow(**given)  # type: ignore[arg-type]


def facts(*datasets: DatasetLine, now: Activity = QUIET, before: Activity = QUIET, **changes: object) -> Facts:
    given = {"org": ORG, "period": WEEK, "datasets": datasets, "faults": (), "now": now, "before": before, **changes}
    return Facts(**given)  # type: ignore[arg-type]


def number(found: Content, name: str) -> Number:
    return next(item for item in found.numbers if item.name == name)


def made(*datasets: DatasetLine, **changes: object) -> tuple[Content, str]:
    found = sync_health.content(facts(*datasets, **changes))  # type: ignore[arg-type]
    return found, sync_health_text.text(found)


def test_organisation_without_sources_says_what_to_do_and_no_zero() -> None:
    found, text = made()
    assert {item.value for item in found.numbers} == {None}
    assert found.input_watermark is None
    assert "dev-hops sources add ADDRESS" in text
    assert "0%" not in text
    assert "no data" in text


def test_share_of_days_counts_quiet_days_by_their_cursors_and_names_those_below() -> None:
    days = [row(FIRST, 1.0), row(date(2026, 6, 5), 0.5, input_watermark=None)]
    sources = (dataset(), dataset("/srv/web", datetime(2026, 6, 6, tzinfo=UTC)))
    found, text = made(*sources, now=replace(QUIET, rows=days))
    read = number(found, "days_read")
    assert (read.num, read.den, read.n) == (4, 7, 7)
    assert [(line.day.day, line.coverage, line.definition_v, line.missing) for line in found.days_below] == [
        (5, 0.5, 1, 0), (6, 0.5, None, 1), (7, 0.5, None, 1),
    ]  # fmt: skip
    assert [(item.source, item.missing_from.day) for item in found.missing_sources] == [("/srv/web", 6)]
    assert "| 2026-06-05 | 50% | 2 | 1 | no data | 0 |" in text
    assert "older than the last reading" in text


def test_19_of_20_sources_are_enough() -> None:
    sources = [dataset(f"/srv/{number}") for number in range(19)] + [dataset("/srv/never", None)]
    found, _ = made(*sources)
    assert number(found, "days_read").value == 1.0
    assert found.days_below == ()
    assert [item.source for item in found.missing_sources] == ["/srv/never"]


def test_every_number_has_n_coverage_definition_and_watermark() -> None:
    found, text = made(
        dataset(), now=replace(QUIET, runs=[RunCount("sync", "succeeded", 4), RunCount("sync", "failed", 1)])
    )
    runs = number(found, "runs_not_succeeded")
    assert (runs.value, runs.num, runs.den, runs.n, runs.coverage, runs.definition_v, runs.input_watermark) == (
        0.2, 1, 5, 5, 1.0, 1, MONDAY,
    )  # fmt: skip
    assert (
        "| closed runs that did not succeed | 20% | 1 of 5 | no trend | no data | 5 | 100% | 1 | 2026-06-08 06:00:00Z |"
        in text
    )


@pytest.mark.parametrize(
    ("failed", "failed_before", "trend", "mark"), [(1, 2, "down", "↓"), (2, 1, "up", "↑"), (1, 1, "same", "→")]
)
def test_trend_compares_with_the_period_before(failed: int, failed_before: int, trend: str, mark: str) -> None:
    now, before = (
        replace(
            QUIET, batches=[BatchCount("succeeded", None, 10 - bad), BatchCount("failed", "SourceUnavailable", bad)]
        )
        for bad in (failed, failed_before)
    )
    found, text = made(dataset(), now=now, before=before)
    assert number(found, "batches_failed").trend == trend
    assert mark in text


def test_below_95_percent_there_is_no_trend_and_the_missing_sources_are_named() -> None:
    busy = replace(QUIET, batches=[BatchCount("failed", None, 1)])
    found, text = made(dataset(), dataset("/srv/web", None), now=busy, before=busy)
    assert {item.trend for item in found.numbers} == {None}
    assert not set("↑↓→") & set(text)
    assert "| /srv/web | git | 2026-06-01 | no data |" in text


def test_period_before_that_was_not_read_gives_no_trend() -> None:
    busy = replace(QUIET, batches=[BatchCount("succeeded", None, 1)])
    thin = replace(busy, rows=[row(FIRST - timedelta(days=1 + back), 0.5) for back in range(7)])
    found, _ = made(dataset(), now=busy, before=thin)
    assert number(found, "batches_failed").trend is None


def test_age_is_taken_at_the_end_of_the_period() -> None:
    found, text = made(dataset(began_at=datetime(2026, 6, 6, 20, tzinfo=UTC)), dataset("/srv/web"))
    assert [line.age_seconds for line in found.sources] == [28 * 3600.0, 0.0]
    assert "| 2026-06-06 20:00:00Z | 1 d 4 h |" in text
    assert "read after the end" in text


def test_source_that_was_never_read_has_no_age_and_tells_how_its_batch_ended() -> None:
    line = dataset(began_at=None, state="inaccessible", reason="it does not answer", ended="failed",
                   ended_at=MONDAY, error_class="SourceUnavailable")  # fmt: skip
    _, text = made(line)
    assert (
        "| /srv/app | git | inaccessible | it does not answer | commits | no data | no data | 2026-06-08 06:00:00Z "
        "| failed | SourceUnavailable |" in text
    )


def test_disabled_dataset_is_named_and_holds_nobody_up() -> None:
    disabled = dataset(dataset="issues", began_at=None, is_disabled=True, disabled_reason="410 Gone")
    found, text = made(dataset(), disabled)
    assert number(found, "days_read").value == 1.0
    assert found.input_watermark == MONDAY
    assert "| /srv/app | git | issues | 410 Gone |" in text


def test_slots_are_counted_by_reason_with_those_that_a_newer_one_stands_for() -> None:
    slots = [SlotCount("minted", 5, 3), SlotCount("skipped_overlap", 2, 0)]
    found, text = made(dataset(), now=replace(QUIET, slots=slots))
    skipped = number(found, "slots_skipped")
    assert (skipped.num, skipped.den) == (5, 10)
    assert "| skipped: the run before was still active | 2 |" in text
    assert "a newer slot stands for it | 3 |" in text


def test_schedule_with_a_fault_is_shown() -> None:
    fault = Fault(UUID(int=9), "sync", "61 * * * *", "UTC", "UsageError: minute is 61", 3, MONDAY)
    _, text = made(dataset(), faults=(fault,))
    assert (
        f"| {UUID(int=9)} | sync | 61 \\* \\* \\* \\* | UTC | UsageError: minute is 61 | 3 | 2026-06-08 06:00:00Z |"
        in text
    )


def test_same_facts_in_another_order_give_the_same_bytes() -> None:
    sources = [dataset(f"/srv/{number}", MONDAY - timedelta(days=number)) for number in range(9)]
    rows = [row(FIRST + timedelta(days=number % 7), number / 20, metric=f"m{number}") for number in range(20)]
    activity = Activity(
        runs=[RunCount("sync", "failed", 1), RunCount("metrics", "succeeded", 2), RunCount("sync", "succeeded", 2)],
        batches=[BatchCount("failed", "A", 1), BatchCount("failed", "B", 1), BatchCount("succeeded", None, 4)],
        slots=[SlotCount("minted", 1, 0), SlotCount("skipped_catchup", 1, 0)],
        rows=rows,
    )
    expected, found = made(*sources, now=activity), []
    for seed in range(5):
        order = random.Random(seed)
        shuffled = Activity(
            runs=order.sample(activity.runs, len(activity.runs)),
            batches=order.sample(activity.batches, len(activity.batches)),
            slots=order.sample(activity.slots, len(activity.slots)),
            rows=order.sample(activity.rows, len(activity.rows)),
        )
        content, text = made(*order.sample(sources, 9), now=shuffled)
        found.append((content, text))
        assert json.dumps(sync_health.document(content)) == json.dumps(sync_health.document(expected[0]))
    assert all(item == expected for item in found)


@pytest.mark.parametrize("name", ["a|b", "a\n| x | y |", "`", "<img src=x onerror=alert(1)>", "\\", "\\|", "[a](b)"])
def test_hostile_names_keep_every_table_whole(name: str) -> None:
    line = dataset(name, None, reason=name, ended="failed", ended_at=MONDAY, error_class=name)
    disabled = dataset(name, None, dataset=name, is_disabled=True, disabled_reason=name)
    fault = Fault(UUID(int=9), name, name, name, name, 1, None)
    busy = Activity([RunCount(name, name, 1)], [BatchCount("failed", name, 1)], [SlotCount(name, 1, 1)], ())
    found, text = made(line, disabled, faults=(fault,), now=busy, org=Org(UUID(int=1), name, "UTC"))
    plain, plain_text = made(
        *(replace(item, source="x", reason="x", error_class="x", dataset="x", disabled_reason="x") for item in (line, disabled)),
        faults=(fault,), now=busy,
    )  # fmt: skip
    assert len(text.splitlines()) == len(plain_text.splitlines())
    assert "<img" not in text
    width = 0
    for drawn in text.splitlines():
        if drawn.startswith("|"):
            bars = drawn.replace("\\\\", "").replace("\\|", "").count("|")
            assert width in (0, bars)
            width = bars
        else:
            width = 0
    assert sync_health.document(found)["sources"][0]["source"] == name
    assert plain.numbers == found.numbers


def test_unfinished_day_does_not_count_and_is_said() -> None:
    now = datetime(2026, 6, 7, 12, tzinfo=UTC)
    today = period.between(FIRST, date(2026, 6, 7), ZoneInfo("UTC"), now)
    found, text = made(dataset(began_at=now), period=today)
    assert (number(found, "days_read").num, number(found, "days_read").den) == (6, 6)
    assert "The last day is not over: this is what there was up to 2026-06-07 12:00:00Z." in text


def test_document_is_json_with_days_and_times_as_text() -> None:
    body = sync_health.document(sync_health.content(facts(dataset())))
    assert body["template"] == "sync-health"
    assert body["period_from"] == "2026-06-01"
    assert body["input_watermark"] == "2026-06-08T06:00:00.000Z"
    assert body["org"] == {"id": str(UUID(int=1)), "name": "acme", "tz": "UTC"}
    assert "rendered_at" not in body

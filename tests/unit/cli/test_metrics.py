import io
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from rich.console import Console

from worker_app.cli import metrics
from worker_app.records import Source
from worker_app.store.metrics import MetricRow

DAY = date(2026, 6, 1)
ROW = MetricRow(
    metric="commits", definition_v=1, grain="repo", grain_id="git/h/a", day=DAY, value=4.0, num=4.0, den=1.0, n=4,
    coverage=1.0, input_watermark=None, computed_at=datetime(2026, 6, 2, 1, tzinfo=UTC),
)  # fmt: skip


def drawn(rows: list[MetricRow], days: int = 30) -> str:
    text = io.StringIO()
    metrics.draw(Console(file=text, width=120), rows, "repo", days=days)
    return text.getvalue()


def test_repository_is_shown_by_its_name_where_its_id_is_a_number() -> None:
    numbered = replace(ROW, grain_id="github/github.com/42")
    source = Source(UUID(int=1), UUID(int=2), "github", "github.com", "acme/api", "42", "active")
    text = io.StringIO()
    metrics.draw(Console(file=text, width=120), [ROW, numbered], "repo", names=metrics.names_of([source]))
    assert [line for line in text.getvalue().splitlines() if "/" in line] == ["git/h/a", "github/github.com/acme/api"]


def test_bars_are_relative_to_the_busiest_day() -> None:
    lines = drawn([ROW, replace(ROW, day=DAY + timedelta(days=1), value=1.0)]).splitlines()
    assert [line.count("█") for line in lines if "█" in line] == [30, 8]


def test_day_that_was_not_over_says_so_and_a_whole_one_its_coverage() -> None:
    text = drawn([ROW, replace(ROW, day=date(2026, 6, 2), coverage=0.0)])
    assert "100%" in text
    assert "so far" in text


def test_key_without_evidence_is_not_drawn_and_nothing_at_all_is_said() -> None:
    assert "no metrics yet" in drawn([replace(ROW, value=None, n=0)])


def test_only_the_latest_days_are_drawn_and_the_others_are_counted() -> None:
    rows = [replace(ROW, day=DAY + timedelta(days=number)) for number in range(5)]
    text = drawn(rows, days=2)
    assert "2026-06-05" in text
    assert "2026-06-03" not in text
    assert "3 earlier days" in text

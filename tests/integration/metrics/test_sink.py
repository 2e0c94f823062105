"""The contract of a metrics sink, on each store."""

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from tests.clickhouse.running import ClickHouse
from tests.integration.metrics.test_daily import compute, store
from tests.seed import NOON, column, commit, execute, seed
from worker_app.store import clickhouse as clickhouse_store
from worker_app.store import metrics
from worker_app.store.clickhouse_metrics import ClickHouseMetrics
from worker_app.store.metrics import MetricRow, MetricSink
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics

pytestmark = pytest.mark.integration
DAY = date(2026, 6, 1)
ROW = MetricRow(
    metric="commits",
    definition_v=1,
    grain="repo",
    grain_id="git/localhost/srv/app",
    day=DAY,
    value=0.1 + 0.2,
    num=3.0,
    den=1.0,
    n=3,
    coverage=0.1,
    input_watermark=datetime(2026, 6, 2, 3, 4, 5, 123456, tzinfo=UTC),
)
ODD_TEXTS = [
    "it's",
    "a\\b",
    "a\nb\tc",
    "☃ é ß",
    '"{x:String}"',
    "%s",
    "); DROP TABLE metric_daily --",
    " ",
    "A",
    "a",
    "Z",
]
TOUCHED = "SELECT org_id || ' ' || day FROM touched_days"
READ_ELSEWHERE = """
import json, sys
from uuid import UUID
from worker_app.store import clickhouse
from worker_app.store.clickhouse_metrics import ClickHouseMetrics

(row,) = ClickHouseMetrics(clickhouse.connect(sys.argv[1])).read(None, UUID(sys.argv[2]))
print(json.dumps([row.day.isoformat(), row.input_watermark.isoformat(), row.computed_at.isoformat()]))
"""


def write(
    postgres: Postgres, sink: MetricSink, org_id: UUID, *rows: MetricRow, days: tuple[date, ...] = (DAY,)
) -> None:
    with postgres.transaction() as tx:
        assert metrics.lock_org(tx, org_id)
        sink.replace(tx, org_id, ["commits", "additions"], days, rows)


def read(postgres: Postgres, sink: MetricSink, org_id: UUID, **names: object) -> list[MetricRow]:
    with postgres.transaction() as tx:
        return sink.read(tx, org_id, **names)  # type: ignore[arg-type]


def without_moment(rows: list[MetricRow]) -> list[MetricRow]:
    return [replace(row, computed_at=None) for row in rows]


def test_row_comes_back_as_it_was_given(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    extremes = [
        replace(ROW, grain_id="huge", value=1.7976931348623157e308, num=5e-324, n=2**62, coverage=1.0),
        replace(ROW, grain_id="none", value=None, num=0.0, den=0.0, n=0, coverage=0.0, input_watermark=None),
        replace(ROW, grain_id="third", value=1 / 3, num=-0.1, coverage=0.3),
        replace(ROW, grain_id="tiny", coverage=8.05769e-07),
    ]
    write(postgres, sink, made.org.id, ROW, *extremes)
    found = read(postgres, sink, made.org.id)
    assert without_moment(found) == [ROW, *extremes]
    assert {(row.computed_at or NOON).tzinfo for row in found} == {UTC}


def test_texts_of_any_kind_are_kept_apart_and_in_the_order_of_their_bytes(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    write(postgres, sink, made.org.id, *(replace(ROW, grain_id=odd) for odd in ODD_TEXTS))
    found = [row.grain_id for row in read(postgres, sink, made.org.id)]
    assert found == sorted(ODD_TEXTS, key=str.encode)


def test_key_without_evidence_is_retracted_and_comes_back_with_it(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    other = replace(ROW, grain_id="other")
    write(postgres, sink, made.org.id, ROW, other)
    write(postgres, sink, made.org.id, other)
    gone = replace(ROW, value=None, num=0.0, den=0.0, n=0)
    assert without_moment(read(postgres, sink, made.org.id)) == [gone, other]
    write(postgres, sink, made.org.id, ROW, other)
    assert without_moment(read(postgres, sink, made.org.id)) == [ROW, other]


def test_only_the_days_and_metrics_that_were_computed_are_replaced(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    tomorrow, foreign = replace(ROW, day=DAY + timedelta(days=1)), replace(ROW, metric="merge_commits")
    write(postgres, sink, made.org.id, ROW, tomorrow, foreign, days=(DAY, tomorrow.day))
    write(postgres, sink, made.org.id)
    kept = {(row.metric, row.day): row.n for row in read(postgres, sink, made.org.id)}
    assert kept == {("commits", DAY): 0, ("commits", tomorrow.day): 3, ("merge_commits", DAY): 3}


def test_two_definitions_stand_side_by_side(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    write(postgres, sink, made.org.id, ROW, replace(ROW, definition_v=2, value=7.0))
    assert [(row.definition_v, row.value) for row in read(postgres, sink, made.org.id)] == [(1, ROW.value), (2, 7.0)]


def test_organisations_with_the_same_grains_never_meet(postgres: Postgres, sink: MetricSink) -> None:
    one, two = seed(postgres), seed(postgres, name="beta", path="/srv/beta")
    write(postgres, sink, one.org.id, ROW)
    write(postgres, sink, two.org.id, replace(ROW, value=9.0))
    write(postgres, sink, one.org.id)
    assert [row.value for row in read(postgres, sink, one.org.id)] == [None]
    assert [row.value for row in read(postgres, sink, two.org.id)] == [9.0]


def test_reading_takes_metrics_grain_and_days(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    days = [DAY + timedelta(days=number) for number in range(4)]
    rows = [
        replace(ROW, metric=metric, grain=grain, day=day)
        for metric in ("additions", "commits")
        for grain in ("org", "repo")
        for day in days
    ]
    write(postgres, sink, made.org.id, *rows, days=tuple(days))
    assert without_moment(read(postgres, sink, made.org.id)) == rows
    found = read(postgres, sink, made.org.id, metrics=["commits"], grain="org", start=days[1], end=days[2])
    assert [(row.metric, row.grain, row.day) for row in found] == [("commits", "org", day) for day in days[1:3]]
    assert read(postgres, sink, made.org.id, metrics=["unheard"]) == []


@pytest.mark.parametrize(("start", "end"), [(date(9000, 1, 1), None), (None, date(1800, 1, 1))])
def test_days_outside_of_what_a_store_has_are_empty(
    postgres: Postgres, sink: MetricSink, start: date | None, end: date | None
) -> None:
    made = seed(postgres)
    ends = replace(ROW, day=date(1900, 1, 1)), replace(ROW, day=date(2299, 12, 31))
    write(postgres, sink, made.org.id, *ends, days=tuple(row.day for row in ends))
    assert read(postgres, sink, made.org.id, start=start, end=end) == []


def test_each_computation_of_a_day_is_later_than_the_one_before(postgres: Postgres, sink: MetricSink) -> None:
    made = seed(postgres)
    moments = []
    for _ in range(5):
        write(postgres, sink, made.org.id, ROW, replace(ROW, grain_id="other"))
        (moment,) = {row.computed_at for row in read(postgres, sink, made.org.id)}
        assert moment is not None
        moments.append(moment)
    assert moments == sorted(set(moments))
    assert {moment.microsecond % 1000 for moment in moments} == {0}


def test_computation_wins_over_one_of_the_future_after_the_clock_was_set_back(
    postgres: Postgres, sink: MetricSink
) -> None:
    made = seed(postgres)
    future = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    if isinstance(sink, ClickHouseMetrics):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("worker_app.store.clickhouse_metrics._later", lambda *_: future)
            write(postgres, sink, made.org.id, ROW)
    else:
        write(postgres, sink, made.org.id, ROW)
        execute(postgres, "UPDATE metric_daily SET computed_at = :at", at=future)
    write(postgres, sink, made.org.id, replace(ROW, value=9.0))
    (found,) = read(postgres, sink, made.org.id)
    assert (found.value, found.computed_at) == (9.0, future + timedelta(milliseconds=1))


def test_day_that_the_store_does_not_have_is_left_out_and_keeps_no_other_from_being_written(
    postgres: Postgres, sink: MetricSink
) -> None:
    made = seed(postgres)
    wild = replace(ROW, day=date(9999, 1, 1))
    write(postgres, sink, made.org.id, ROW, wild, days=(DAY, wild.day))
    assert ROW in without_moment(read(postgres, sink, made.org.id))


def test_stores_give_equal_rows_for_equal_commits(postgres: Postgres, clickhouse_url: str) -> None:
    made = seed(postgres)
    store(postgres, made, *(commit(f"{number:040x}", NOON + timedelta(hours=7 * number)) for number in range(40)))
    sinks: tuple[MetricSink, ...] = (PostgresMetrics(), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url)))
    found = []
    for sink in sinks:
        with postgres.transaction() as tx:
            metrics.touch_recorded(tx, made.org.id)
        compute(postgres, sink, made)
        found.append(without_moment(read(postgres, sink, made.org.id)))
        sink.close()
    assert found[0] == found[1]
    assert len(found[0]) > 100


def test_process_in_another_zone_reads_the_same_moments(postgres: Postgres, clickhouse_url: str) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    write(postgres, sink, made.org.id, ROW)
    (here,) = read(postgres, sink, made.org.id)
    sink.close()
    done = subprocess.run(
        [sys.executable, "-c", READ_ELSEWHERE, clickhouse_url, str(made.org.id)],
        env={"TZ": "America/New_York"}, capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert here.input_watermark is not None
    assert here.computed_at is not None
    moments = [here.day.isoformat(), here.input_watermark.isoformat(), here.computed_at.isoformat()]
    assert done.stdout.strip() == str(moments).replace("'", '"')


def test_answer_that_was_lost_leaves_the_days_to_be_computed_again_and_one_row_a_key(
    postgres: Postgres, clickhouse: ClickHouse, clickhouse_url: str
) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    store(postgres, made, commit("a"))
    with clickhouse.failing("lose", matching="INSERT INTO", times=2):
        assert compute(postgres, sink, made) == 0
    assert column(postgres, "SELECT count(*) FROM touched_days") == [1]
    execute(postgres, "DELETE FROM sync_runs")
    assert compute(postgres, sink, made) == 1
    assert [row.value for row in read(postgres, sink, made.org.id, metrics=["commits"], grain="repo")] == [1.0]
    sink.close()


@pytest.mark.parametrize("matching", ["SELECT", "INSERT INTO"])
def test_store_that_is_away_leaves_the_days_to_be_computed_again(
    postgres: Postgres, clickhouse: ClickHouse, clickhouse_url: str, matching: str
) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    store(postgres, made, commit("a"))
    with clickhouse.failing("unavailable", matching=matching, times=9):
        assert compute(postgres, sink, made) == 0
    assert column(postgres, "SELECT state || attempt FROM sync_runs") == ["queued0"]
    assert column(postgres, "SELECT count(*) FROM touched_days") == [1]
    assert read(postgres, sink, made.org.id) == []
    sink.close()


def test_store_that_refuses_fails_the_run_with_its_words_and_leaves_the_days(
    postgres: Postgres, clickhouse: ClickHouse, clickhouse_url: str
) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    store(postgres, made, commit("a"))
    with clickhouse.failing("code", matching="INSERT INTO", code=60):
        compute(postgres, sink, made)
    (error,) = column(postgres, "SELECT state || ' ' || error FROM sync_runs")
    assert str(error).startswith("failed ClickHouse at ")
    assert "(code 60)" in str(error)
    assert column(postgres, "SELECT count(*) FROM touched_days") == [1]
    sink.close()


def test_slow_store_does_not_cost_the_transaction(
    postgres: Postgres, clickhouse: ClickHouse, clickhouse_url: str
) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    read(postgres, sink, made.org.id)
    with clickhouse.failing("delay", matching="metric_daily", times=9, seconds=5.5):
        write(postgres, sink, made.org.id, ROW)
    assert without_moment(read(postgres, sink, made.org.id)) == [ROW]
    sink.close()


def test_computation_whose_commit_fails_after_the_insert_is_made_again(postgres: Postgres, clickhouse_url: str) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    store(postgres, made, commit("a"))

    class Died(Exception):
        pass

    with suppress(Died), postgres.transaction() as tx:
        touched = metrics.touched_days(tx, made.org.id, 10)
        sink.replace(tx, made.org.id, ["commits"], [item.day for item in touched], [ROW])
        metrics.clear_touched(tx, made.org.id, touched)
        raise Died
    assert compute(postgres, sink, made) == 1
    found = {row.grain_id: row.n for row in read(postgres, sink, made.org.id, metrics=["commits"], grain="repo")}
    assert list(found.values()) == [1]
    sink.close()


def test_insert_that_comes_late_from_a_writer_that_lost_its_transaction_loses(
    postgres: Postgres, clickhouse_url: str
) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    with postgres.transaction() as tx:
        stale = tx.execute(text("SELECT date_trunc('milliseconds', clock_timestamp())")).scalar_one()
    write(postgres, sink, made.org.id, replace(ROW, value=2.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker_app.store.clickhouse_metrics._later", lambda *_: stale)
        write(postgres, sink, made.org.id, replace(ROW, value=1.0))
    assert [row.value for row in read(postgres, sink, made.org.id)] == [2.0]
    sink.close()


def test_clickhouse_only_ever_adds_rows(postgres: Postgres, clickhouse: ClickHouse, clickhouse_url: str) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    for _ in range(2):
        write(postgres, sink, made.org.id, ROW)
    write(postgres, sink, made.org.id)
    read(postgres, sink, made.org.id)
    verbs = {statement.split()[0] for statement in clickhouse.asked() if "metric_daily" in statement}
    assert verbs == {"SELECT", "INSERT"}
    assert all("FINAL" in asked for asked in clickhouse.asked() if "SELECT metric" in asked)
    sink.close()


def test_computation_is_later_than_any_row_of_its_days_and_not_only_the_oldest(
    postgres: Postgres, clickhouse_url: str
) -> None:
    made, sink = seed(postgres), ClickHouseMetrics(clickhouse_store.connect(clickhouse_url))
    future = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker_app.store.clickhouse_metrics._later", lambda *_: future)
        write(postgres, sink, made.org.id, ROW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker_app.store.clickhouse_metrics._later", lambda *_: future - timedelta(hours=2))
        write(postgres, sink, made.org.id, replace(ROW, metric="additions"))
    write(postgres, sink, made.org.id, replace(ROW, value=9.0))
    assert [row.value for row in read(postgres, sink, made.org.id, metrics=["commits"])] == [9.0]
    sink.close()


def test_days_of_another_organisation_are_not_touched(postgres: Postgres) -> None:
    one, two = seed(postgres), seed(postgres, name="beta", path="/srv/beta")
    store(postgres, one, commit("a"))
    store(postgres, two, commit("b", NOON + timedelta(days=1)))
    write(postgres, PostgresMetrics(), two.org.id, replace(ROW, day=DAY + timedelta(days=2)), days=(DAY,))
    execute(postgres, "DELETE FROM touched_days")
    with postgres.transaction() as tx:
        assert metrics.touch_recorded(tx, one.org.id) == 1
    assert column(postgres, TOUCHED) == [f"{one.org.id} 2026-06-01"]


def test_days_that_are_touched_are_those_of_the_zone_of_the_organisation(postgres: Postgres) -> None:
    made = seed(postgres)
    store(postgres, made, commit("a", datetime(2026, 6, 1, 23, 30, tzinfo=UTC)))
    execute(postgres, "DELETE FROM touched_days")
    execute(postgres, "UPDATE orgs SET tz = 'Asia/Tokyo'")
    with postgres.transaction() as tx:
        metrics.touch_recorded(tx, made.org.id)
    assert column(postgres, TOUCHED) == [f"{made.org.id} 2026-06-02"]


def test_day_that_is_being_computed_while_it_is_touched_again_stays(postgres: Postgres) -> None:
    made = seed(postgres)
    store(postgres, made, commit("a"))
    with postgres.transaction() as tx:
        computing = metrics.touched_days(tx, made.org.id, 10)
    with postgres.transaction() as tx:
        metrics.touch_recorded(tx, made.org.id)
    with postgres.transaction() as tx:
        metrics.clear_touched(tx, made.org.id, computing)
    assert column(postgres, TOUCHED) == [f"{made.org.id} 2026-06-01"]


def test_span_of_days_that_are_touched_includes_both_ends(postgres: Postgres) -> None:
    made = seed(postgres)
    store(postgres, made, *(commit(name, NOON + timedelta(days=number)) for number, name in enumerate("abcd")))
    execute(postgres, "DELETE FROM touched_days")
    with postgres.transaction() as tx:
        metrics.touch_recorded(tx, made.org.id, start=DAY + timedelta(days=1), end=DAY + timedelta(days=2))
    assert column(postgres, f"{TOUCHED} ORDER BY day") == [f"{made.org.id} 2026-06-0{day}" for day in (2, 3)]

from pathlib import Path
from typing import Any

import pytest

from bench import soak, worker, worker_ledger, worker_report
from bench.worker_ledger import Kill, Ledger, Trend
from bench.worker_report import Better, Figure, Series, Value
from bench.worker_rows import ROWS

KILL = Kill(pid=7, at=100.0)


def figure(**changes: Any) -> Figure:
    return Figure(**{"key": "seconds", "promise": "fast", "unit": "s", "better": "lower", **changes})


def entry(
    stock: list[Value],
    ours: list[Value],
    asked: Figure,
    peers: dict[str, list[Value]] | None = None,
    failures: list[str] | None = None,
) -> dict[str, Any]:
    others = {name: Series(values) for name, values in (peers or {}).items()}
    return worker_report.entry(
        "row", "20 slots", asked, Series(stock), Series(ours, failures or []), others, is_quick=False
    )


@pytest.mark.parametrize(
    ("values", "better", "found"),
    [
        ([3.0, 1.0, 2.0], "lower", 2.0),
        ([1.0, 2.0], "lower", 1.5),
        ([1.0, None, 2.0], "lower", 2.0),
        ([1.0, None, None], "lower", None),
        ([1.0, None, 2.0], "higher", 1.0),
        ([1.0, None], "lower", None),
        ([], "lower", None),
    ],
)
def test_median_takes_what_never_happened_for_the_worst(values: list[Value], better: Better, found: Value) -> None:
    assert worker_report.median_of(values, better) == found


@pytest.mark.parametrize(
    ("stock", "ours", "better", "ratio"),
    [
        (12.0, 6.0, "lower", 2.0),
        (100.0, 300.0, "higher", 3.0),
        (None, 6.0, "lower", None),
        (12.0, None, "lower", None),
        (4.0, 0.0, "lower", None),
    ],
)
def test_ratio_says_how_many_times_better_ours_is(stock: Value, ours: Value, better: Better, ratio: Value) -> None:
    assert worker_report.ratio_of(stock, ours, better) == ratio


@pytest.mark.parametrize(
    ("values", "limit", "better", "verdict"),
    [
        ([6.0], 6.0, "lower", "holds"),
        ([6.1], 6.0, "lower", "missed"),
        ([300.0], 300.0, "higher", "holds"),
        ([299.0], 300.0, "higher", "missed"),
        ([None], 6.0, "lower", "missed"),
        ([], 6.0, "lower", "missed"),
        ([6.0], None, "lower", "measured"),
    ],
)
def test_verdict_holds_the_median_against_the_limit(
    values: list[Value], limit: Value, better: Better, verdict: str
) -> None:
    assert worker_report.verdict_of(Series(values), limit, better) == verdict


def test_one_failed_run_of_ours_fails_the_row() -> None:
    assert worker_report.verdict_of(Series([1.0, 1.0], ["the worker ended with 1"]), 6.0, "lower") == "failed"


@pytest.mark.parametrize(
    ("asked", "stock", "celery", "is_quick", "limit"),
    [
        (figure(limit=6.0), 12.0, [], False, 6.0),
        (figure(limit=6.0, quick_limit=2.0), 12.0, [], False, 6.0),
        (figure(limit=6.0, quick_limit=2.0), 12.0, [], True, 2.0),
        (figure(limit=6.0), 12.0, [], True, 6.0),
        (figure(), 12.0, [], False, None),
        (figure(times_stock=3, better="higher"), 100.0, [None, 250.0], False, 300.0),
        (figure(times_stock=3, better="higher"), 100.0, [350.0], False, 350.0),
        (figure(times_stock=0.5), 4.0, [3.0, 1.5], False, 1.5),
        (figure(times_stock=3, better="higher"), None, [350.0], False, 350.0),
        (figure(times_stock=3), None, [], False, None),
    ],
)
def test_limit_is_the_strictest_of_what_is_asked(
    asked: Figure, stock: Value, celery: list[Value], is_quick: bool, limit: Value
) -> None:
    assert worker_report.limit_of(asked, stock, celery, is_quick=is_quick) == limit


def test_entry_holds_every_value_and_the_judgement() -> None:
    found = entry([12.0, 11.0, None], [4.51234, 5.0, 4.0], figure(limit=6.2))

    assert found["stock"] == [12.0, 11.0, None]
    assert found["ours"] == [4.512, 5.0, 4.0]
    assert (found["stock_median"], found["ours_median"], found["ratio"]) == (12.0, 4.512, 2.66)
    assert (found["limit"], found["verdict"], found["note"]) == (6.2, "holds", "")


def test_entry_takes_other_pools_of_celery_for_a_bound_and_other_queues_not() -> None:
    asked = figure(better="higher", times_stock=3)
    peers: dict[str, list[Value]] = {"Celery threads 20": [700.0], "dramatiq gevent 20": [6000.0]}

    found = entry([200.0], [650.0], asked, peers)

    assert (found["limit"], found["verdict"]) == (700.0, "missed")


def test_entry_says_why_a_side_failed() -> None:
    found = entry([], [5.0], figure(limit=6.0), failures=["the worker ended with 1"])

    assert found["note"] == "ours failed in 1 of 2: the worker ended with 1"


def test_missed_names_what_missed_its_limit_or_failed() -> None:
    rows = [
        entry([12.0], [5.0], figure(limit=6.0)),
        entry([12.0], [7.0], figure(limit=6.0, promise="slow")),
        entry([12.0], [], figure(limit=6.0, promise="broken"), failures=["no"]),
        entry([12.0], [7.0], figure()),
    ]

    assert worker_report.missed({"rows": rows}) == ["row: slow", "row: broken"]


def test_markdown_shows_the_medians_and_the_limits() -> None:
    rows = [
        entry([None], [4.5], figure(limit=6.2)),
        entry([251.4], [1300.0], figure(promise="rate", unit="tasks/s", better="higher", times_stock=3)),
        entry([63.0], [], figure(promise="clients", unit=""), failures=["no"]),
    ]

    assert worker_report.markdown({"rows": rows}).splitlines() == [
        "| promise | setting | stock | ours | limit | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
        "| fast | 20 slots | never | 4.5 s | ≤ 6.2 s | holds |",
        "| rate | 20 slots | 251 tasks/s | 1,300 tasks/s | ≥ 754 tasks/s | holds |",
        "| clients | 20 slots | 63 | failed | – | failed |",
    ]


def test_markdown_puts_peers_into_a_table_of_their_own() -> None:
    asked = figure(unit="s", limit=6.0)
    rows = [
        entry([12.0], [5.0], asked, {"dramatiq": [4.0]}),
        entry([12.0], [5.0], asked, {"rq": []}),
        entry([12.0], [5.0], asked),
    ]

    assert worker_report.markdown({"rows": rows}).splitlines()[6:] == [
        "| measured | setting | stock | ours | dramatiq | rq |",
        "| --- | --- | --- | --- | --- | --- |",
        "| fast | 20 slots | 12 s | 5 s | 4 s | – |",
        "| fast | 20 slots | 12 s | 5 s | – | failed |",
    ]


@pytest.mark.parametrize("is_quick", [False, True])
def test_every_row_says_its_setting_with_its_own_sizes(is_quick: bool) -> None:
    for row in ROWS.values():
        assert "{" not in row.setting.format(**row.sizes_of(is_quick=is_quick))


def test_quick_sizes_only_change_sizes_that_there_are() -> None:
    for row in ROWS.values():
        assert row.quick.keys() <= row.sizes.keys()


def test_options_choose_rows_by_name() -> None:
    assert [row.name for row in worker._parse(["--rows", "sigquit, start"]).rows] == ["sigquit", "start"]


def test_options_refuse_an_unknown_row(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        worker._parse(["--rows", "sigquit,nonsense"])

    assert "no row is named nonsense" in capsys.readouterr().err


def ledger(path: Path, *lines: str) -> Ledger:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Ledger(path).read()


def test_ledger_reads_on_where_it_stopped_and_leaves_half_a_line(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    found = ledger(marks, "begin a 7 1.0")
    with marks.open("a", encoding="utf-8") as file:
        file.write("end a 7 2.0\nbegin b 7 2")

    found.read()

    assert (found.begun, found.ended) == ({"a": [(7, 1.0)]}, {"a": [(7, 2.0)]})


def test_ledger_of_no_marks_is_empty(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "marks").read().lost(["a"]) == ["a"]


def test_a_task_without_an_end_is_lost(tmp_path: Path) -> None:
    found = ledger(tmp_path / "marks", "begin a 7 1.0", "end a 7 2.0", "begin b 7 1.0")

    assert found.lost(["a", "b", "c"]) == ["b", "c"]


def test_a_task_that_a_killed_worker_ran_may_begin_again(tmp_path: Path) -> None:
    found = ledger(tmp_path / "marks", "begin a 7 99.9", "begin a 8 120.0", "end a 8 121.0")

    assert (found.repeated([KILL]), found.doubled([KILL])) == ([], [])


def test_a_task_that_began_again_without_a_kill_is_named(tmp_path: Path) -> None:
    found = ledger(tmp_path / "marks", "begin a 8 1.0", "begin a 9 2.0", "end a 9 3.0")

    assert found.repeated([KILL]) == ["a"]


def test_a_task_with_two_ends_is_named(tmp_path: Path) -> None:
    found = ledger(tmp_path / "marks", "begin a 8 1.0", "end a 8 2.0", "begin a 9 3.0", "end a 9 4.0")

    assert found.doubled([KILL]) == ["a"]


@pytest.mark.parametrize(("ended_at", "is_excused"), [("99.8", True), ("99.2", False), ("100.1", False)])
def test_a_second_end_is_excused_only_right_before_the_kill(tmp_path: Path, ended_at: str, is_excused: bool) -> None:
    found = ledger(
        tmp_path / "marks", "begin a 7 99.0", f"end a 7 {ended_at}", "begin a 8 120.0", "end a 8 121.0"
    )  # fmt: skip

    assert found.at_the_kill([KILL]) == (["a"] if is_excused else [])
    assert found.doubled([KILL]) == ([] if is_excused else ["a"])
    assert found.repeated([KILL]) == ([] if is_excused else ["a"])


def test_trend_compares_the_thirds_after_the_warm_up() -> None:
    samples = [(0.0, 500.0), *((float(at), 100.0 + at) for at in range(10, 19))]

    assert worker_ledger.trend(samples, 10.0) == Trend(first=111.0, last=117.0, peak=118.0)


def test_trend_of_two_samples_is_unknown() -> None:
    assert worker_ledger.trend([(1.0, 1.0), (2.0, 1.0)], 0.0) is None


@pytest.mark.parametrize(
    ("last", "slack", "is_flat"),
    [(115.0, 0.0, True), (116.0, 0.0, False), (116.0, 16.0, True), (50.0, 0.0, True)],
)
def test_a_trend_is_flat_within_noise_or_slack(last: float, slack: float, is_flat: bool) -> None:
    assert Trend(first=100.0, last=last, peak=last).is_flat(slack) is is_flat


def violations(**changes: Any) -> list[str]:
    return worker_ledger.violations(
        **{
            "lost": [],
            "doubled": [],
            "repeated": [],
            "left": 0,
            "happened": {"kills": (1, 1)},
            "ended_workers": [],
            "trends": {"memory": (Trend(90.0, 91.0, 95.0), 0.0)},
            **changes,
        }
    )


def test_a_clean_soak_violates_nothing() -> None:
    assert violations() == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lost": ["a", "b"]}, "2 tasks never ended: a, b"),
        ({"doubled": ["a"]}, "1 tasks ended more than once: a"),
        ({"repeated": ["a"]}, "1 tasks began again without a kill: a"),
        ({"left": 3}, "3 messages were left in Redis"),
        ({"happened": {"renewals": (1, 2)}}, "renewals: 1, at least 2"),
        ({"ended_workers": ["the first worker ended with 1"]}, "the first worker ended with 1"),
        ({"trends": {"memory": (None, 0.0)}}, "memory: too few samples"),
        ({"trends": {"memory": (Trend(90.0, 180.0, 180.0), 0.0)}}, "memory grew by 100 %: 90.0 to 180.0"),
    ],
)
def test_a_violation_is_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert violations(**changes) == [sentence]


@pytest.mark.parametrize("seconds", [60.0, 120.0, 3600.0])
def test_timetable_has_three_restarts_and_a_kill_with_time_to_recover(seconds: float) -> None:
    found = soak.timetable(seconds)

    assert sorted(what for _, what in found) == ["kill", "restart", "restart", "restart"]
    assert found == sorted(found)
    assert found[-1][0] < seconds

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench import dispatch, dispatch_report
from bench.dispatch_report import Aim, Results, Taken
from bench.dispatch_rows import OURS, PEERS
from bench.dispatch_side import lines
from bench.worker_report import Better, Value
from worker_app.sync import cron

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
RATE = Aim("per_second", "jobs/s", "higher", {1: 100.0, 2: None})


def taken(seconds: float = 2.0, **changes: Any) -> Taken:
    given = {
        "size": 200, "seconds": seconds, "done": (200,), "transactions_ms": (12.0,), "cpu_seconds": 0.5,
        "stores_cpu_seconds": 0.3, "counts": {"runs": 200, "messages": 200}, **changes,
    }  # fmt: skip
    return Taken(**given)


def results(*found: Taken, processes: int = 1, failures: tuple[str, ...] = ()) -> Results:
    return Results(processes, 200, list(found), list(failures))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("per_second", 100.0),
        ("seconds", 2.0),
        ("least_share_percent", 25.0),
        ("longest_transaction_ms", 14.0),
        ("runs", 200.0),
        ("cpu_us", 4000.0),
    ],
)
def test_value_gives_each_figure(key: str, value: float) -> None:
    assert taken(done=(150, 50), transactions_ms=(12.0, 14.0)).value(key) == value


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("least_share_percent", {"done": (200, None)}),
        ("least_share_percent", {"done": (0, 0)}),
        ("longest_transaction_ms", {"transactions_ms": (None,)}),
    ],
)
def test_value_is_unknown_where_a_side_does_not_tell(key: str, changes: Mapping[str, Any]) -> None:
    assert taken(**changes).value(key) is None


def test_wrong_names_the_counts_that_are_not_the_size() -> None:
    assert taken(counts={"runs": 200, "messages": 201, "ledger": 199}).wrong == {"messages": 201, "ledger": 199}


@pytest.mark.parametrize(
    ("found", "is_exact"),
    [
        (results(taken(), taken()), True),
        (results(taken(), taken(counts={"runs": 199})), False),
        (results(taken(), failures=("it hung",)), False),
        (results(), False),
    ],
)
def test_exactly_once_takes_every_run(found: Results, is_exact: bool) -> None:
    assert found.is_exact() is is_exact


@pytest.mark.parametrize(
    ("values", "better", "is_worst", "judged"),
    [
        ([1.0, 5.0, 2.0], "higher", False, 2.0),
        ([1.0, 5.0, 2.0], "higher", True, 1.0),
        ([1.0, 5.0, 2.0], "lower", True, 5.0),
        ([None, 5.0], "lower", True, 5.0),
        ([None, None], "lower", True, None),
        ([], "higher", False, None),
    ],
)
def test_an_aim_judges_the_median_or_the_worst(
    values: list[Value], better: Better, is_worst: bool, judged: Value
) -> None:
    assert Aim("seconds", "s", better, {}, is_worst=is_worst).judged(values) == judged


@pytest.mark.parametrize(
    ("found", "is_quick", "limit", "verdict"),
    [
        (results(taken(2.0)), False, 100.0, "holds"),
        (results(taken(2.1)), False, 100.0, "missed"),
        (results(taken(2.1)), True, None, "measured"),
        (results(taken(2.1), processes=2), False, None, "measured"),
        (results(taken(1.0), failures=("it hung",)), False, 100.0, "failed"),
    ],
)
def test_ours_is_held_against_its_aim(found: Results, is_quick: bool, limit: Value, verdict: str) -> None:
    row = dispatch_report.judged("mint", RATE, found, is_quick=is_quick)

    assert (row["limit"], row["verdict"]) == (limit, verdict)


def compared(theirs: Results, version: str | None = "1.0", least_ratio: float | None = 5.0) -> dict[str, Any]:
    ours = results(taken(2.0))
    return dispatch_report.compared("peer", version, ours, theirs, least_ratio=least_ratio, note="smaller")


@pytest.mark.parametrize(
    ("theirs", "changes", "ratio", "verdict"),
    [
        (results(taken(10.0)), {}, 5.0, "holds"),
        (results(taken(9.0)), {}, 4.5, "missed"),
        (results(taken(9.0)), {"least_ratio": None}, 4.5, "measured"),
        (results(failures=("it hung",)), {}, None, "failed"),
        (results(), {"version": None}, None, "not installed"),
    ],
)
def test_a_peer_is_compared_by_its_rate(theirs: Results, changes: dict[str, Any], ratio: Value, verdict: str) -> None:
    row = compared(theirs, **changes)

    assert (row["ratio"], row["verdict"]) == (ratio, verdict)


def test_a_peer_is_compared_by_its_processor_time_too() -> None:
    row = compared(results(taken(10.0, cpu_seconds=2.0, stores_cpu_seconds=1.2)))

    assert row["cpu_ratio"] == 4.0


def test_a_peer_says_why_it_failed_and_whether_it_was_right() -> None:
    failed, doubled = compared(results(failures=("it hung",))), compared(results(taken(counts={"jobs": 201})))

    assert (failed["note"], failed["is_exactly_once"]) == ("smaller; it hung", None)
    assert doubled["is_exactly_once"] is False


def report(ours: Results, theirs: Results) -> dict[str, Any]:
    aim = Aim("per_second", "jobs/s", "higher", {1: 100.0})
    return {
        "rows": [dispatch_report.judged("mint", aim, ours, is_quick=False)],
        "compared": [dispatch_report.compared("peer", "1.0", ours, theirs, least_ratio=5.0, note="")],
        "measurements": [
            dispatch_report.figures("mint", "mints", ours, is_ours=True),
            dispatch_report.figures("peer", "does it too", theirs, is_ours=False),
        ],
    }


def test_missed_names_aims_and_ratios() -> None:
    found = report(results(taken(2.5)), results(taken(10.0)))

    assert dispatch_report.missed(found) == ["mint by 1: jobs/s", "peer 1.0, 1 processes: ratio 4.0, at least 5"]


def test_broken_is_about_ours_alone() -> None:
    wrong = results(taken(counts={"runs": 201}))

    assert dispatch_report.broken(report(wrong, wrong)) == ["mint by 1: not exactly once"]
    assert dispatch_report.broken(report(results(failures=("it hung",)), results(taken()))) == ["mint by 1: it hung"]
    assert dispatch_report.broken(report(results(taken()), wrong)) == []


def test_what_is_not_counted_is_not_broken() -> None:
    found = report(results(taken()), results(taken()))
    fair = dispatch_report.figures("fair", "is fair", results(taken(counts={})), is_ours=True, is_counted=False)

    assert "is_exactly_once" not in fair
    assert dispatch_report.broken({**found, "measurements": [fair]}) == []


def test_figures_hold_every_run() -> None:
    row = dispatch_report.figures("mint", "mints", results(taken(2.0), taken(2.5)), is_ours=True)

    assert (row["seconds"], row["per_second"]) == ([2.0, 2.5], [100, 80])
    assert (row["cpu_us_per_schedule"], row["stores_cpu_us_per_schedule"]) == ([2500, 2500], [1500, 1500])


def test_markdown_is_two_tables() -> None:
    found = report(results(taken(0.1)), results(taken(10.0)))

    assert dispatch_report.markdown(found).splitlines() == [
        "| ours | processes | found | aim | verdict |",
        "| --- | --- | --- | --- | --- |",
        "| mint | 1 | 2,000 jobs/s | ≥ 100 | holds |",
        "",
        "| peer | processes | ours, 1/s | theirs, 1/s | ratio | aim | CPU ratio | exactly once | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| peer 1.0 | 1 | 2,000 | 20 | 100 | ≥ 5 | 1 | yes | holds |",
    ]


def test_every_schedule_has_one_slot_before_the_moment_and_none_for_a_while() -> None:
    for line in lines(200, NOON):
        slots = cron.slots(line.cron, "UTC", NOON - timedelta(minutes=15))

        assert next(slots) == line.slot < NOON
        assert next(slots) >= NOON + timedelta(minutes=20)


def test_rows_begin_with_rows_that_run_before_them_by_one_process() -> None:
    seen: set[str] = {""}
    for row in (*OURS, *PEERS):
        assert row.begins_with in seen
        seen |= {row.name} if 1 in row.processes else set()


def test_every_aim_and_every_peer_has_something_to_look_at() -> None:
    known = {row.name: row.processes for row in OURS}

    assert all(set(aim.limits) == set(row.processes) for row in OURS for aim in row.aims)
    assert all(set(peer.processes) <= set(known[peer.ours]) for peer in PEERS)


def test_a_peer_whose_package_is_missing_has_no_version() -> None:
    peer = PEERS[1]

    assert dispatch.installed(replace(peer, package="pytest"))
    assert dispatch.installed(replace(peer, package="no-such-package")) is None

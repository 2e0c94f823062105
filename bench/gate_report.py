"""The document of the gate's benchmark as tables for people. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from bench.gate_goals import NOT_REACHED
from bench.worker_report import MISSED, Value, number

FLEET = (
    ("accepted", "accepted"),
    ("of", "possible"),
    ("primary", "refused_primary"),
    ("secondary", "refused_secondary"),
    ("late", "refused_late"),
    ("most in 100 ms", "most_in_100ms"),
    ("acquires per grant", "acquires_per_grant"),
    ("trips per request", "trips_per_request"),
    ("bytes", "memory_bytes"),
)
CALLS = (
    ("limits, fixed window", "limits_fixed"),
    ("limits, sliding window", "limits_sliding"),
    ("limits, moving window", "limits_moving"),
    ("PyrateLimiter", "pyrate"),
    ("the gate, acquire", "acquire"),
    ("the gate, observe", "observe"),
)


def missed(report: Mapping[str, Any]) -> list[str]:
    """The goals that were not reached, and the ratios that got worse."""
    goals = [f"{row['goal']}: {row['says']}" for row in report["goals"] if row["verdict"] == NOT_REACHED]
    worse = [f"{row['ratio']}: {row['now']:g}, it was {row['before']:g}" for row in report["compared"]]
    return goals + [text for text, row in zip(worse, report["compared"], strict=True) if row["verdict"] == MISSED]


def lines(report: Mapping[str, Any]) -> str:
    """The goals, one a line."""
    return "".join(
        f"{row['goal']}  {row['verdict']:<12}  {row['says']}: {_measured(row)} ({_limit(row)})\n"
        for row in report["goals"]
    )


def markdown(report: Mapping[str, Any]) -> str:
    """The goals, the fleet and one client as tables."""
    tables = [_table(("goal", "says", "measured", "aim", "verdict"), map(_goal_cells, report["goals"]))]
    if report["fleet"]:
        head = ("scenario", "client", *(title for title, _ in FLEET))
        tables.append(_table(head, map(_fleet_cells, report["fleet"])))
    if report["one_client"]:
        tables.append(_table(("call", "p50, µs", "p99, µs", "bytes after the run"), _call_cells(report["one_client"])))
    return "\n".join(tables)


def _goal_cells(row: Mapping[str, Any]) -> Sequence[str]:
    return row["goal"], row["says"], _measured(row), _limit(row), row["verdict"]


def _fleet_cells(row: Mapping[str, Any]) -> Sequence[str]:
    if not row["runs"]:
        return row["scenario"], row["side"], *("failed" for _ in FLEET)
    return row["scenario"], row["side"], *(_number(_median(row["runs"], figure)) for _, figure in FLEET)


def _call_cells(found: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    for title, name in CALLS:
        own = found["memory"]["idle_bytes"] if name == "acquire" else None
        size = found["memory"].get(name, own)
        yield title, _number(found[f"{name}_p50_us"]), _number(found[f"{name}_p99_us"]), _number(size)
    checks = found["checks"]
    yield "the gate, check of a known window", _number(checks["check_p50_us"]), _number(checks["check_p99_us"]), "–"


def _median(runs: Sequence[Mapping[str, Any]], figure: str) -> Value:
    values = [run[figure] for run in runs if run[figure] is not None]
    return median(values) if values else None


def _measured(row: Mapping[str, Any]) -> str:
    return f"{_number(row['measured'])} {row['unit']}".strip()


def _limit(row: Mapping[str, Any]) -> str:
    return f"{'≤' if row['better'] == 'lower' else '≥'} {number(row['limit'])} {row['unit']}".strip()


def _number(value: Value) -> str:
    return "–" if value is None else number(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    texts = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in texts)

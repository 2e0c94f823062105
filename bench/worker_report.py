"""What a benchmark of workers says: medians, ratios, verdicts and the table. Pure; it knows neither a worker nor a store."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

Better = Literal["lower", "higher"]
Value = float | None  # None: it did not happen in the time that the row allows
Values = dict[str, Value]  # by the key of the figure

CELERY = "Celery"  # how the name of a peer begins that is another pool of Celery
HOLDS, MISSED, FAILED, MEASURED = "holds", "missed", "failed", "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that a row measures, and what ours must reach: `limit`, or `times_stock` x the median of stock.

    Neither of them means that the number is only shown. `quick_limit` is for the small sizes, where it differs. With
    `times_stock` ours must also be no worse than any pool of Celery that is measured beside it.
    """

    key: str
    promise: str
    unit: str
    better: Better
    limit: float | None = None
    quick_limit: float | None = None
    times_stock: float | None = None


@dataclass(slots=True)
class Series:
    """The values of one side, and why a run gave none."""

    values: list[Value] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def median_of(values: Sequence[Value], better: Better) -> Value:
    """The median, where what never happened is worse than any number; None when that is the median, or without values."""
    worst = math.inf if better == "lower" else -math.inf
    if not values:
        return None
    found = median(worst if value is None else value for value in values)
    return found if math.isfinite(found) else None


def ratio_of(stock: Value, ours: Value, better: Better) -> float | None:
    """How many times better ours is; below 1 it is worse. None where it cannot be said."""
    if stock is None or ours is None:
        return None
    above, below = (stock, ours) if better == "lower" else (ours, stock)
    return round(above / below, 2) if below else None


def limit_of(figure: Figure, stock: Value, celery: Iterable[Value] = (), *, is_quick: bool) -> float | None:
    """What ours must reach. None: the figure is only shown, or there is nothing to hold it against.

    `celery` are the medians of Celery's other pools.
    """
    if figure.times_stock is None:
        return figure.quick_limit if is_quick and figure.quick_limit is not None else figure.limit
    bounds = [value for value in celery if value is not None]
    bounds += [] if stock is None else [figure.times_stock * stock]
    strictest = min if figure.better == "lower" else max
    return strictest(bounds, default=None)


def verdict_of(ours: Series, limit: float | None, better: Better) -> str:
    """Whether the median of ours reaches the limit; `failed` when one of its runs could not be measured."""
    if ours.failures:
        return FAILED
    if limit is None:
        return MEASURED
    found = median_of(ours.values, better)
    if found is None:
        return MISSED
    return HOLDS if (found <= limit if better == "lower" else found >= limit) else MISSED


def entry(
    name: str, setting: str, figure: Figure, stock: Series, ours: Series, peers: Mapping[str, Series], *, is_quick: bool
) -> dict[str, Any]:
    """One row of the document."""
    stock_median, ours_median = median_of(stock.values, figure.better), median_of(ours.values, figure.better)
    celery = [median_of(item.values, figure.better) for peer, item in peers.items() if peer.startswith(CELERY)]
    limit = limit_of(figure, stock_median, celery, is_quick=is_quick)
    notes = [_failed(side, series) for side, series in (("stock", stock), ("ours", ours), *peers.items())]
    if figure.times_stock is not None:
        notes.append(f"the limit is {figure.times_stock:g} x stock, and no worse than another pool of Celery")
    return {
        "row": name,
        "promise": figure.promise,
        "setting": setting,
        "unit": figure.unit,
        "better": figure.better,
        "stock": _rounded(stock.values),
        "ours": _rounded(ours.values),
        "stock_median": _short(stock_median),
        "ours_median": _short(ours_median),
        "ratio": ratio_of(stock_median, ours_median, figure.better),
        "limit": _short(limit),
        "verdict": verdict_of(ours, limit, figure.better),
        "peers": {peer: _rounded(series.values) for peer, series in peers.items()},
        "note": "; ".join(filter(None, notes)),
    }


def _failed(side: str, series: Series) -> str:
    if not series.failures:
        return ""
    count = len(series.failures) + len(series.values)
    return f"{side} failed in {len(series.failures)} of {count}: {series.failures[0]}"


def _rounded(values: Iterable[Value]) -> list[Value]:
    return [_short(value) for value in values]


def _short(value: Value) -> Value:
    """Four digits, which is more than a run repeats."""
    return None if value is None else float(f"{value:.4g}")


def missed(report: Mapping[str, Any]) -> list[str]:
    """The promises that ours does not keep, or that could not be measured."""
    return [f"{row['row']}: {row['promise']}" for row in report["rows"] if row["verdict"] in (MISSED, FAILED)]


def markdown(report: Mapping[str, Any]) -> str:
    """The rows as a table for people: the medians, and beneath it the other task queues on the same work."""
    rows = report["rows"]
    table = _table(
        ("promise", "setting", "stock", "ours", "limit", "verdict"),
        (
            (
                row["promise"],
                row["setting"],
                _median_text(row, row["stock"], row["stock_median"]),
                _median_text(row, row["ours"], row["ours_median"]),
                _limit_text(row),
                row["verdict"],
            )
            for row in rows
        ),
    )
    compared = [row for row in rows if row["peers"]]
    names = list(dict.fromkeys(name for row in compared for name in row["peers"]))
    if not names:
        return table
    beside = _table(
        ("measured", "setting", "stock", "ours", *names),
        (
            (
                row["promise"],
                row["setting"],
                _median_text(row, row["stock"], row["stock_median"]),
                _median_text(row, row["ours"], row["ours_median"]),
                *(_peer_text(row, name) for name in names),
            )
            for row in compared
        ),
    )
    return f"{table}\n{beside}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    texts = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in texts)


def _median_text(row: Mapping[str, Any], values: Sequence[Value], found: Value) -> str:
    if not values:
        return "failed"
    return "never" if found is None else f"{number(found)} {row['unit']}".strip()


def _limit_text(row: Mapping[str, Any]) -> str:
    if row["limit"] is None:
        return "–"
    return f"{'≤' if row['better'] == 'lower' else '≥'} {number(row['limit'])} {row['unit']}".strip()


def _peer_text(row: Mapping[str, Any], name: str) -> str:
    if name not in row["peers"]:
        return "–"
    values = row["peers"][name]
    return _median_text(row, values, median_of(values, row["better"]))


def number(value: float) -> str:
    """A figure for a table: whole where it is large, three digits otherwise."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

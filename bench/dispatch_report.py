"""What the dispatch benchmark says: rates, checks, verdicts and ratios, and the table. Pure; it knows no store and no side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.worker_report import (
    FAILED,
    HOLDS,
    MEASURED,
    MISSED,
    Better,
    Series,
    Value,
    median_of,
    number,
    ratio_of,
    verdict_of,
)

NOT_INSTALLED = "not installed"


@dataclass(frozen=True, slots=True)
class Aim:
    """One figure of a measurement and what it has to reach, by the number of processes; None: it is only shown.

    Of several runs the median is judged, or the worst.
    """

    key: str
    unit: str
    better: Better
    limits: Mapping[int, float | None]
    is_worst: bool = False

    def judged(self, values: Sequence[Value]) -> Value:
        """The value that is held against the limit."""
        known = [value for value in values if value is not None]
        if self.is_worst and known:
            return max(known) if self.better == "lower" else min(known)
        return median_of(values, self.better)


@dataclass(frozen=True, slots=True)
class Taken:
    """What one measurement gave."""

    size: int
    seconds: float
    done: tuple[int | None, ...]  # by each process; None: it does not tell
    transactions_ms: tuple[float | None, ...]  # the longest of each process; None: not measured
    cpu_seconds: float  # of all processes of the side; unlike the rate, other programs hardly change it
    stores_cpu_seconds: float  # of Postgres and Redis meanwhile
    counts: Mapping[str, int]  # what was found afterwards

    @property
    def wrong(self) -> dict[str, int]:
        """The counts that are not the size: something is lost or double."""
        return {name: found for name, found in self.counts.items() if found != self.size}

    def value(self, key: str) -> Value:
        """One figure of it."""
        match key:
            case "per_second":
                return self.size / self.seconds
            case "seconds":
                return self.seconds
            case "cpu_us":
                return 1e6 * (self.cpu_seconds + self.stores_cpu_seconds) / self.size
            case "least_share_percent":
                told = [item for item in self.done if item is not None]
                total = sum(told, 0)
                return 100 * min(told) / total if len(told) == len(self.done) and total else None
            case "longest_transaction_ms":
                return max((item for item in self.transactions_ms if item is not None), default=None)
        return float(self.counts[key])


@dataclass(slots=True)
class Results:
    """All measurements of one side by one number of processes."""

    processes: int
    size: int
    taken: list[Taken] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def series(self, key: str) -> Series:
        """The values of one figure."""
        return Series([item.value(key) for item in self.taken], self.failures)

    def median(self, key: str) -> Value:
        """The median of one figure."""
        return median_of(self.series(key).values, "lower")

    def is_exact(self) -> bool:
        """Whether each schedule became exactly one of everything, every time."""
        return bool(self.taken) and not self.failures and not any(item.wrong for item in self.taken)


def figures(name: str, does: str, results: Results, *, is_ours: bool, is_counted: bool = True) -> dict[str, Any]:
    """All that was seen of one side, for the document."""
    return {
        "row": name,
        "is_ours": is_ours,
        "does": does,
        "processes": results.processes,
        "schedules_count": results.size,
        "seconds": [round(item.seconds, 3) for item in results.taken],
        "per_second": [round(item.size / item.seconds) for item in results.taken],
        "cpu_us_per_schedule": [round(1e6 * item.cpu_seconds / item.size) for item in results.taken],
        "stores_cpu_us_per_schedule": [round(1e6 * item.stores_cpu_seconds / item.size) for item in results.taken],
        "done_by_each_process": [list(item.done) for item in results.taken],
        "longest_transactions_ms": [list(item.transactions_ms) for item in results.taken],
        "counts": [dict(item.counts) for item in results.taken],
        **({"is_exactly_once": results.is_exact()} if is_counted else {}),
        "failures": list(results.failures),
    }


def judged(name: str, aim: Aim, results: Results, *, is_quick: bool) -> dict[str, Any]:
    """Ours held against an aim. Small sizes are measured and not judged."""
    limit = None if is_quick else aim.limits[results.processes]
    series = results.series(aim.key)
    found = aim.judged(series.values)
    return {
        "row": name,
        "processes": results.processes,
        "unit": aim.unit,
        "better": aim.better,
        "values": [_short(value) for value in series.values],
        "judged": _short(found),
        "limit": limit,
        "verdict": verdict_of(Series([found], series.failures), limit, aim.better),
    }


def compared(
    name: str, version: str | None, ours: Results, theirs: Results, *, least_ratio: float | None, note: str
) -> dict[str, Any]:
    """A peer beside ours with as many processes. `version` None: it is not installed."""
    mine, other = ours.median("per_second"), theirs.median("per_second")
    ratio = ratio_of(other, mine, "higher")
    if version is None:
        verdict = NOT_INSTALLED
    elif ratio is None:
        verdict = FAILED
    elif least_ratio is None:
        verdict = MEASURED
    else:
        verdict = HOLDS if ratio >= least_ratio else MISSED
    return {
        "peer": f"{name} {version or ''}".strip(),
        "processes": theirs.processes,
        "schedules_count": theirs.size,
        "ours_per_second": _short(mine),
        "theirs_per_second": _short(other),
        "ratio": ratio,
        "cpu_ratio": ratio_of(theirs.median("cpu_us"), ours.median("cpu_us"), "lower"),
        "least_ratio": least_ratio,
        "is_exactly_once": theirs.is_exact() if theirs.taken else None,
        "verdict": verdict,
        "note": "; ".join(filter(None, (note, *theirs.failures[:1]))),
    }


def _short(value: Value) -> Value:
    """Four digits, which is more than a run repeats."""
    return None if value is None else float(f"{value:.4g}")


def broken(report: Mapping[str, Any]) -> list[str]:
    """What ours got wrong or could not do: something lost, double or failed."""
    return [
        f"{item['row']} by {item['processes']}: {item['failures'][0] if item['failures'] else 'not exactly once'}"
        for item in report["measurements"]
        if item["is_ours"] and (item["failures"] or not item.get("is_exactly_once", True))
    ]


def missed(report: Mapping[str, Any]) -> list[str]:
    """The aims that ours does not reach."""
    own = [f"{row['row']} by {row['processes']}: {row['unit']}" for row in report["rows"] if row["verdict"] == MISSED]
    beside = [
        f"{row['peer']}, {row['processes']} processes: ratio {row['ratio']}, at least {row['least_ratio']:g}"
        for row in report["compared"]
        if row["verdict"] == MISSED
    ]
    return own + beside


def markdown(report: Mapping[str, Any]) -> str:
    """Two tables for people: ours against its aims, and the peers beside ours."""
    own = _table(
        ("ours", "processes", "found", "aim", "verdict"),
        (
            (
                row["row"],
                str(row["processes"]),
                _text(row["judged"], row["unit"]),
                _aim_text(row),
                row["verdict"],
            )
            for row in report["rows"]
        ),
    )
    beside = _table(
        ("peer", "processes", "ours, 1/s", "theirs, 1/s", "ratio", "aim", "CPU ratio", "exactly once", "verdict"),
        (
            (
                row["peer"],
                str(row["processes"]),
                _text(row["ours_per_second"]),
                _text(row["theirs_per_second"]),
                _text(row["ratio"]),
                "–" if row["least_ratio"] is None else f"≥ {row['least_ratio']:g}",
                _text(row["cpu_ratio"]),
                {True: "yes", False: "no", None: "–"}[row["is_exactly_once"]],
                row["verdict"],
            )
            for row in report["compared"]
        ),
    )
    return f"{own}\n{beside}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    texts = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in texts)


def _text(value: Value, unit: str = "") -> str:
    return "–" if value is None else f"{number(value)} {unit}".strip()


def _aim_text(row: Mapping[str, Any]) -> str:
    if row["limit"] is None:
        return "–"
    return f"{'≤' if row['better'] == 'lower' else '≥'} {number(row['limit'])}"

"""The figures of the GitHub benchmark, from what was taken to the tables that people read. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

COLUMNS = (
    ("pull requests", "pull_requests"),
    ("slots", "slots"),
    ("seconds", "seconds"),
    ("per second", "per_second"),
    ("requests", "requests"),
    ("requests per pull request", "requests_per_pull_request"),
    ("of the ideal, %", "ideal_percent"),
    ("records", "records"),
    ("given back", "given_back"),
    ("CPU per pull request, ms", "cpu_ms_per_pull_request"),
    ("Postgres, ms", "postgres_cpu_ms_per_pull_request"),
    ("server, ms", "server_cpu_ms_per_pull_request"),
)


@dataclass(frozen=True, slots=True)
class Taken:
    """One measurement of one side."""

    pull_requests: int
    seconds: float
    requests: int  # that the server got
    slots: int  # that could work at once
    records: int  # that were stored, or read where nothing is stored
    given_back: int | None  # times that a batch gave its slot back before its end; None: it knows no such thing
    cpu_seconds: float  # of the client
    postgres_cpu_seconds: float | None  # None: it stores nothing
    server_cpu_seconds: float

    def figures(self, latency_seconds: float) -> dict[str, float | None]:
        """What one reads off it. The ideal: every slot always waits for an answer, and nothing else takes time."""
        ideal_seconds = latency_seconds * self.requests / self.slots
        return {
            "per_second": round(self.pull_requests / self.seconds, 1),
            "requests_per_pull_request": round(self.requests / self.pull_requests, 3),
            "ideal_seconds": round(ideal_seconds, 3),
            "ideal_percent": round(100 * ideal_seconds / self.seconds, 1),
            "cpu_ms_per_pull_request": self._each(self.cpu_seconds),
            "postgres_cpu_ms_per_pull_request": self._each(self.postgres_cpu_seconds),
            "server_cpu_ms_per_pull_request": self._each(self.server_cpu_seconds),
        }

    def _each(self, seconds: float | None) -> float | None:
        return None if seconds is None else round(1000 * seconds / self.pull_requests, 3)


def side(name: str, does: str, runs: Sequence[Taken], latency_seconds: float) -> dict[str, Any]:
    """One side of a row: the medians of its runs, and the runs."""
    every = [{**asdict(run), **run.figures(latency_seconds)} for run in runs]
    middle = {key: _median([run[key] for run in every]) for key in every[0]}
    return {"side": name, "does": does, **middle, "runs": every}


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), 3) if known else None


def ratios(sides: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How many times as many pull requests a second the first side does as each of the others."""
    ours, *others = sides
    return {other["side"]: round(ours["per_second"] / other["per_second"], 1) for other in others}


def broken(report: Mapping[str, Any]) -> list[str]:
    """The checks that failed."""
    return [
        f"{row['row']}: {name}" for row in report["rows"] for name, is_right in row["checks"].items() if not is_right
    ]


def markdown(report: Mapping[str, Any]) -> str:
    """The rows as one table, and what was read while things happened as another."""
    head = ("row", "side", *(title for title, _ in COLUMNS), "ours is faster by")
    tables = [_table(head, (cells for row in report["rows"] for cells in _row_cells(row)))]
    live = (
        "while things happen",
        "of them",
        "missing or old then",
        "missing or old after a quiet run",
        "double, unknown",
    )
    tables.append(_table(live, map(_live_cells, report["live"])))
    return "\n".join(tables)


def _row_cells(row: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    for found in row["sides"]:
        ratio = row["ratios"].get(found["side"])
        times = "" if ratio is None else f"{ratio:g} x"
        yield row["row"], found["side"], *(_number(found[key]) for _, key in COLUMNS), times


def _live_cells(found: Mapping[str, Any]) -> Sequence[str]:
    during, after = found["during"], found["after"]
    return (
        found["row"],
        str(found["changes"]),
        str(during["missing"] + during["stale"]),
        str(after["missing"] + after["stale"]),
        str(during["double"] + after["double"] + after["unknown"]),
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.10g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *rows))

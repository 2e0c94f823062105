"""The figures of roles that wait: medians over runs, as a document and as a table."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

HEADS: Final = ("MB", "MB of its own", "% of a core", "threads", "s to serve", "CPU s to serve", "Redis", "Postgres")


@dataclass(frozen=True, slots=True)
class Figures:
    """One role in one run. What could not be measured is None."""

    rss_mb: float
    own_mb: float
    cpu_percent: float  # of one core
    threads: float
    start_seconds: float | None = None
    start_cpu_seconds: float | None = None
    redis_clients: float | None = None
    postgres_connections: float | None = None


def medians(runs: Sequence[Mapping[str, Figures]]) -> dict[str, Figures]:
    """The median of each figure over the runs, by role."""
    return {name: _median([found[name] for found in runs]) for name in runs[0]}


def _median(found: Sequence[Figures]) -> Figures:
    rows = [asdict(item) for item in found]
    known = {key: [row[key] for row in rows if row[key] is not None] for key in rows[0]}
    values: dict[str, Any] = {key: median(given) if given else None for key, given in known.items()}
    return Figures(**values)


def document(runs: Sequence[Mapping[str, Figures]], seconds: float, place: str) -> dict[str, Any]:
    """All of it for a program. Units stand in the names."""
    return {
        "benchmark": "idle",
        "place": place,
        "runs_count": len(runs),
        "seconds": seconds,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()},
        "load_average": os.getloadavg()[0],
        "medians": {name: asdict(item) for name, item in medians(runs).items()},
        "runs": [{name: asdict(item) for name, item in found.items()} for found in runs],
    }


def markdown(found: Mapping[str, Figures]) -> str:
    """The medians as a table for a page."""
    lines = [f"| role | {' | '.join(HEADS)} |", f"| --- |{' --: |' * len(HEADS)}"]
    lines += [f"| {name} | {' | '.join(_cells(item))} |" for name, item in found.items()]
    return "\n".join(lines)


def _cells(found: Figures) -> list[str]:
    return [
        f"{found.rss_mb:.0f}",
        f"{found.own_mb:.0f}",
        f"{found.cpu_percent:.1f}",
        f"{found.threads:.0f}",
        *("–" if value is None else f"{value:.{digits}f}" for value, digits in (
            (found.start_seconds, 1), (found.start_cpu_seconds, 1), (found.redis_clients, 0), (found.postgres_connections, 0),
        )),
    ]  # fmt: skip

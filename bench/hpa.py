"""Autoscalers over one simulated fleet: which signal and which behaviour hold it steady, and what that costs in pods.

A model of the controller of https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/, not the controller.
The behaviour is read from the chart's values. The same seed gives the same figures on every machine.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

from bench import hpa_rows
from bench.hpa_rows import LOADS, Row
from bench.hpa_simulation import Figures, simulate

COLUMNS: Final = (
    "changes",
    "direction flips",
    "tasks hit",
    "given back",
    "p95 wait s",
    "longest wait s",
    "pod-h",
    "slots used",
)
TITLES: Final[Mapping[str, str]] = {
    "standard": "150 to 600 batches every 300 s and 1500 more each hour, 4 h",
    "sine": "2 to 8 tasks a second, up and down in 2 h, 4 h",
    "evening": "the first load for 2 h, then 2 h of nothing",
    "closed gate": "the first load, all of one provider whose gate is closed for an hour, 4 h",
    "heavy": "fleet worker-heavy: about 20 computations an hour, median 7 min, 8 h",
}


@dataclass(frozen=True, slots=True)
class Result:
    """A row with its figures."""

    row: Row
    figures: Figures


def measure(seed: int, loads: Sequence[str] = tuple(LOADS)) -> list[Result]:
    """Every row of the named loads."""
    arrivals = {name: LOADS[name](seed) for name in loads}
    return [Result(row, simulate(row.setup, arrivals[row.load])) for row in hpa_rows.rows() if row.load in arrivals]


def saved_share(results: Sequence[Result]) -> float:
    """The share of pod-hours that a signal without held work saves while a gate is closed. Needs the rows of that load."""
    plain, ours = (result.figures.pod_hours for result in results if result.row.load == "closed gate")
    return 1 - ours / plain


def document(seed: int, results: Sequence[Result]) -> dict[str, Any]:
    """All of it for a program. Units stand in the names."""
    rows = [
        {"load": item.row.load, "name": item.row.name, "chosen": item.row.is_chosen, **asdict(item.figures)}
        for item in results
    ]
    return {"seed": seed, "rows": rows, "pod_hours_saved_while_closed": round(saved_share(results), 3)}


def markdown(results: Sequence[Result]) -> str:
    """The tables for a page."""
    parts = []
    for load, found in groupby(results, key=lambda item: item.row.load):
        head = ["signal and behaviour", *COLUMNS]
        lines = [f"| {' | '.join(head)} |", f"| --- |{' --: |' * len(COLUMNS)}"]
        lines += [f"| {_name(item.row)} | {' | '.join(cells(item.figures))} |" for item in found]
        parts.append("\n".join([f"Load: {TITLES[load]}.", "", *lines]))
    return "\n\n".join(parts)


def _name(row: Row) -> str:
    return f"**{row.name}**" if row.is_chosen else row.name


def cells(figures: Figures) -> list[str]:
    """The figures in the order of COLUMNS."""
    return [
        *map(str, (figures.changes, figures.flips, figures.hit, figures.given_back)),
        f"{figures.wait_p95_seconds:.0f}",
        f"{figures.wait_max_seconds:.0f}",
        f"{figures.pod_hours:.1f}",
        f"{100 * figures.busy_share:.0f} %",
    ]


def text(results: Sequence[Result]) -> str:
    """The tables for a terminal."""
    lines = []
    for load, found in groupby(results, key=lambda item: item.row.load):
        lines += ["", TITLES[load], f"  {'':50}{''.join(f'{name:>16}' for name in COLUMNS)}"]
        for item in found:
            mark = "*" if item.row.is_chosen else " "
            lines.append(f"{mark} {item.row.name:50}{''.join(f'{cell:>16}' for cell in cells(item.figures))}")
    return "\n".join(lines[1:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the load (default: %(default)s)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one document")
    form.add_argument("--markdown", action="store_true", help="tables for a page")
    given = parser.parse_args(arguments)
    results = measure(given.seed)
    if given.json:
        print(json.dumps(document(given.seed, results), indent=2))
    else:
        print(markdown(results) if given.markdown else text(results))
        print(
            f"\nwhile the gate is closed: {100 * saved_share(results):.0f} % fewer pod-hours without what it holds back"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

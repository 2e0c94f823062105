"""The goals of the gate that figures can tell, held against a document of the benchmark. Pure; it knows neither Redis nor fleet.

The numbers are those of the gate's design: G1 trips, G2 cost inside Redis, G3 cost beside others, G4 after a refusal, G5 after
a window, G6 use of a quota. What has to be nought is judged by the worst run, everything else by the median.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import median
from typing import Any, Final

from bench.gate_policies import MAX_CONC
from bench.gate_scenarios import OURS
from bench.worker_report import HOLDS, MISSED, Better, Value

REACHED, NOT_REACHED, NOT_MEASURED = "reached", "not reached", "not measured"
TRIP_MS: Final = 10.0  # what one trip to Redis may take
WORSE: Final = 1.2  # a ratio that has grown so much is a fault
RATIOS: Final = ("acquire_by_limits", "acquire_by_pyrate", "acquire_and_observe_by_limits")

Report = Mapping[str, Any]
Take = Callable[[Report], Value]


@dataclass(frozen=True, slots=True)
class Goal:
    """One number and what it has to reach."""

    name: str
    says: str
    unit: str
    better: Better
    limit: float
    take: Take

    def judged(self, report: Report) -> dict[str, Any]:
        """The row of the document."""
        value = self.take(report)
        if value is None:
            verdict = NOT_MEASURED
        else:
            is_reached = value <= self.limit if self.better == "lower" else value >= self.limit
            verdict = REACHED if is_reached else NOT_REACHED
        return {
            "goal": self.name,
            "says": self.says,
            "unit": self.unit,
            "better": self.better,
            "limit": self.limit,
            "measured": None if value == inf else value,
            "verdict": verdict,
        }


def one(*path: str) -> Take:
    """A figure of one client."""

    def take(report: Report) -> Value:
        found: Any = report["one_client"]
        for name in path:
            found = None if found is None else found[name]
        return None if found is None else float(found)

    return take


def runs_of(report: Report, scenario: str, side: str = OURS) -> Sequence[Mapping[str, Any]]:
    """The runs of a side in a scenario; empty where it was not run."""
    found = (row["runs"] for row in report["fleet"] if (row["scenario"], row["side"]) == (scenario, side))
    return next(found, ())


def middle(scenario: str, figure: str) -> Take:
    """The median of a figure of ours over the runs; a run that does not tell it is left out."""

    def take(report: Report) -> Value:
        values = [run[figure] for run in runs_of(report, scenario) if run[figure] is not None]
        return median(values) if values else None

    return take


def worst(scenario: str, figure: str) -> Take:
    """The highest of a figure of ours over the runs; what did not happen counts 0."""

    def take(report: Report) -> Value:
        return max((float(run[figure] or 0) for run in runs_of(report, scenario)), default=None)

    return take


def unless_never(scenario: str, figure: str) -> Take:
    """The highest over the runs, endless where a run has none: it never came about."""

    def take(report: Report) -> Value:
        values = [run[figure] for run in runs_of(report, scenario)]
        return max((inf if value is None else value for value in values), default=None)

    return take


def late_start(report: Report) -> Value:
    """The 99th percentile, over the refused requests of all runs, of their start after the refusal was known; in flight: 0."""
    runs = runs_of(report, "refused")
    late = sorted(delay for run in runs for delay in run["starts_after_known_ms"])
    count = sum(run["recorded_refusals"] for run in runs)
    if not count:
        return None
    place = ceil(0.99 * count) - 1 - (count - len(late))
    return late[place] if place >= 0 else 0.0


def times_faster(than: str) -> Take:
    """How many times faster the check of a known window is."""

    def take(report: Report) -> Value:
        call, check = one(than)(report), one("checks", "check_p50_us")(report)
        return None if call is None or not check else round(call / check, 1)

    return take


GOALS: Final = (
    Goal("G1", "trips to Redis per request, one client", "", "lower", 2.0, one("trips_per_request")),
    Goal("G1", "acquires per grant while pace is the limit", "", "lower", 1.1, middle("paced", "acquires_per_grant")),
    Goal("G1", "acquires per grant while concurrency is", "", "lower", 1.5, middle("busy", "acquires_per_grant")),
    Goal("G1", "trips of checks of a known window", "1/s", "lower", 1.0, one("checks", "trips_per_second")),
    Goal("G2", "inside Redis, acquire", "µs", "lower", 40.0, one("acquire_redis_us")),
    Goal("G2", "inside Redis, observe", "µs", "lower", 30.0, one("observe_redis_us")),
    Goal("G2", "state of one key, every endpoint used", "B", "lower", 1024.0, one("memory", "every_endpoint_bytes")),
    Goal("G2", "state of each live lease", "B", "lower", 120.0, one("memory", "bytes_per_live")),
    Goal("G3", "acquire beside a sliding hit of limits", "times", "lower", 2.0, one("acquire_by_limits")),
    Goal("G3", "acquire beside one of PyrateLimiter", "times", "lower", 1.3, one("acquire_by_pyrate")),
    Goal("G3", "acquire and observe beside a sliding hit", "times", "lower", 4.0, one("acquire_and_observe_by_limits")),
    Goal("G3", "check beside a sliding hit, faster", "times", "higher", 50.0, times_faster("limits_sliding_p50_us")),
    Goal("G3", "check beside PyrateLimiter, faster", "times", "higher", 50.0, times_faster("pyrate_p50_us")),
    Goal("G4", "start in a scope after its refusal was recorded, p99", "ms", "lower", TRIP_MS, late_start),
    Goal("G4", "refusals of an episode", "", "lower", MAX_CONC, worst("refused", "most_refused_of_an_episode")),
    Goal("G5", "refusals in 30 s after a window, 200 waiters", "", "lower", 0.0, worst("herd", "refused_within_30s")),
    Goal("G5", "sent in its first 100 ms", "", "lower", max(1.0, MAX_CONC // 10), worst("herd", "sent_in_first_100ms")),
    Goal("G5", "full rate after", "s", "lower", 5.0, unless_never("herd", "full_rate_after")),
    Goal("G6", "share of a quota in windows", "%", "higher", 97.0, middle("quota", "share_percent")),
    Goal("G6", "share while a hidden consumer takes 20 %", "%", "higher", 95.0, middle("hidden", "share_percent")),
    Goal("G6", "share of a leaky quota", "%", "higher", 93.0, middle("leaky", "share_percent")),
    Goal("G6", "primary refusals of our own making, quota", "", "lower", 0.0, worst("quota", "refused_primary_own")),
    Goal("G6", "primary refusals of our own making, hidden", "", "lower", 0.0, worst("hidden", "refused_primary_own")),
    Goal("G6", "primary refusals of our own making, leaky", "", "lower", 0.0, worst("leaky", "refused_primary_own")),
)


def judged(report: Report) -> list[dict[str, Any]]:
    """Every goal; one whose measurement was not asked for says so."""
    return [goal.judged(report) for goal in GOALS]


def compared(report: Report, earlier: Report) -> list[dict[str, Any]]:
    """The ratios beside those of an earlier document: absolute times of two machines say nothing."""
    rows = []
    for name in RATIOS:
        now, before = one(name)(report), one(name)(earlier)
        if now is not None and before is not None:
            verdict = HOLDS if now <= WORSE * before else MISSED
            rows.append({"ratio": name, "now": now, "before": before, "verdict": verdict})
    return rows

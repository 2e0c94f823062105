"""The fleets as the chart sets them: read from its values file, so that what is simulated is what is deployed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, Final

import yaml

from bench import hpa_behavior
from bench.hpa_behavior import Behavior

VALUES: Final = Path(__file__).resolve().parents[1] / "helm" / "values.yaml"
SHARE: Final = 0.8  # of the slots: the work that one pod is there for where nothing else is said


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the chart says of a fleet."""

    slots: int  # of a pod
    least: int
    most: int
    work_per_pod: int
    ready_per_pod: int  # for a metric that sees queue length alone
    drain_seconds: float
    behavior: Behavior


@cache
def fleet(name: str) -> Fleet:
    """A fleet of the chart's values. Raises KeyError for one that is not there."""
    values = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    said = overlaid(values["fleetDefaults"], values["fleets"][name])
    scaling = said["autoscaling"]
    slots = int(said["concurrency"])
    return Fleet(
        slots=slots,
        least=int(scaling["min"]),
        most=int(scaling["max"]),
        work_per_pod=int(scaling["workPerPod"] or ceil(SHARE * slots)),
        ready_per_pod=int(scaling["readyPerPod"] or 2 * slots),
        drain_seconds=float(said["drainSeconds"]),
        behavior=hpa_behavior.parse(scaling["behavior"]),
    )


def overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid over `under` as the chart does it: maps are merged, anything else replaces."""
    laid = dict(under)
    for key, value in over.items():
        below = laid.get(key)
        laid[key] = overlaid(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return laid

"""How fast an autoscaler may move: the `behavior` of a HorizontalPodAutoscaler, read from the document that a chart renders.

What the fields mean: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#configurable-scaling-behavior
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

POLICY_TYPES: Final = ("Percent", "Pods")
SELECTIONS: Final = ("Max", "Min", "Disabled")
MOST_WINDOW_SECONDS: Final = 3600  # more is refused by the API server


@dataclass(frozen=True, slots=True)
class Policy:
    """How much may change within a period."""

    type: str  # Percent of the pods at the beginning of the period, or Pods
    value: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class Rules:
    """One direction: the most cautious recommendation of the window counts, and policies limit the step."""

    window_seconds: int
    policies: tuple[Policy, ...]
    select: str = "Max"  # of what the policies allow: the largest change, the smallest, or none


@dataclass(frozen=True, slots=True)
class Behavior:
    """Both directions."""

    up: Rules
    down: Rules


def parse(document: Mapping[str, Any]) -> Behavior:
    """The behaviour of a `behavior:` block; a direction or field left out has Kubernetes' own value. Raises ValueError."""
    if unknown := set(document) - {"scaleUp", "scaleDown"}:
        raise ValueError(f"behavior: {', '.join(sorted(unknown))} is unknown; there are scaleUp and scaleDown")
    return Behavior(
        up=_rules("scaleUp", document.get("scaleUp") or {}, KUBERNETES.up),
        down=_rules("scaleDown", document.get("scaleDown") or {}, KUBERNETES.down),
    )


def _rules(name: str, document: Mapping[str, Any], default: Rules) -> Rules:
    window = int(document.get("stabilizationWindowSeconds", default.window_seconds))
    if not 0 <= window <= MOST_WINDOW_SECONDS:
        raise ValueError(f"{name}.stabilizationWindowSeconds is {window}: it is 0 to {MOST_WINDOW_SECONDS}")
    select = str(document.get("selectPolicy", default.select))
    if select not in SELECTIONS:
        raise ValueError(f"{name}.selectPolicy is {select}: it is one of {', '.join(SELECTIONS)}")
    given = document.get("policies")
    return Rules(window, default.policies if given is None else tuple(_policy(name, item) for item in given), select)


def _policy(name: str, document: Mapping[str, Any]) -> Policy:
    policy = Policy(str(document["type"]), int(document["value"]), int(document["periodSeconds"]))
    if policy.type not in POLICY_TYPES or policy.value < 1 or policy.period_seconds < 1:
        raise ValueError(f"{name}: {policy}: the type is one of {', '.join(POLICY_TYPES)}, both numbers are above 0")
    return policy


KUBERNETES: Final = Behavior(  # what holds where a HorizontalPodAutoscaler says nothing
    up=Rules(0, (Policy("Percent", 100, 15), Policy("Pods", 4, 15))),
    down=Rules(300, (Policy("Percent", 100, 15),)),
)

"""The rows of the comparison: which signal, target and behaviour under which load. One load is the same for all of its rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from bench import hpa_chart, hpa_load
from bench.hpa_behavior import KUBERNETES, Behavior, Rules
from bench.hpa_controller import Target
from bench.hpa_load import HOUR, Arrival
from bench.hpa_simulation import Setup

MOST: Final = 12  # pods in the comparison, more than the chart's bound, so that the signals have room to differ
CLOSED: Final = (1.5 * HOUR, 2.5 * HOUR)  # when the gate is closed

LOADS: Final[Mapping[str, Callable[[int], list[Arrival]]]] = MappingProxyType({
    "standard": hpa_load.fan_outs,
    "sine": hpa_load.sine,
    "evening": hpa_load.office_day,
    "closed gate": lambda seed: hpa_load.fan_outs(seed, gated_share=1.0),
    "heavy": hpa_load.heavy,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    load: str  # of LOADS
    name: str
    setup: Setup
    is_chosen: bool = False  # what the chart does, but for the greatest number of pods


def rows() -> Sequence[Row]:
    """All of them, table by table."""
    return [*_standard(), *_sine(), *_evening(), *_closed(), *_heavy()]


def chosen(**changes: object) -> Setup:
    """The chart's fleet `worker` with the room of the comparison."""
    fleet = hpa_chart.fleet("worker")
    setup = Setup(
        signal="work", target=Target(fleet.work_per_pod), behavior=fleet.behavior, slots=fleet.slots, least=fleet.least,
        most=MOST, drain_seconds=fleet.drain_seconds,
    )  # fmt: skip
    return replace(setup, **changes)  # type: ignore[arg-type]


def window(seconds: int) -> Behavior:
    """The chart's behaviour with another window for the way down."""
    behavior = hpa_chart.fleet("worker").behavior
    return replace(behavior, down=replace(behavior.down, window_seconds=seconds))


def no_window() -> Behavior:
    """Kubernetes' own behaviour, each recommendation followed at once."""
    return Behavior(KUBERNETES.up, Rules(0, KUBERNETES.down.policies))


def fixed(pods: int) -> Setup:
    """No autoscaler."""
    return chosen(least=pods, most=pods)


def _standard() -> list[Row]:
    fleet = hpa_chart.fleet("worker")
    found = {
        "LLEN/10, no window": chosen(signal="LLEN", target=Target(10), behavior=no_window()),
        "LLEN/10, Kubernetes default": chosen(signal="LLEN", target=Target(10), behavior=KUBERNETES),
        f"LLEN/{fleet.ready_per_pod}, the chart's behaviour": chosen(signal="LLEN", target=Target(fleet.ready_per_pod)),
        "age as Value 30 s, Kubernetes default": chosen(signal="age", target=Target(30, "Value"), behavior=KUBERNETES),
        "work/16, window 120 s": chosen(behavior=window(120)),
        "work/16, window 300 s": chosen(behavior=window(300)),
        "work/16, window 600 s": chosen(),
        "work/30, window 600 s": chosen(target=Target(30)),
        f"work/16, window 600 s, at most {fleet.most} pods": chosen(most=fleet.most),
        "fixed at 4 pods": fixed(4),
        "fixed at 12 pods": fixed(12),
    }
    return [Row("standard", name, setup, setup == chosen()) for name, setup in found.items()]


def _sine() -> list[Row]:
    found = {
        "LLEN/10, Kubernetes default": chosen(signal="LLEN", target=Target(10), behavior=KUBERNETES),
        "work/16, window 600 s": chosen(),
    }
    return [Row("sine", name, setup, setup == chosen()) for name, setup in found.items()]


def _evening() -> list[Row]:
    return [
        Row("evening", "work/16, window 600 s", chosen(), is_chosen=True),
        Row("evening", "fixed at 12 pods", fixed(12)),
    ]


def _closed() -> list[Row]:
    return [
        Row("closed gate", "work/16 with what the gate holds", chosen(signal="work with held", closure=CLOSED)),
        Row("closed gate", "work/16 without it", chosen(closure=CLOSED), is_chosen=True),
    ]


def _heavy() -> list[Row]:
    fleet = hpa_chart.fleet("worker-heavy")
    ours = Setup(
        signal="work", target=Target(fleet.work_per_pod), behavior=fleet.behavior, slots=fleet.slots, least=fleet.least,
        most=fleet.most, drain_seconds=fleet.drain_seconds, hours=8.0,
    )  # fmt: skip
    two = replace(ours, slots=2, target=Target(2))
    naive = replace(two, signal="LLEN", behavior=KUBERNETES, drain_seconds=30.0)
    return [
        Row("heavy", "2 slots, LLEN/2, drain 30 s, Kubernetes default", naive),
        Row("heavy", "2 slots, work/2, drain 540 s", two),
        Row("heavy", "2 slots, work/2, drain 900 s", replace(two, drain_seconds=900.0)),
        Row("heavy", "4 slots, work/4, drain 540 s", ours, is_chosen=True),
    ]

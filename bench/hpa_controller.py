"""The arithmetic of the HorizontalPodAutoscaler controller, version 2: from a metric to a number of pods. Pure; time is given.

The page: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details. Not in the model: pods
without figures (an external metric has none) and a metric that cannot be read (then nothing changes).
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor
from typing import Final

from bench.hpa_behavior import Behavior, Policy, Rules

TOLERANCE: Final = 0.1  # of a target: closer than this is close enough
SYNC_SECONDS: Final = 15.0
SLACK: Final = 1e-9  # 10 % of 110 are 11, not 11.000000000000002


@dataclass(frozen=True, slots=True)
class Target:
    """What a metric shall be: `AverageValue` is for each pod, `Value` for the whole."""

    value: float
    type: str = "AverageValue"


def wanted(target: Target, metric: float, replicas: int) -> int:
    """The pods that a metric asks for, before windows, policies and bounds."""
    if target.type == "AverageValue":
        needed, ratio = metric / target.value, metric / (target.value * replicas)
    else:
        ratio = metric / target.value
        needed = ratio * replicas
    return replicas if abs(ratio - 1) <= TOLERANCE + SLACK else ceil(needed - SLACK)


@dataclass(slots=True)
class Controller:
    """One HorizontalPodAutoscaler over its life: what it recommended and what it changed."""

    least: int
    most: int
    target: Target
    behavior: Behavior
    recommended: deque[tuple[float, int]] = field(default_factory=deque)  # second, pods
    changed: deque[tuple[float, int]] = field(default_factory=deque)  # second, pods added (negative: removed)

    def sync(self, now: float, metric: float, replicas: int) -> int:
        """The pods from `now` on, given the metric and the pods until now. Called in the order of time."""
        if not self.recommended:
            self.recommended.append((now, replicas))  # so that a controller which begins does not scale down at once
        recommendation = wanted(self.target, metric, replicas)
        self.recommended.append((now, recommendation))
        chosen = self._bounded(now, self._stabilised(now, replicas), replicas)
        if chosen != replicas:
            self.changed.append((now, chosen - replicas))
        self._forget(now)
        return chosen

    def _stabilised(self, now: float, replicas: int) -> int:
        """Up to the least that was recommended in the window of `up`, down to the most in that of `down`, else no change."""
        latest = self.recommended[-1][1]
        up = min([latest, *self._within(now, self.behavior.up.window_seconds)])
        down = max([latest, *self._within(now, self.behavior.down.window_seconds)])
        return min(max(replicas, up), down)

    def _within(self, now: float, window_seconds: float) -> list[int]:
        return [pods for at, pods in self.recommended if at > now - window_seconds]

    def _bounded(self, now: float, pods: int, replicas: int) -> int:
        """`pods`, but no further away than the policies allow, and within the bounds of the fleet."""
        if pods > replicas:
            pods = min(pods, max(replicas, self._limit(now, replicas, self.behavior.up, sign=1)))
        elif pods < replicas:
            pods = max(pods, min(replicas, self._limit(now, replicas, self.behavior.down, sign=-1)))
        return min(max(pods, self.least), self.most)

    def _limit(self, now: float, replicas: int, rules: Rules, *, sign: int) -> int:
        if rules.select == "Disabled":
            return replicas
        allowed = [self._allowed(now, replicas, policy, sign) for policy in rules.policies]
        is_far = (rules.select == "Max") == (sign > 0)  # the largest change down is the smallest number of pods
        return max(allowed) if is_far else min(allowed)

    def _allowed(self, now: float, replicas: int, policy: Policy, sign: int) -> int:
        """The pods at the end of a policy's period, reckoned from those at its beginning; a broken pod is a whole one."""
        at_begin = replicas - sum(added for at, added in self.changed if at > now - policy.period_seconds)
        if policy.type == "Pods":
            return at_begin + sign * policy.value
        share = at_begin * (1 + sign * policy.value / 100)
        return ceil(share - SLACK) if sign > 0 else floor(share + SLACK)

    def _forget(self, now: float) -> None:
        rules = (self.behavior.up, self.behavior.down)
        window = max(item.window_seconds for item in rules)
        period = max((policy.period_seconds for item in rules for policy in item.policies), default=0)
        for kept, seconds in ((self.recommended, window), (self.changed, period)):
            while len(kept) > 1 and kept[0][0] <= now - seconds:
                kept.popleft()


def direction_flips(sizes: list[int]) -> int:
    """How often a series of pod counts turned: went up after it had gone down, or the other way."""
    steps = [after - before for before, after in pairwise(sizes) if after != before]
    return sum((before > 0) != (after > 0) for before, after in pairwise(steps))

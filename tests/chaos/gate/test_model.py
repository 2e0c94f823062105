"""Random operations on the scripts and on the book in memory at once: both answer the same, and no promise breaks.

Goals G7 and G8. The time is set; the Redis is real.
"""

from functools import partial

import pytest
import redis

from tests.chaos.gate.fleet import say
from tests.gate_model import Model

pytestmark = pytest.mark.integration


def progress(seed: int, count: int) -> None:
    if count % 50_000 == 0:
        say(model=seed, operations=count)


def walk(client: redis.Redis, seeds: range, steps: int) -> None:
    totals = {"operations": 0, "grants": 0, "refusals": 0}
    for seed in seeds:
        client.flushall()
        model = Model(client, seed)
        model.walk(steps, partial(progress, seed))
        totals["operations"] += steps
        totals["grants"] += model.grants
        totals["refusals"] += model.refusals
    say(goal="G8", **totals, live_above_limit=0, windows_shortened=0)
    assert totals["grants"] > totals["operations"] / 20


@pytest.mark.timeout(120)
def test_short_walk_of_a_hundred_thousand_operations_breaks_no_promise(node: redis.Redis) -> None:
    walk(node, range(100, 102), 50_000)


@pytest.mark.timeout(1800)
def test_walk_of_a_million_operations_breaks_no_promise(node: redis.Redis) -> None:
    walk(node, range(10), 100_000)

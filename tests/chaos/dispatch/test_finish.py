"""Runs of fifty batches under `kill -9`, most of it in the last batches: each run is finished once. Promise P7 of gate 1."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.chaos.dispatch import judge
from tests.chaos.dispatch.fleet import Fleet
from tests.chaos.dispatch.load import Load
from tests.seed import column

pytestmark = pytest.mark.integration
BATCHES = 50
KILLS = {
    "9-planning": 8,
    "9-finishing": 10,
    "9-computing": 6,
    "10-planned": 6,
    "11-claimed": 8,
    "11-page-open": 8,
    "11-page": 8,
    "11-closed": 12,
    "11-last": 24,
    "12-finishing": 14,
    "12-commit-sent": 12,
    "8-published": 4,
}
FREQUENT = ("11-claimed", "11-page-open", "11-page", "11-closed", "8-published")
PASSAGES = 30  # of a frequent point
SHARED_ORGS = 10  # each has one schedule over the same sources for
SHARED_JOBS = 5  # runs that meet one another
ALONE = 150
FAILED = 10  # runs all of whose sources are broken
FAILED_BATCHES = 5
EMPTY = 10  # runs without a batch
MOST_OPEN = 24  # runs at once, their metrics counted
ENDED = object()


def jobs_to_come(load: Load) -> Iterator[None]:
    """Adds one job at each step, the kinds mixed."""
    kinds = ["alone"] * ALONE + ["shared"] * SHARED_ORGS + ["failed"] * FAILED + ["empty"] * EMPTY
    load.chance.shuffle(kinds)
    for number, kind in enumerate(kinds):
        batches = {"failed": FAILED_BATCHES, "empty": 0}.get(kind, BATCHES)
        is_broken = kind == "failed"
        org_id, _ = load.organisation(f"{kind}-{number}", sources=batches, is_broken=is_broken)
        for _ in range(SHARED_JOBS if kind == "shared" else 1):
            load.job(org_id, [], batches=batches, is_broken=is_broken)
        yield


@pytest.mark.timeout(420)
def test_two_hundred_runs_of_fifty_batches_are_finished_once_each(load: Load, fleet: Fleet) -> None:
    chance = random.Random(7)
    kills = [name for name, times in KILLS.items() for _ in range(times)]
    chance.shuffle(kills)
    fleet.plan.extend((name, chance.randint(1, PASSAGES) if name in FREQUENT else 1) for name in kills)
    to_come = jobs_to_come(load)
    is_all_there = False

    def look() -> bool:
        nonlocal is_all_there
        if not is_all_there and judge.open_runs(load) < MOST_OPEN:
            is_all_there = next(to_come, ENDED) is ENDED
        return is_all_there and judge.is_settled(load)

    try:
        fleet.until(look, "every run is over", 400)
    except AssertionError as error:
        raise AssertionError(judge.story(load, fleet)) from error
    assert len(load.slots) == ALONE + SHARED_ORGS * SHARED_JOBS + FAILED + EMPTY
    assert Counter(kill.point.name for kill in fleet.kills) == KILLS
    judge.check_slots(load)
    judge.check_runs(load)
    judge.check_batches(load)
    doubled = judge.check_messages(fleet, load.postgres)
    judge.say(f"{len(fleet.kills)} kills, {len(load.slots)} runs finished once, {doubled} messages doubled")
    judge.say(f"most often lost: {column(load.postgres, 'SELECT max(attempt) FROM sync_batches')} times a batch")
    judge.say(judge.table(judge.recoveries(fleet, load.postgres)))

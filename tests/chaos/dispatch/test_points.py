"""`kill -9` at each point of the crash table: no slot lost, none doubled, few duplicate messages, each over in its time.

Promises P1, P2, P5 and P6 of gate 1. The processes are real and so are the stores; times are shortened.
"""

import random
import time
from collections import Counter
from math import ceil

import pytest

from tests.chaos.dispatch import judge, points
from tests.chaos.dispatch.fleet import Fleet
from tests.chaos.dispatch.load import Load
from tests.processes import wait_for

pytestmark = pytest.mark.integration
SHORT_PLAN = dict.fromkeys(points.POINTS, 1) | {
    "2-locked": 3,
    "8-published": 3,
    "11-page": 3,
    "12-finishing": 2,
    "14-flushall": 2,
}
AT_EACH = 20  # kills at each row of the crash table, over all the moments that it names
MOMENTS = Counter(point.number for point in points.POINTS.values())
LONG_PLAN = {name: ceil(AT_EACH / MOMENTS[point.number]) for name, point in points.POINTS.items()}
STANDS_STILL_SECONDS = 60
ORGS = 12
SOURCES = 60  # so that few runs meet at one source: who does waits 15 s for the other
MOST_OPEN = 50  # runs that wait or run, their metrics counted, while processes are killed
PASSAGES = 4  # of a point that comes often: a process is killed at one of the first; at a tick's points at the first


def go_through(load: Load, fleet: Fleet, plan: dict[str, int], first_jobs: int, seconds: float) -> None:
    orgs = [load.organisation(f"org-{number}", sources=SOURCES) for number in range(ORGS)]
    chance = random.Random(len(plan) + first_jobs)
    kills = [name for name, times in plan.items() for _ in range(times)]
    chance.shuffle(kills)
    fleet.plan.extend((name, chance.randint(1, PASSAGES) if points.POINTS[name].number > 6 else 1) for name in kills)
    load.some(orgs, first_jobs)

    next_one = 0.0

    def look() -> bool:
        nonlocal next_one
        if not fleet.is_done and judge.open_runs(load) < MOST_OPEN:
            load.some(orgs, 5)
        elif not fleet.is_done and time.monotonic() > next_one:  # who is to die in a tick needs something due
            next_one = time.monotonic() + 1
            load.some(orgs, 1)
        return fleet.is_done and judge.is_settled(load)

    try:
        fleet.until(look, "everything was killed and everything is done", seconds)
    except AssertionError as error:
        raise AssertionError(judge.story(load, fleet)) from error
    assert Counter(kill.point.name for kill in fleet.kills) == plan
    assert set(fleet.killed) == set(points.NUMBERS)
    judge.check_slots(load)
    judge.check_runs(load)
    judge.check_batches(load)
    judge.check_commits(fleet, load)
    doubled = judge.check_messages(fleet, load.postgres)
    found = judge.recoveries(fleet, load.postgres)
    judge.say(f"{len(fleet.kills)} kills, {len(load.slots)} slots, {doubled} messages doubled")
    judge.say(judge.table(found))


@pytest.mark.timeout(150)
def test_short_kills_at_every_point_lose_and_double_nothing(load: Load, fleet: Fleet) -> None:
    go_through(load, fleet, SHORT_PLAN, first_jobs=60, seconds=120)


@pytest.mark.timeout(820)
def test_two_hundred_kills_over_a_thousand_due_jobs_lose_and_double_nothing(load: Load, fleet: Fleet) -> None:
    go_through(load, fleet, LONG_PLAN, first_jobs=1000, seconds=800)
    assert min(fleet.killed.values()) >= AT_EACH


@pytest.mark.timeout(120)
def test_dispatcher_that_stood_still_over_its_commit_mints_nothing_a_second_time(load: Load, fleet: Fleet) -> None:
    org = load.organisation("org", sources=SOURCES)
    load.some([org], 10)
    fleet.size = 1
    name = fleet.bear("4-written", 1, is_stopped=True)

    fleet.until(lambda: fleet.orders_of(name).mark.exists(), "it has written and stands still", 20)
    stands_until = time.monotonic() + STANDS_STILL_SECONDS
    fleet.size = 2

    ended = "the session of the one that stands still was ended, and others are done"
    fleet.until(lambda: judge.is_settled(load), ended, STANDS_STILL_SECONDS)
    wait_for(lambda: time.monotonic() > stands_until, "a minute is over", STANDS_STILL_SECONDS)
    fleet.wake(name)
    faults = fleet.orders_of(name).faults
    wait_for(lambda: faults.exists() and "away dispatch" in faults.read_text(), "its commit was refused", 20)
    judge.check_slots(load)
    judge.check_runs(load)

"""`kill -9` at each point of the crash table: no slot lost, none doubled, few duplicate messages, each over in its time.

Promises P1, P2, P5 and P6 of gate 1. The processes are real and so are the stores; times are shortened.
"""

import random
import time
from collections import Counter

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
LONG_PLAN = dict.fromkeys(points.POINTS, 10) | {"14-flushall": 12}
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
        fleet.step()
        if not fleet.is_done and judge.open_runs(load) < MOST_OPEN:
            load.some(orgs, 5)
        elif not fleet.is_done and time.monotonic() > next_one:  # who is to die in a tick needs something due
            next_one = time.monotonic() + 1
            load.some(orgs, 1)
        return fleet.is_done and judge.is_settled(load)

    try:
        wait_for(look, "everything was killed and everything is done", seconds)
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


@pytest.mark.timeout(420)
def test_two_hundred_kills_over_a_thousand_due_jobs_lose_and_double_nothing(load: Load, fleet: Fleet) -> None:
    go_through(load, fleet, LONG_PLAN, first_jobs=1000, seconds=400)


@pytest.mark.timeout(90)
def test_dispatcher_that_stood_still_over_its_commit_mints_nothing_a_second_time(load: Load, fleet: Fleet) -> None:
    org = load.organisation("org", sources=SOURCES)
    load.some([org], 10)
    fleet.size = 1
    name = fleet.bear("4-written", 1, is_stopped=True)

    def is_stopped() -> bool:
        fleet.step()
        return fleet.orders_of(name).mark.exists()

    wait_for(is_stopped, "it has written and stands still", 20)
    fleet.size = 2

    def others_are_done() -> bool:
        fleet.step()
        return judge.is_settled(load)

    wait_for(others_are_done, "the session of the one that stands still was ended, and others are done", 60)
    fleet.wake(name)
    faults = fleet.orders_of(name).faults
    wait_for(lambda: faults.exists() and "away dispatch" in faults.read_text(), "its commit was refused", 20)
    judge.check_slots(load)
    judge.check_runs(load)

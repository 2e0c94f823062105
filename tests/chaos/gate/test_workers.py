"""Workers are killed and stopped while they hold permits, and clocks go wrong: goals G1, G4, G5, G7 and G8."""

import signal
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.chaos.gate.clock import CLOCK_STEP
from tests.chaos.gate.fleet import MAX_CONC, PROCESSES, Fleet, Seen, rest, running, say
from tests.chaos.gate.member import KEY
from worker_app.embedded.valkey import EmbeddedValkey
from worker_app.gate.redis_book import leases_key

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
SETTLE = 4.0
DEADLINE, SLACK = 0.5, 5.0
LEASE = DEADLINE + SLACK
LATE_SECONDS = 0.1
Nodes = tuple[EmbeddedValkey, ...]


def late_starts(seen: Seen, ends_at: float) -> list[float]:
    """How long after the first refusal was recorded each later request of its window was sent."""
    first = min(seen.recorded())
    return sorted(item.sent_at - first for item in seen.arrivals if first + LATE_SECONDS < item.sent_at < ends_at)


def refused(seen: Seen) -> int:
    return sum(item.is_refused for item in seen.arrivals)


def shares(seen: Seen, since: float, until: float) -> dict[int, int]:
    """Requests of each worker."""
    found = seen.between(since, until)
    return {number: sum(item.member == number for item in found) for number in range(PROCESSES)}


def test_saturated_fleet_asks_little_more_than_it_is_granted(folder: Path, node: redis.Redis, nodes: Nodes) -> None:
    with running(folder, nodes[0].url) as fleet:
        began = fleet.begin()
        rest(10.0)
        seen = fleet.end()
    asked, granted = seen.asked(), seen.total("granted")
    trips = sum(sum(report["trips"].values()) for report in seen.reports.values())
    each = shares(seen, began + 2.0, began + 10.0)
    say(
        goal="G1",
        acquires_per_grant=round(asked / granted, 3),
        trips_per_request=round(trips / granted, 3),
        granted=granted,
        most_under_way=seen.most_under_way(began, began + 10.0),
        by_worker=each,
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert asked / granted <= 1.5
    assert seen.most_under_way(began, began + 10.0) <= MAX_CONC
    assert min(each.values()) >= 0.2 * max(each.values())  # nobody starves; who gets how much is left to chance


def test_after_a_refusal_nobody_starts(folder: Path, node: redis.Redis, nodes: Nodes) -> None:
    with running(folder, nodes[0].url) as fleet:
        fleet.begin()
        rest(SETTLE)
        blocked = fleet.block(4.0)
        rest(12.0)
        seen = fleet.end()
    late = late_starts(seen, blocked + 4.0)
    say(
        goal="G4",
        later_than_100_ms=len(late),
        refused_of_the_episode=refused(seen),
        under_way=MAX_CONC,
        leaks=seen.total("leaks"),
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert late == []
    assert 1 <= refused(seen) <= MAX_CONC


def test_two_hundred_waiters_are_let_out_by_and_by(folder: Path, node: redis.Redis, nodes: Nodes) -> None:
    with running(folder, nodes[0].url, greenlets=50) as fleet:
        blocked = fleet.block(4.0)
        fleet.begin()
        rest(4.0 + 34.0)
        seen = fleet.end()
    over = [item for item in seen.arrivals if item.came_at > blocked + 4.0]
    first = over[0].came_at
    steady = seen.rate(first + 10.0, first + 30.0)
    full = next(
        (at / 10 for at in range(5, 100) if seen.rate(first + at / 10 - 0.5, first + at / 10) >= 0.9 * steady), None
    )
    begun = sum(item.came_at < first + 0.1 for item in over)
    say(
        goal="G5",
        waiters=PROCESSES * 50,
        refused_again=sum(item.is_refused for item in over),
        in_the_first_100_ms=begun,
        full_rate_after=full,
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert not [item for item in over if item.is_refused]
    assert begun <= max(1, MAX_CONC // 10)
    assert full is not None
    assert full <= 5.0


def live(node: redis.Redis) -> int:
    return int(node.zcard(leases_key(KEY)))


def test_killed_worker_gives_its_places_back_with_the_end_of_its_leases(
    folder: Path, node: redis.Redis, nodes: Nodes
) -> None:
    with running(folder, nodes[0].url, deadline=DEADLINE) as fleet:
        fleet.begin()
        rest(SETTLE)
        killed = fleet.signal(1, signal.SIGKILL)
        rest(LEASE + 4.0)
        seen = fleet.end()
    before, meanwhile, after = (
        seen.rate(*at)
        for at in ((killed - 2, killed), (killed + 0.5, killed + LEASE), (killed + LEASE + 0.5, killed + LEASE + 3.5))
    )
    most = seen.most_under_way(killed - 2, killed + LEASE + 3.5)
    say(
        goal="G8",
        fault="SIGKILL",
        rate_before=round(before, 1),
        rate_meanwhile=round(meanwhile, 1),
        rate_after_the_lease=round(after, 1),
        most_under_way=most,
        live_at_the_end=live(node),
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert after >= 0.9 * before
    assert most <= MAX_CONC
    assert live(node) == 0


def test_worker_that_stood_still_for_longer_than_its_leases_lifts_no_limit(
    folder: Path, node: redis.Redis, nodes: Nodes
) -> None:
    with running(folder, nodes[0].url, deadline=DEADLINE) as fleet:
        fleet.begin()
        rest(SETTLE)
        stopped = fleet.signal(1, signal.SIGSTOP)
        rest(LEASE + 2.0)
        woken = fleet.signal(1, signal.SIGCONT)
        rest(5.0)
        seen = fleet.end()
    most, after = seen.most_under_way(woken, woken + 5.0), shares(seen, woken + 1.0, woken + 5.0)
    say(
        goal="G8",
        fault="SIGSTOP",
        most_under_way=most,
        bound=MAX_CONC,
        leases_lost=seen.total("lost"),
        rate_before=round(seen.rate(stopped - 2.0, stopped), 1),
        rate_after=round(seen.rate(woken + 1.0, woken + 5.0), 1),
        by_worker_after=after,
        live_at_the_end=live(node),
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert most <= MAX_CONC + 1
    assert after[1] > 0
    assert live(node) == 0


def test_clocks_of_workers_that_go_wrong_by_ten_minutes_change_nothing(
    folder: Path, node: redis.Redis, nodes: Nodes
) -> None:
    figures: list[dict[str, Any]] = []
    for number, skews in enumerate([(0.0,) * 4, (-600.0, 0.0, 600.0, 600.0)]):
        node.flushall()
        place = folder / str(number)
        place.mkdir()
        with running(place, nodes[0].url, skews=skews) as fleet:
            began = fleet.begin()
            rest(SETTLE)
            blocked = fleet.block(3.0)
            rest(10.0)
            seen = fleet.end()
        assert seen.faults() == []
        figures.append(
            {
                "skews": skews,
                "late": len(late_starts(seen, blocked + 3.0)),
                "refused": refused(seen),
                "most_under_way": seen.most_under_way(began, began + 13.0),
                "first_after": round(
                    min(item.came_at for item in seen.arrivals if item.came_at > blocked + 1.0) - blocked, 1
                ),
                "rate_after": round(seen.rate(blocked + 8.5, blocked + 10.0), 1),
                "steps": seen.total("steps"),
            }
        )
    say(goal="G7", fault="worker clocks", runs=figures)
    for found in figures:
        assert (found["late"], found["steps"]) == (0, 0)
        assert found["refused"] <= MAX_CONC
        assert found["most_under_way"] <= MAX_CONC
        assert 4.0 <= found["first_after"] <= 5.0


@pytest.mark.parametrize("step", [600.0, -600.0])
def test_clock_of_redis_that_is_set_by_ten_minutes_in_a_window(
    folder: Path, node: redis.Redis, nodes: Nodes, step: float
) -> None:
    with running(folder, nodes[0].url, steps=True) as fleet:
        fleet.begin()
        rest(SETTLE)
        blocked = fleet.block(4.0)
        rest(1.5)
        node.set(CLOCK_STEP, int(step * 1000))
        rest(13.0)
        seen = fleet.end()
    early = [item for item in seen.arrivals if blocked + 1.5 < item.sent_at < blocked + 5.0 - 1.0]
    first = min(item.came_at for item in seen.arrivals if item.came_at > blocked + 4.0)
    say(
        goal="G7",
        fault="clock of Redis",
        step_seconds=step,
        early=len(early),
        waited=round(first - blocked, 2),
        true_wait=5.0,
        most_under_way=seen.most_under_way(blocked, blocked + 14.0),
        rate_after=round(seen.rate(blocked + 11.0, blocked + 14.0), 1),
        steps=seen.total("steps"),
        leases_lost=seen.total("lost"),
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert early == []
    assert first - blocked <= 5.0 + 5.0
    assert seen.total("steps") > 0


def test_fleet_ends_with_nothing_under_way(folder: Path, node: redis.Redis, nodes: Nodes) -> None:
    def work(fleet: Fleet) -> Seen:
        fleet.begin()
        rest(SETTLE)
        return fleet.end()

    with running(folder, nodes[0].url) as fleet:
        seen = work(fleet)
    assert seen.faults() == []
    assert live(node) == 0

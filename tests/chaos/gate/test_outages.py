"""Redis is refused, silent, slow, emptied, or another node: a fleet of four workers goes on within its limits (goal G9).

The provider bears twice what the gate lets pass, so that too much is counted and not punished.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.chaos.gate.fleet import MAX_CONC, PROCESSES, Fleet, Seen, rest, running, say
from tests.redis_proxy import RedisProxy
from worker_app.embedded.valkey import EmbeddedValkey

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
MOST_UNDER_WAY = max(PROCESSES, int(1.25 * MAX_CONC))
BACK_SECONDS = 5.0  # after its return everything is as before
NORMAL = 0.85  # of the rate before
SETTLE = 4.0  # until the fleet is at its full rate
AWAY = 7.0


def go_away_and_come_back(folder: Path, proxy: RedisProxy, fault: Callable[[], None], name: str) -> None:
    with running(folder, proxy.url) as fleet:
        began = fleet.begin()
        rest(SETTLE)
        fault()
        rest(AWAY)
        proxy.heal()
        back = began + SETTLE + AWAY
        rest(BACK_SECONDS + 4.0)
        seen = fleet.end()
    away, normal = back - AWAY, back + BACK_SECONDS
    before, during, after = (seen.rate(*at) for at in ((began + 2, away), (away + 2, back), (normal, normal + 3.5)))
    most = seen.most_under_way(away, normal + 3.5)
    returned = max(
        (at for report in seen.reports.values() for at, is_over in report["outages"] if is_over), default=0.0
    )
    say(
        goal="G9",
        fault=name,
        most_under_way=most,
        bound=MOST_UNDER_WAY,
        rate_before=round(before, 1),
        rate_during=round(during, 1),
        rate_after=round(after, 1),
        last_worker_back_after=round(returned - back, 2),
        leases_lost=seen.total("lost"),
        refused=sum(item.is_refused for item in seen.arrivals),
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert all(report["outages"] for report in seen.reports.values())
    assert most <= MOST_UNDER_WAY
    assert 0.5 * before <= during <= 1.1 * before
    assert returned - back <= BACK_SECONDS
    assert after >= NORMAL * before


def test_redis_that_is_refused(folder: Path, proxy: RedisProxy) -> None:
    go_away_and_come_back(folder, proxy, proxy.refuse, "refused")


def test_redis_that_is_silent(folder: Path, proxy: RedisProxy) -> None:
    go_away_and_come_back(folder, proxy, proxy.silence, "black hole")


def test_redis_that_is_slower_than_it_is_waited_for(folder: Path, proxy: RedisProxy) -> None:
    go_away_and_come_back(folder, proxy, lambda: proxy.delay(0.2), "slow 200 ms")


def lose_in_a_window(folder: Path, url: str, lose: Callable[[], object], name: str) -> None:
    """A block of five seconds begins, and a second later what Redis knows is lost: at most one request a process leaks."""
    with running(folder, url) as fleet:
        fleet.begin()
        rest(SETTLE)
        blocked = fleet.block(5.0)
        rest(1.0)
        lose()
        rest(10.0)
        seen = fleet.end()
    first = min(seen.recorded())
    late = [item for item in seen.arrivals if first + 0.1 < item.sent_at < blocked + 5.0]
    refused = [item for item in seen.arrivals if item.is_refused and item.came_at < first + 0.1]
    again = seen.rate(blocked + 12.0, blocked + 15.0) if blocked + 15.0 < seen.arrivals[-1].came_at else None
    leaked = {number: sum(item.member == number for item in late) for number in range(PROCESSES)}
    say(
        goal="G9",
        fault=name,
        leaked_by_process=leaked,
        refused_of_the_episode=len(refused),
        under_way=MAX_CONC,
        leases_lost=seen.total("lost"),
        rate_again=again,
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert max(leaked.values()) <= 1
    assert len(refused) <= MAX_CONC


def test_short_redis_that_is_emptied_in_a_window(
    folder: Path, node: redis.Redis, nodes: tuple[EmbeddedValkey, ...]
) -> None:
    lose_in_a_window(folder, nodes[0].url, node.flushall, "FLUSHALL")


def test_failover_to_an_empty_node_in_a_window(
    folder: Path, proxy: RedisProxy, nodes: tuple[EmbeddedValkey, ...]
) -> None:
    lose_in_a_window(folder, proxy.url, lambda: proxy.lead_to(nodes[1].url), "empty node")


def disturb(folder: Path, url: str, fault: Callable[[], object], name: str) -> tuple[Seen, float]:
    """The fleet is at its full rate when something happens that is no outage."""

    def work(fleet: Fleet) -> tuple[Seen, float]:
        began = fleet.begin()
        rest(SETTLE)
        fault()
        rest(4.0)
        return fleet.end(), began + SETTLE

    with running(folder, url) as fleet:
        seen, at = work(fleet)
    before, after = seen.rate(at - 2.0, at), seen.rate(at + 1.0, at + 4.0)
    most = seen.most_under_way(at - 2.0, at + 4.0)
    say(
        goal="G9",
        fault=name,
        most_under_way=most,
        bound=MOST_UNDER_WAY,
        rate_before=round(before, 1),
        rate_after=round(after, 1),
        leases_lost=seen.total("lost"),
        acquires_per_grant=round(seen.asked() / seen.total("granted"), 2),
        faults=seen.faults(),
    )
    assert seen.faults() == []
    assert after >= NORMAL * before
    return seen, at


def test_flushed_scripts_cost_nothing(folder: Path, node: redis.Redis, nodes: tuple[EmbeddedValkey, ...]) -> None:
    seen, at = disturb(folder, nodes[0].url, node.script_flush, "SCRIPT FLUSH")
    assert seen.most_under_way(at - 4.0, at + 4.0) <= MAX_CONC
    assert (seen.total("lost"), sum(len(report["outages"]) for report in seen.reports.values())) == (0, 0)


def test_redis_that_is_emptied_under_load(folder: Path, node: redis.Redis, nodes: tuple[EmbeddedValkey, ...]) -> None:
    seen, at = disturb(folder, nodes[0].url, node.flushall, "FLUSHALL under load")
    assert seen.most_under_way(at, at + 4.0) <= MOST_UNDER_WAY

import os

import pytest

from tests.unit.gate.asks import KEY, ask_of
from tests.unit.gate.clocks import Clock
from worker_app.gate.key import GateKey
from worker_app.gate.leases import Leases


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    return Leases(clock)


def take(leases: Leases, *, is_shared: bool = True, seconds: float = 65.0) -> str:
    name = leases.name(ask_of(1).buckets)
    leases.add(KEY, name, seconds, is_shared=is_shared)
    return name


def test_names_of_leases_tell_their_costs_and_differ(leases: Leases) -> None:
    names = {leases.name(ask_of(1).buckets) for _ in range(100)}
    assert len(names) == 100
    assert {name.partition("|")[2] for name in names} == {"core:1"}


def test_live_leases_are_told_with_the_time_that_they_may_last(leases: Leases, clock: Clock) -> None:
    lease = take(leases)
    clock.now += 5.0
    assert leases.live(KEY) == {lease: 60_000}
    assert leases.live(GateKey("github", "beta", "github.com")) == {}
    assert leases.keys() == {KEY}
    clock.now += 60.0
    assert leases.live(KEY) == {}


def test_lease_that_redis_granted_or_was_told_of_may_be_counted_there(leases: Leases) -> None:
    shared, local, told = take(leases), take(leases, is_shared=False), take(leases, is_shared=False)
    assert [leases.remove(KEY, lease) for lease in (shared, local, local)] == [True, False, False]
    assert list(leases.share(KEY)) == [told]
    assert leases.remove(KEY, told)
    assert (leases.keys(), leases._live, leases._born) == (set(), {}, {})


def test_redis_that_counts_anew_has_lost_the_leases_of_this_process(leases: Leases) -> None:
    assert not leases.heard(KEY, 1)  # there is none
    lease = take(leases)
    assert [leases.heard(KEY, born) for born in (1, 1, 2, 2)] == [False, False, True, False]
    leases.remove(KEY, lease)
    assert not leases.heard(KEY, 3)


def test_owed_leases_are_kept_until_they_are_settled_or_have_run_out(leases: Leases, clock: Clock) -> None:
    assert not leases.is_owing
    leases.owe(KEY, "p.1|core:1", 65.0)
    leases.owe(KEY, "p.2|core:1", 10.0)
    clock.now += 11.0
    assert leases.owed() == [(KEY, "p.1|core:1")]
    leases.settle("p.1|core:1")
    assert not leases.is_owing


def test_forked_child_neither_holds_nor_owes_what_its_parent_does(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = take(leases)
    leases.owe(KEY, "p.1|core:1", 65.0)
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert (leases.live(KEY), leases.keys(), leases.owed()) == ({}, set(), [])
    assert not leases.remove(KEY, mine)
    assert leases.name(ask_of(1).buckets).partition(".")[0] != mine.partition(".")[0]

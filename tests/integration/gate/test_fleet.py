"""Scenarios of a fleet: several gates, as so many processes would have them, and real processes where one has to die."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.integration.gate.conftest import KEY, UNPACED
from tests.integration.gate.member import FEW
from tests.integration.gate.provider import Provider
from tests.processes import wait_for
from worker_app import errors
from worker_app.gate.gate import Gate
from worker_app.gate.key import Priority
from worker_app.gate.policy import ProviderPolicy
from worker_app.gate.redis_book import leases_key
from worker_app.gate.signals import Kind, Quota, RateSignal

pytestmark = pytest.mark.integration
OK = RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 4900, 3000.0),))
LEASE_SECONDS = FEW["github"].request_deadline + 5.0

GateOf = Callable[..., Gate]


def with_most(max_conc: int) -> dict[str, ProviderPolicy]:
    return {"github": replace(UNPACED["github"], max_conc=max_conc)}


def send_until(gate: Gate, provider: Provider, until: float, priority: Priority = Priority.SYNC) -> int:
    """One slot of a worker that sends as fast as it may; a deferral is waited for. Returns how many succeeded."""
    done = 0
    while (left := until - time.monotonic()) > 0:
        try:
            with gate.slot(KEY, "repos.get", priority=priority, max_wait=min(5.0, left)) as permit:
                signal = provider.send()
                permit.observe(signal)
                done += signal.kind is Kind.OK
        except errors.RateLimited as limited:
            threading.Event().wait(min(left, limited.retry_in))
    return done


def send(gates: list[Gate], slots: int, provider: Provider, seconds: float) -> int:
    """All slots of all workers send for so long."""
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(len(gates) * slots) as threads:
        each = [threads.submit(send_until, gate, provider, until) for gate in gates for _ in range(slots)]
        return sum(done.result(30) for done in each)


def test_s01_fleet_that_waits_for_the_end_of_a_block_is_let_out_by_and_by_and_is_not_refused_again(
    gate_of: GateOf,
) -> None:
    provider = Provider(most=8)
    gates = [gate_of(policies=with_most(8)) for _ in range(4)]
    provider.block(1.0)
    done = send(gates, 10, provider, 7.0)
    first = provider.refusals[0]
    assert [at for at in provider.refusals if at > first + 0.1] == []
    begun = [at for at in provider.arrivals if at > first + 0.1]
    assert begun[0] - first >= 2.0  # a second that was stated, and the guard
    assert len([at for at in begun if at < begun[0] + 0.1]) == 1
    assert done > 100
    assert provider.most_seen <= 8


def test_s06_fleet_that_uses_up_its_quota_is_not_refused_at_the_reset_either(gate_of: GateOf) -> None:
    provider = Provider(limit=30, period=2.0, late_seconds=0.4)
    gates = [gate_of(policies=with_most(6)) for _ in range(3)]
    done = send(gates, 4, provider, 5.5)
    assert provider.refusals == []
    assert done >= 58  # two windows of thirty, to the last request


@contextmanager
def member(checkout: Path, **given: object) -> Iterator[tuple["subprocess.Popen[str]", Any]]:
    """A process of the fleet, and what it printed."""
    command = [sys.executable, "-m", "tests.integration.gate.member", json.dumps(given)]
    environment = {"PATH": os.defpath}
    with subprocess.Popen(
        command, cwd=checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def test_s21_clocks_that_go_wrong_by_ten_minutes_change_nothing(
    checkout: Path, redis_url: str, redis_client: redis.Redis
) -> None:
    with member(checkout, url=redis_url, skew_seconds=-600.0, does="back off", seconds=58.0) as (_, left):
        assert 57.0 < left <= 58.0
    for skew in (-600.0, 0.0, 600.0):
        with member(checkout, url=redis_url, skew_seconds=skew, does="check") as (_, left):
            assert 40.0 < left <= 58.0
    redis_client.flushall()
    with member(checkout, url=redis_url, skew_seconds=600.0, does="hold") as (_, held):
        seconds, _ = redis_client.time()
        ends = [redis_client.zscore(leases_key(KEY), lease) for lease in held]
        assert all(isinstance(end, float) and end / 1000 - seconds <= LEASE_SECONDS + 1 for end in ends)


def test_s27_killed_holder_gives_its_places_back_with_the_end_of_its_leases(
    checkout: Path, redis_url: str, gate_of: GateOf
) -> None:
    gate = gate_of(policies=FEW)
    with member(checkout, url=redis_url, does="hold") as (process, held):
        assert len(held) == 3
        with pytest.raises(errors.RateLimited):
            gate.permit(KEY, "repos.get", max_wait=0.0)
        began = time.monotonic()
        process.send_signal(signal.SIGKILL)
        process.wait(10)

    def take() -> bool:
        try:
            gate.permit(KEY, "repos.get", max_wait=2.0)
        except errors.RateLimited:
            return False
        return True

    wait_for(take, "the place of one who died is free", 20)
    assert time.monotonic() - began <= LEASE_SECONDS + 2.0
    assert all(take() for _ in range(2))
    assert not take()


def test_s38_what_others_take_of_the_quota_is_seen_in_the_headers_and_a_reserve_is_kept(gate_of: GateOf) -> None:
    one, other = gate_of(), gate_of()
    one.permit(KEY, "repos.get").observe(OK)
    permit = one.permit(KEY, "repos.get")
    permit.observe(RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 240, 3599.0),)))  # others took 4,659
    with pytest.raises(errors.RateLimited) as told:
        other.permit(KEY, "repos.get")
    assert told.value.reason == "quota"
    other.permit(KEY, "repos.get", priority=Priority.INTERACTIVE).end()


def test_s45_success_of_a_process_opens_no_window_that_another_closed(gate_of: GateOf) -> None:
    one, other, third = gate_of(), gate_of(), gate_of()
    one.permit(KEY, "repos.get").observe(OK)
    under_way = other.permit(KEY, "repos.get")
    one.permit(KEY, "repos.get").observe(RateSignal(Kind.SECONDARY, bucket="*", after=58.0))
    assert under_way.observe(OK).allowed
    for gate in (one, other, third):
        assert 57.0 < gate.check(KEY).retry_in <= 59.0
        with pytest.raises(errors.RateLimited):
            gate.permit(KEY, "repos.get")


def test_fleet_that_wants_more_than_there_is_never_has_more_under_way(gate_of: GateOf) -> None:
    provider = Provider(most=6, latency=0.01)
    gates = [gate_of(policies=with_most(6)) for _ in range(4)]
    done = send(gates, 8, provider, 3.0)
    assert provider.refusals == []
    assert provider.most_seen <= 6
    assert done > 300


def test_forked_child_sends_for_itself_and_gives_nothing_of_its_parent_back(
    checkout: Path, redis_url: str, redis_client: redis.Redis
) -> None:
    with member(checkout, url=redis_url, does="fork") as (_, told):
        assert told["held_by_child"] == []
        assert told["is_held"]
        assert told["child"].partition(".")[0] != told["parent"].partition(".")[0]
        assert redis_client.zrange(leases_key(KEY), 0, -1) == [told["parent"].encode()]

"""Redis refuses, is silent, slow, cut off in the middle, empty or read-only: what the gate does meanwhile, and afterwards."""

import threading
import time
from collections.abc import Callable

import pytest
import redis

from tests.integration.gate.conftest import KEY, UNPACED, Heard
from tests.processes import wait_for
from tests.redis_proxy import Fault, RedisProxy
from worker_app import errors
from worker_app.embedded.valkey import EmbeddedValkey
from worker_app.gate import gate as gate_module
from worker_app.gate.gate import Gate
from worker_app.gate.key import Priority, Reason
from worker_app.gate.permits import Permit
from worker_app.gate.redis_book import leases_key
from worker_app.gate.signals import Kind, Quota, RateSignal

pytestmark = pytest.mark.integration
OK = RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 4000, 3000.0),))
SECONDARY = RateSignal(Kind.SECONDARY, bucket="*", after=58.0, detail="slow down")
PROMISED = gate_module.REDIS_TIMEOUT_SECONDS  # for what is expected to be silent
FIRST_CHECK_SECONDS = 0.5  # promised are 0.2; a busy machine is granted the rest
SHARE = 5  # of GitHub's 20 at four workers

GateOf = Callable[..., Gate]


def warm(gate: Gate) -> None:
    """The process knows what is left."""
    gate.permit(KEY, "repos.get").observe(OK)


def pause_for_long(gate: Gate) -> None:
    """After a failure it does not look again before the longest pause is over."""
    gate._knowledge.outage._breaker._draw = lambda: 1.0


def look_at_once(gate: Gate) -> None:
    """After a failure the next caller looks again."""
    gate._knowledge.outage._breaker._draw = lambda: 0.0


def come_back(gate: Gate, heard: Heard) -> None:
    """Somebody asks until Redis is found to be back."""

    def is_back() -> bool:
        gate.check(KEY)
        return heard.outages[-1:] == [True]

    wait_for(is_back, "the gate found Redis again", 10)


def take(gate: Gate, **how: object) -> Permit:
    return gate.permit(KEY, "repos.get", max_wait=0.0, **how)  # type: ignore[arg-type]


def take_all(gate: Gate) -> list[Permit]:
    """As many permits as one process gets at once."""
    taken: list[Permit] = []
    while len(taken) <= 100:
        try:
            taken.append(take(gate))
        except errors.RateLimited as limited:
            if limited.reason != "concurrency":
                raise
            return taken
    raise AssertionError("no limit")


def live(client: redis.Redis) -> int:
    return int(client.zcard(leases_key(KEY)))


def test_s23_flushed_scripts_are_no_outage(gate_of: GateOf, redis_client: redis.Redis, heard: Heard) -> None:
    gate = gate_of(listener=heard)
    warm(gate)
    redis_client.script_flush()
    with gate.slot(KEY, "repos.get") as permit:
        redis_client.script_flush()
        permit.observe(OK)
    assert (heard.outages, heard.lost) == ([], 0)


def test_s23_empty_node_gets_the_windows_back_from_who_knows_them(
    gate_of: GateOf, proxy: RedisProxy, spare: EmbeddedValkey, spare_client: redis.Redis, heard: Heard
) -> None:
    one, other = gate_of(proxy.url, listener=heard), gate_of(proxy.url)
    take(one).observe(SECONDARY)
    proxy.lead_to(spare.url)
    with pytest.raises(errors.RateLimited):
        one.permit(KEY, "repos.get", max_wait=100.0)
    assert not other.check(KEY).allowed
    assert heard.outages == []


@pytest.mark.parametrize("fault", ["close", "reset"])
def test_s24_connection_that_is_cut_after_the_grant_is_asked_again_for_the_same(
    gate_of: GateOf, proxy: RedisProxy, redis_client: redis.Redis, heard: Heard, fault: Fault
) -> None:
    gate = gate_of(proxy.url, listener=heard)
    warm(gate)
    before = proxy.calls
    proxy.break_next(fault)
    permit = take(gate)
    assert (permit.is_local, proxy.calls - before, live(redis_client)) == (False, 2, 1)
    proxy.break_next(fault)
    permit.observe(OK)
    assert (proxy.calls - before, live(redis_client)) == (4, 0)
    assert (heard.outages, heard.lost) == ([], 0)


def test_s24_answer_that_does_not_come_is_not_asked_for_again_and_its_lease_is_given_back(
    gate_of: GateOf, proxy: RedisProxy, redis_client: redis.Redis, heard: Heard
) -> None:
    gate = gate_of(proxy.url, listener=heard, timeout=PROMISED)
    warm(gate)
    before = proxy.calls
    proxy.break_next("half")
    permit = take(gate)
    assert (permit.is_local, proxy.calls - before, live(redis_client)) == (True, 1, 1)
    come_back(gate, heard)
    permit.observe(OK)
    warm(gate)
    assert live(redis_client) == 0


def test_s31_while_redis_is_away_one_worker_sends_within_its_share(gate_of: GateOf, proxy: RedisProxy) -> None:
    gate = gate_of(proxy.url, policies=UNPACED)
    warm(gate)
    pause_for_long(gate)
    proxy.refuse()
    for _ in range(40):  # it had nothing under way, so it begins with one, and gets more as requests succeed
        taken = take_all(gate)
        assert 1 <= len(taken) <= SHARE
        for permit in taken:
            assert permit.is_local
            permit.observe(OK)
    assert len(taken) == SHARE


def test_s31_cold_worker_without_redis_sends_one_request_and_learns(gate_of: GateOf, proxy: RedisProxy) -> None:
    proxy.refuse()
    gate = gate_of(proxy.url)
    pause_for_long(gate)
    first = take(gate)
    with pytest.raises(errors.RateLimited):
        take(gate)
    first.observe(OK)
    assert take(gate).remaining == 1000  # a quarter of what is left


def test_s32_silent_redis_costs_one_short_wait_and_then_nothing(
    gate_of: GateOf, proxy: RedisProxy, heard: Heard
) -> None:
    gate = gate_of(proxy.url, listener=heard, policies=UNPACED, timeout=PROMISED)
    pause_for_long(gate)
    gate.check(KEY)
    proxy.silence()
    began = time.monotonic()
    assert gate.check(KEY).allowed
    assert time.monotonic() - began < FIRST_CHECK_SECONDS
    before = proxy.connections
    for _ in range(200):
        gate.check(KEY)
        take(gate).end()
    assert proxy.connections == before
    proxy.heal()
    come_back(gate, heard)
    assert heard.outages == [False, True]


def test_s32_refused_connection_is_tried_once_and_not_by_the_client_again(gate_of: GateOf, proxy: RedisProxy) -> None:
    gate = gate_of(proxy.url)
    pause_for_long(gate)
    proxy.reset()
    gate.check(KEY)
    assert proxy.connections <= 2  # the second where the reset came to a connection that stood


def test_s33_only_one_caller_of_a_process_looks_again(gate_of: GateOf, proxy: RedisProxy) -> None:
    gate = gate_of(proxy.url, timeout=PROMISED)
    look_at_once(gate)
    proxy.silence()
    gate.check(KEY)
    before, together = proxy.connections, threading.Barrier(20)

    def check() -> None:
        together.wait(10)
        gate.check(KEY)

    threads = [threading.Thread(target=check) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert proxy.connections - before <= 3  # one at a time, each as long as a silent Redis is waited for


def test_s41_pool_without_a_free_connection_means_slow_and_never_allowed(gate_of: GateOf, heard: Heard) -> None:
    gate = gate_of(slots=16, listener=heard, timeout=PROMISED)
    pause_for_long(gate)
    warm(gate)
    pool = gate._client.connection_pool
    taken = [pool.get_connection() for _ in range(4)]
    began = time.monotonic()
    assert len(take_all(gate)) == 1
    assert time.monotonic() - began < FIRST_CHECK_SECONDS
    assert heard.outages == [False]
    for connection in taken:
        pool.release(connection)


@pytest.mark.parametrize("is_replica", [True, False])
def test_redis_that_takes_no_writes_is_an_outage(
    gate_of: GateOf, spare: EmbeddedValkey, spare_client: redis.Redis, heard: Heard, is_replica: bool
) -> None:
    gate = gate_of(spare.url, listener=heard)
    warm(gate)
    if is_replica:
        spare_client.replicaof("127.0.0.1", "1")
    else:
        spare_client.config_set("maxmemory", 1)
    assert take(gate).is_local
    assert heard.outages == [False]


def test_leases_that_end_while_redis_is_away_are_given_back(
    gate_of: GateOf, proxy: RedisProxy, redis_client: redis.Redis, heard: Heard
) -> None:
    gate = gate_of(proxy.url, listener=heard)
    warm(gate)
    permits = [take(gate) for _ in range(8)]
    proxy.refuse()
    for permit in permits:
        permit.observe(OK)
    assert live(redis_client) == 8
    proxy.heal()
    come_back(gate, heard)
    warm(gate)
    assert (live(redis_client), heard.lost) == (0, 0)


def test_requests_that_are_under_way_on_return_are_counted_by_redis(
    gate_of: GateOf, proxy: RedisProxy, redis_client: redis.Redis, heard: Heard
) -> None:
    gate = gate_of(proxy.url, listener=heard)
    warm(gate)
    proxy.refuse()
    permit = take(gate)
    assert permit.is_local
    proxy.heal()
    come_back(gate, heard)
    assert live(redis_client) == 1
    permit.observe(OK)
    assert live(redis_client) == 0


def test_on_return_a_process_keeps_to_its_share_for_a_moment(gate_of: GateOf, proxy: RedisProxy, heard: Heard) -> None:
    gate = gate_of(proxy.url, listener=heard)
    warm(gate)
    proxy.refuse()
    take(gate).end()
    proxy.heal()
    come_back(gate, heard)
    assert len(take_all(gate)) == SHARE
    gate._knowledge.outage._returned_at -= 3.0
    assert len(take_all(gate)) == 20 - SHARE


def test_refusal_in_an_outage_closes_here_at_once_and_for_all_on_return(
    gate_of: GateOf, proxy: RedisProxy, heard: Heard
) -> None:
    gate, other = gate_of(proxy.url, listener=heard), gate_of()
    proxy.refuse()
    assert take(gate).observe(SECONDARY).retry_in == 59.0
    assert gate.check(KEY).reason is Reason.WINDOW
    assert other.check(KEY).allowed
    proxy.heal()
    come_back(gate, heard)
    told = other.check(KEY)
    assert (told.allowed, told.detail) == (False, "secondary: slow down")
    assert 50.0 < told.retry_in <= 59.0


def test_salvo_of_refusals_over_the_start_of_an_outage_counts_once(gate_of: GateOf, proxy: RedisProxy) -> None:
    gate = gate_of(proxy.url)
    warm(gate)
    permits = [take(gate) for _ in range(5)]
    proxy.refuse()
    unstated = RateSignal(Kind.SECONDARY, bucket="*")
    decisions = [permit.observe(unstated) for permit in permits]
    assert [decision.fails for decision in decisions] == [1] * 5
    assert max(decision.retry_in for decision in decisions) <= 61.5


def test_call_that_is_ended_from_outside_says_nothing_of_redis(
    gate_of: GateOf, redis_client: redis.Redis, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_of(listener=heard)
    warm(gate)
    book, acquire = gate._book, gate._book.acquire

    def interrupted(*arguments: object) -> object:
        acquire(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(book, "acquire", interrupted)
    with pytest.raises(KeyboardInterrupt):
        take(gate)
    assert (live(redis_client), heard.outages) == (0, [])
    monkeypatch.undo()
    permit = take(gate)
    observe = book.observe

    def ended(*arguments: object) -> object:
        monkeypatch.setattr(book, "observe", observe)
        raise KeyboardInterrupt

    monkeypatch.setattr(book, "observe", ended)
    with pytest.raises(KeyboardInterrupt):
        permit.observe(SECONDARY)
    assert (live(redis_client), heard.outages) == (0, [])
    assert not gate.check(KEY).allowed


def test_closed_mode_sends_everybody_away_and_open_mode_nobody(gate_of: GateOf, proxy: RedisProxy) -> None:
    closed, opened = gate_of(proxy.url, outage="closed"), gate_of(proxy.url, outage="open")
    proxy.refuse()
    with pytest.raises(errors.GateUnavailable) as told:
        take(closed)
    assert 30.0 <= told.value.retry_in <= 60.0
    assert closed.check(KEY).reason is Reason.OUTAGE
    permits = [take(opened) for _ in range(30)]
    for permit in permits:
        permit.observe(SECONDARY)
    with pytest.raises(errors.RateLimited) as limited:
        take(opened)
    assert (limited.value.reason, limited.value.fails) == ("window", 1)


def test_bulk_stands_back_after_a_minute_and_the_rest_goes_on(gate_of: GateOf, proxy: RedisProxy) -> None:
    gate = gate_of(proxy.url)
    pause_for_long(gate)
    proxy.refuse()
    take(gate, priority=Priority.BULK).observe(OK)
    gate._knowledge.outage._breaker._opened_at -= 61.0
    with pytest.raises(errors.GateUnavailable):
        take(gate, priority=Priority.BULK)
    take(gate, priority=Priority.SYNC).end()


def test_clear_says_clearly_that_it_did_nothing(gate_of: GateOf, proxy: RedisProxy) -> None:
    gate = gate_of(proxy.url)
    gate.backoff(KEY, 60.0, reason="secondary")
    proxy.refuse()
    with pytest.raises(redis.ConnectionError, match=r"nothing of github on github\.com was cleared"):
        gate.clear(KEY, by="ops")
    assert not gate.check(KEY).allowed


def test_half_answer_that_ends_late_is_not_taken_for_the_next_one(gate_of: GateOf, proxy: RedisProxy) -> None:
    gate = gate_of(proxy.url, timeout=PROMISED)
    look_at_once(gate)
    warm(gate)
    for _ in range(3):
        proxy.break_next("half")
        take(gate).end()
        wait_for(lambda: gate._knowledge.outage.call(lambda _: True) is True, "it is back", 5)
        with gate.slot(KEY, "repos.get") as permit:
            assert permit.remaining is not None
            permit.observe(OK)


def test_slow_redis_is_waited_for_and_is_no_outage(gate_of: GateOf, proxy: RedisProxy, heard: Heard) -> None:
    gate = gate_of(proxy.url, listener=heard)
    proxy.delay(0.06)
    warm(gate)
    with gate.slot(KEY, "repos.get") as permit:
        assert not permit.is_local
    assert heard.outages == []

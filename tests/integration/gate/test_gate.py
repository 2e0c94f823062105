import threading
from collections.abc import Callable

import pytest
import redis

from tests.integration.gate.conftest import KEY, Heard
from worker_app import errors
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Priority, Reason
from worker_app.gate.signals import Kind, Quota, RateSignal

OK = RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 4900, 3000.0),))
SECONDARY = RateSignal(Kind.SECONDARY, bucket="*", after=58.0, detail="You have exceeded a secondary rate limit")

GateOf = Callable[..., Gate]


def test_after_one_is_refused_another_is_sent_away_and_told_why(gate_of: GateOf) -> None:
    one, other = gate_of(), gate_of()
    with one.slot(KEY, "pulls.comments") as permit:
        refused = permit.observe(SECONDARY)
    assert (refused.allowed, refused.reason, refused.bucket, refused.fails) == (False, Reason.WINDOW, "*", 1)
    assert 58 < refused.retry_in <= 59.01
    with pytest.raises(errors.RateLimited) as told:
        other.permit(KEY, "issues.list")
    assert 58 < told.value.retry_in <= 60
    assert (told.value.provider, told.value.host, told.value.reason) == ("github", "github.com", "window")
    assert "secondary rate limit" in str(told.value)


def test_check_and_backoff_work_alone(gate_of: GateOf) -> None:
    one, other = gate_of(), gate_of()
    assert one.check(KEY).allowed
    assert 57.9 < one.backoff(KEY, 58.0, bucket="core", reason="primary", detail="API rate limit exceeded") <= 58.0
    blocked = other.check(KEY)
    assert (blocked.allowed, blocked.bucket, blocked.detail) == (False, "core", "primary: API rate limit exceeded")
    assert 57 < blocked.retry_in <= 58
    assert other.check(KEY, "graphql").allowed
    assert one.backoff(KEY, 1.0, bucket="core", reason="primary") > 57


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_backoff_refuses_what_is_no_duration(gate_of: GateOf, seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds is"):
        gate_of().backoff(KEY, seconds, reason="burst")


def test_other_organisation_and_other_host_go_on(gate_of: GateOf) -> None:
    gate = gate_of()
    gate.backoff(KEY, 60.0, reason="secondary")
    for key in (GateKey("github", "beta", "github.com"), GateKey("github", "acme", "ghe.acme.com")):
        assert gate.check(key).allowed
        gate.permit(key, "repos.get").end()


def test_endpoint_that_the_policy_does_not_know_is_refused(gate_of: GateOf) -> None:
    with pytest.raises(ValueError, match=r"'gists\.list'"):
        gate_of().permit(KEY, "gists.list")


def test_block_that_is_left_by_an_exception_closes_nothing_and_frees_its_place(
    gate_of: GateOf, redis_client: redis.Redis
) -> None:
    gate = gate_of()
    with pytest.raises(OSError, match="reset"), gate.slot(KEY, "repos.get"):
        raise OSError("reset")
    assert gate.check(KEY).allowed
    assert redis_client.zcard("gate1:{github|acme|github.com}:l") == 0


def test_second_observe_does_nothing(gate_of: GateOf) -> None:
    gate = gate_of()
    with gate.slot(KEY, "repos.get") as permit:
        permit.observe(OK)
        permit.observe(SECONDARY)
    assert gate.check(KEY).allowed


def test_unknown_quota_lets_one_request_find_out(gate_of: GateOf) -> None:
    gate = gate_of()
    first = gate.permit(KEY, "repos.get")
    with pytest.raises(errors.RateLimited) as told:
        gate.permit(KEY, "repos.get", max_wait=0.0)
    assert told.value.reason == "probe"
    first.observe(OK)
    with gate.slot(KEY, "repos.get") as second:
        assert second.remaining == 4900


def test_reserve_is_kept_for_those_who_are_waited_for(gate_of: GateOf) -> None:
    gate = gate_of()
    with gate.slot(KEY, "repos.get") as permit:
        permit.observe(RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 100, 3600.0),)))
    for priority in (Priority.SYNC, Priority.BULK):
        with pytest.raises(errors.RateLimited) as told:
            gate.permit(KEY, "repos.get", priority=priority)
        assert told.value.reason == "quota"
    gate.permit(KEY, "repos.get", priority=Priority.INTERACTIVE).end()


def test_window_is_told_once_when_it_opens_grows_and_is_cleared(gate_of: GateOf) -> None:
    heard, others = Heard(), Heard()
    gate, other = gate_of(listener=heard), gate_of(listener=others)
    first = gate.permit(KEY, "repos.get")
    first.observe(SECONDARY)
    assert not other.check(KEY).allowed
    assert heard.windows == [("opened", "*", "secondary: You have exceeded a secondary rate limit")]
    assert other.clear(KEY, by="ops@acme") == 1
    assert others.windows == [("cleared", "*", "ops@acme")]


def test_cleared_window_is_heard_of_by_those_who_knew_it(gate_of: GateOf) -> None:
    gate, other = gate_of(), gate_of()
    gate.backoff(KEY, 600.0, reason="secondary")
    assert other.clear(KEY, by="ops") == 1
    done = threading.Event()
    for _ in range(50):  # looked at once a second
        if gate.check(KEY).allowed:
            done.set()
            break
        threading.Event().wait(0.05)
    assert done.is_set()
    gate.permit(KEY, "repos.get").end()
    assert other.check(KEY).allowed


def test_states_tell_what_people_ask(gate_of: GateOf) -> None:
    gate = gate_of()
    with gate.slot(KEY, "repos.get") as permit:
        permit.observe(OK)
    gate.backoff(KEY, 58.0, bucket="graphql", reason="primary", detail="API rate limit exceeded")
    by_bucket = {state.bucket: state for state in gate.states()}
    assert set(by_bucket) == {"*", "core", "graphql"}
    core, closed = by_bucket["core"], by_bucket["graphql"]
    assert (core.limit, core.remaining, core.retry_in, core.conc, core.live) == (5000, 4900, 0.0, 20, 0)
    assert (closed.reason, closed.detail) == ("primary", "API rate limit exceeded")
    assert 57 < closed.retry_in <= 58


def test_stopped_gate_ends_every_sleep(gate_of: GateOf) -> None:
    gate = gate_of()
    gate.backoff(KEY, 4.0, reason="burst")
    caught: list[errors.RateLimited] = []

    def ask() -> None:
        with pytest.raises(errors.RateLimited) as told:
            gate.permit(KEY, "repos.get", max_wait=5.0)
        caught.append(told.value)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    gate.stop()
    for thread in threads:
        thread.join(2.0)
    assert len(caught) == 5


def test_bucket_that_the_provider_does_not_have_is_refused_by_name(gate_of: GateOf) -> None:
    with pytest.raises(ValueError, match=r"bucket is 'cor': github has .*core"):
        gate_of().backoff(KEY, 58.0, bucket="cor", reason="primary")
    with pytest.raises(ValueError, match="cost is 0"):
        gate_of().permit(KEY, "repos.get", cost=0)


def test_what_somebody_else_wrote_hides_no_gate(gate_of: GateOf, redis_client: redis.Redis) -> None:
    gate = gate_of()
    gate.backoff(KEY, 60.0, reason="secondary")
    redis_client.hset("gate1:{github|nope|github.com}:s", mapping={"u:*": "notanumber", "t": "1"})
    redis_client.set("gate1:{github|text|github.com}:s", "text")
    redis_client.hset("gate1:{github|bytes\xff|github.com}:s".encode("latin-1"), b"t", b"\xff")
    redis_client.hset("gate1:{shop|acme|shop.test}:s", "t", "1")
    redis_client.set(b"gate1:\xff\xfe:s", "1")
    closed = [state for state in gate.states() if state.retry_in > 0]
    assert [(state.key, state.bucket) for state in closed] == [(KEY, "*")]
    assert gate.clear(KEY, by="ops") == 1


def test_limit_that_somebody_wrote_away_is_one_at_a_time(gate_of: GateOf, redis_client: redis.Redis) -> None:
    redis_client.hset("gate1:{github|acme|github.com}:s", mapping={"conc": "-5000"})
    gate_of().permit(KEY, "repos.get", max_wait=0.0).end()

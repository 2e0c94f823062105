"""The scenarios from public bug reports that the scripts decide, on a real Redis under a time that the test sets: windows."""

import time

import pytest
import redis

from tests.integration.gate.timed import KEY, NOON, PLENTY, Taken, Timed
from worker_app.gate.book import Granted, Known, Waits
from worker_app.gate.key import WHOLE_KEY, GateKey, Priority, Reason
from worker_app.gate.policies import POLICIES
from worker_app.gate.redis_book import acquire_arguments
from worker_app.gate.signals import Kind, Quota

pytestmark = pytest.mark.integration


def test_s04_secondary_without_a_wait_closes_for_a_minute_and_not_until_the_hourly_reset(timed: Timed) -> None:
    hourly = Quota("core", 5000, 4900, 2900.0)
    assert timed.refuse(quotas=(hourly,)) == 61.0
    for expected in (121.0, 241.0, 481.0, 901.0, 901.0):
        timed.pass_by(timed.opens_in())
        assert timed.refuse(quotas=(hourly,)) == expected


def test_s06_request_at_the_reset_waits_for_the_guard_and_a_second_refusal_makes_the_window_longer(
    timed: Timed,
) -> None:
    assert timed.refuse(Kind.PRIMARY, bucket="core", after=30.0) == 31.0
    timed.pass_by(30.0)
    assert timed.opens_in() == 1.0  # at the very reset the old window still refuses
    timed.pass_by(1.0)
    assert timed.refuse(Kind.PRIMARY, bucket="core", after=1.0) == 5.0  # the same reset again: 4 s and the guard
    timed.pass_by(5.0)
    assert timed.refuse(Kind.PRIMARY, bucket="core", after=1.0) == 9.0


def test_s07_reset_that_is_past_makes_no_negative_wait_and_no_hot_loop(timed: Timed) -> None:
    past = Quota("core", 5000, 0, None, reset_at_ms=NOON - 3_600_000)
    assert timed.refuse(Kind.PRIMARY, bucket="core", after_at_ms=NOON - 3_600_000, quotas=(past,)) >= 2.0
    for _ in range(20):
        answer = timed.ask()
        if isinstance(answer, Granted):
            timed.reply(Taken("", "repos.get", answer), quotas=(Quota("core", 5000, 0, 0.0),))
            continue
        assert answer.wait_ms >= 1
        timed.pass_by(answer.wait_ms / 1000)
    assert timed.now - NOON >= 3000


def test_s09_wrong_reset_without_a_wait_doubles_to_a_bound_and_other_endpoints_go_on(redis_client: redis.Redis) -> None:
    timed = Timed(redis_client, GateKey("gitlab", "acme", "gitlab.com"), POLICIES["gitlab"])
    own = "ep.projects.get"
    expected = [61.0, 121.0, 241.0, 481.0, 901.0, 901.0]
    for seconds in expected:
        taken = timed.take("projects.get")
        assert timed.reply(taken, Kind.BURST, bucket=own).left_ms == seconds * 1000
        timed.reply(timed.take("issues.list"), quotas=())
        timed.pass_by(seconds)


def test_s16_long_window_lasts_as_long_as_the_provider_said(timed: Timed) -> None:
    assert timed.refuse(after=3600.0) == 3601.0
    for _ in range(12):
        timed.pass_by(299.0)
        waits = timed.wait(priority=Priority.INTERACTIVE)
        assert waits.left_ms == 3601_000 - (timed.now - NOON)


def test_s21_no_clock_but_that_of_redis_reaches_a_script(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    true = time.time
    lefts = []
    for skew in (-600.0, 0.0, 600.0):
        monkeypatch.setattr(time, "time", lambda skew=skew: true() + skew)
        timed.client.flushall()
        timed.refuse(after=58.0)
        timed.pass_by(10.0)
        lefts.append(timed.opens_in())
        arguments = acquire_arguments(timed.ask_of(), is_repeat=False)
        assert not [item for item in arguments if isinstance(item, int) and item > 10_000_000]
    assert lefts == [49.0] * 3


@pytest.mark.parametrize("quota", [Quota("core", 0, 0), Quota("core", 0)])
def test_s34_provider_that_counts_nothing_is_not_waited_for(timed: Timed, quota: Quota) -> None:
    timed.know_quota(quota)
    for _ in range(POLICIES["github"].max_conc):
        assert timed.take().granted.remaining is None
    assert timed.wait().reason is Reason.CONCURRENCY


def test_s34_leaky_quota_of_unknown_size_is_not_believed(redis_client: redis.Redis) -> None:
    timed = Timed(redis_client, GateKey("linear", "acme", "linear.app"), POLICIES["linear"])
    timed.reply(timed.take("issues"), quotas=tuple(Quota(name, None, 0) for name in ("requests", "complexity")))
    taken = timed.take("issues")
    assert timed.wait("issues").reason is Reason.PROBE
    timed.reply(taken, quotas=(Quota("requests", 10, 0), Quota("complexity", 50, 0)))
    waits = timed.wait("issues", priority=Priority.INTERACTIVE, cost=400)  # dearer than all that there ever is
    assert waits.reason is Reason.QUOTA
    timed.pass_by(waits.wait_ms / 1000)
    timed.take("issues", priority=Priority.INTERACTIVE, cost=400)


@pytest.mark.parametrize("kind", [Kind.OK, Kind.NEAR])
def test_s45_success_of_a_request_under_way_opens_nothing(timed: Timed, kind: Kind) -> None:
    timed.know_quota()
    first, second, third = (timed.take() for _ in range(3))
    timed.reply(first, Kind.SECONDARY, after=60.0)
    for other in (second, third):
        timed.pass_by(1.0)
        timed.reply(other, kind, quotas=(PLENTY,))
    assert timed.opens_in() == 59.0
    assert timed.field("fails:*") == "1"


def test_s46_of_a_shorter_and_a_longer_answer_the_longer_counts(timed: Timed) -> None:
    timed.know_quota()
    taken = [timed.take() for _ in range(3)]
    assert timed.reply(taken[0], Kind.SECONDARY, after=60.0).left_ms == 61_000
    assert timed.reply(taken[1], Kind.SECONDARY, after=5.0).left_ms == 61_000
    assert timed.reply(taken[2], Kind.SECONDARY, after=600.0).left_ms == 601_000
    assert (timed.opens_in(), timed.field("fails:*")) == (601.0, "1")


def test_window_does_not_grow_by_being_told_to_and_fro(timed: Timed) -> None:
    timed.refuse(after=60.0)
    for _ in range(200):  # each answer was on its way for 200 ms, each question too
        left, text = timed.wait().left_ms, "secondary: "
        timed.pass_by(0.2)
        timed.book.sync(KEY, 0, (Known(WHOLE_KEY, left, text, is_told=True),))
    assert timed.opens_in() == 61.0 - 40.0


def test_window_that_redis_lost_comes_back_from_whoever_knows_it(timed: Timed) -> None:
    timed.refuse(after=60.0)
    timed.client.flushall()
    assert timed.wait(known=(Known(WHOLE_KEY, 50_000, "secondary: word", is_told=True),)).left_ms == 50_000
    assert timed.wait().text == "secondary: word"


def test_cleared_window_does_not_come_back_although_redis_lost_the_clear(timed: Timed) -> None:
    old = (Known(WHOLE_KEY, 50_000, "secondary: word", is_told=True),)
    timed.refuse(after=60.0)
    timed.book.clear(KEY, WHOLE_KEY)
    cleared = timed.book.sync(KEY).cleared
    timed.client.flushall()
    timed.take(epoch=cleared)
    assert isinstance(timed.ask("runs.get", known=old), Waits | Granted)
    assert timed.opens_in("runs.get") == 0.0


def test_clear_counts_also_where_redis_knows_nothing(timed: Timed) -> None:
    timed.book.clear(KEY, WHOLE_KEY)
    timed.take(known=(Known(WHOLE_KEY, 50_000, "secondary: word"),))


def test_clock_that_is_set_back_makes_no_wait_longer(timed: Timed) -> None:
    timed.know_quota()
    timed.refuse(after=58.0)
    timed.pass_by(-600.0)
    assert [left for bucket, left, _, _ in timed.book.sync(KEY).windows()] == [59_000]  # and a mere look tells the same
    assert timed.opens_in() == 59.0
    timed.pass_by(59.0)
    timed.take()


def test_clock_that_is_set_forward_is_made_good_by_whoever_knows_the_window(timed: Timed) -> None:
    timed.know_quota()
    timed.refuse(after=58.0)
    timed.pass_by(600.0)
    stranger = timed.take()  # the window is over by the clock: one request finds out
    assert timed.wait().reason is Reason.CONCURRENCY
    assert timed.wait(known=(Known(WHOLE_KEY, 58_000, "secondary: ", is_told=True),)).left_ms == 58_000
    timed.reply(stranger, Kind.SECONDARY, after=57.0)
    assert timed.opens_in() == 58.0


def test_tickets_spread_the_release_and_a_held_one_is_kept(timed: Timed) -> None:
    timed.refuse(after=9.0)
    waits = [timed.wait(priority=Priority.INTERACTIVE) for _ in range(4)]
    assert [answer.wait_ms - answer.left_ms for answer in waits] == [0, 15, 30, 45]
    again = timed.wait(priority=Priority.BULK, held=waits[2].held)
    assert again.wait_ms - again.left_ms == 1030

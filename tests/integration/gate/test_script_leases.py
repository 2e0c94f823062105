"""The same: leases."""

import time

import pytest
import redis

from tests.integration.gate.timed import KEY, Taken, Timed, with_most
from worker_app.gate.book import Granted
from worker_app.gate.key import Reason
from worker_app.gate.policies import POLICIES
from worker_app.gate.redis_book import RedisBook, leases_key
from worker_app.gate.signals import Kind

pytestmark = pytest.mark.integration


def test_s22_leases_end_by_the_time_of_redis(redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    book = RedisBook(redis_client)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    granted = book.acquire(KEY, Timed(redis_client).ask_of(lease="late.1|core:1"))
    assert isinstance(granted, Granted)
    seconds, micros = redis_client.time()
    score = redis_client.zscore(leases_key(KEY), "late.1|core:1")
    assert isinstance(score, float)
    assert 64_000 < score - (seconds * 1000 + micros / 1000) <= 65_000


def test_s24_same_lease_gets_the_same_grant_and_its_end_counts_once(timed: Timed) -> None:
    timed.know_quota()
    ask = timed.ask_of()
    first = timed.book.acquire(KEY, ask)
    before = timed.book.sync(KEY)
    timed.pass_by(0.5)
    again = timed.repeat(ask)
    assert isinstance(first, Granted)
    assert again[:2] == [1, 0]
    assert timed.live == 1
    assert timed.book.sync(KEY).fields["f:core"] == before.fields["f:core"]
    taken = Taken(ask.lease, "repos.get", first)
    assert timed.reply(taken).was_live
    after = timed.book.sync(KEY)
    assert not timed.reply(taken).was_live
    assert timed.book.sync(KEY) == after


def test_s24_refusal_that_is_told_twice_counts_once(timed: Timed) -> None:
    taken = timed.take()
    first = timed.reply(taken, Kind.SECONDARY)
    again = timed.reply(taken, Kind.SECONDARY)
    assert (first.fails, again.fails, again.left_ms) == (1, 1, first.left_ms)
    assert timed.field("conc") == "10000"


def test_s28_double_or_late_release_gives_no_room(redis_client: redis.Redis) -> None:
    timed = Timed(redis_client, policy=with_most(POLICIES["github"], 3))
    timed.know_quota()
    held = [timed.take() for _ in range(3)]
    for _ in range(3):
        timed.reply(held[0])
    timed.take()
    assert timed.wait().reason is Reason.CONCURRENCY
    timed.pass_by(66.0)
    timed.take()  # the rest has run out
    for late in held:
        timed.reply(late)
    assert (timed.live, timed.field("f:core")) == (1, "1")


def test_s29_request_whose_lease_ran_out_is_still_learned_from(timed: Timed) -> None:
    timed.know_quota()
    taken = timed.take()
    timed.pass_by(66.0)
    timed.reply(timed.take())
    learned = timed.reply(taken, Kind.SECONDARY, after=30.0)
    assert (learned.was_live, learned.left_ms) == (False, 31_000)
    assert timed.opens_in() == 31.0


def test_s30_crowd_of_dead_clients_is_cleared_away_by_and_by(timed: Timed) -> None:
    timed.know_quota()
    dead = {f"dead.{number}|core:1": 1 for number in range(1000)}
    timed.book.sync(KEY, 0, (), dead)
    timed.pass_by(1.0)
    assert timed.wait().reason in {Reason.CONCURRENCY, Reason.QUOTA}
    assert timed.live == 1000 - 64
    for _ in range(15):
        timed.ask()
    assert timed.live <= 1
    assert timed.field("f:core") in {None, "1"}


def test_leases_of_another_book_are_counted_once(timed: Timed) -> None:
    timed.know_quota()
    mine = timed.take()
    leases = {mine.lease: 60_000, "local.1|core:3": 30_000}
    for _ in range(2):
        timed.book.sync(KEY, 0, (), leases)
    assert (timed.live, timed.field("f:core")) == (2, "4")
    timed.reply(Taken("local.1|core:3", "repos.get", mine.granted))
    assert (timed.live, timed.field("f:core")) == (1, "1")

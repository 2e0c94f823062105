"""The same: keys, their ends, and the one clock."""

import re
from collections.abc import Callable
from importlib import resources

import pytest
import redis
from redis.crc import key_slot

from tests.integration.gate.timed import KEY, NOON, PLENTY, Taken, Timed
from worker_app.gate.book import Granted, Known
from worker_app.gate.key import WHOLE_KEY, GateKey
from worker_app.gate.redis_book import leases_key, state_key
from worker_app.gate.signals import Kind

pytestmark = pytest.mark.integration
SCRIPTS = ("_state", "acquire", "observe", "sync", "admin")


def script(name: str) -> str:
    return resources.files("worker_app.gate").joinpath(f"{name}.lua").read_text()


def strip_comments(text: str) -> str:
    return re.sub(r"--.*", "", text)


def test_s23_flushed_scripts_are_loaded_again_unseen_by_the_caller(timed: Timed) -> None:
    timed.know_quota()
    timed.client.script_flush()
    taken = timed.take()
    timed.client.script_flush()
    assert timed.reply(taken).was_live
    timed.client.script_flush()
    assert timed.book.sync(KEY).live == 0
    timed.client.script_flush()
    assert timed.book.clear(KEY, WHOLE_KEY) == 0


def test_s25_both_keys_lie_in_one_slot_of_a_cluster() -> None:
    for key in (KEY, GateKey("jira", "b", "acme.atlassian.net")):
        assert (
            key_slot(state_key(key).encode()) == key_slot(leases_key(key).encode()) == key_slot(key.text[1:-1].encode())
        )


def test_s25_scripts_touch_no_key_that_they_do_not_declare(timed: Timed) -> None:
    for name in SCRIPTS:
        touched = re.findall(r"redis\.call\('(\w+)'(?:, (\w+))?", script(name))
        assert {key for command, key in touched if command != "TIME"} <= {"STATE", "LEASES"}, name
    keys = [state_key(KEY), leases_key(KEY)]
    timed.client.acl_setuser("narrow", enabled=True, passwords=["+narrow"], commands=["+@all"], keys=keys)
    try:
        pool = timed.client.connection_pool.connection_kwargs
        with redis.Redis(host=pool["host"], port=pool["port"], username="narrow", password="narrow") as narrow:
            inside = Timed(narrow)
            inside.refuse(after=2.0)
            inside.book.sync(KEY, 0, (Known("core", 50, "burst"),), {"other.1|core:1": 1000})
            inside.pass_by(90.0)
            inside.know_quota()
            inside.book.clear(KEY, WHOLE_KEY)
            with pytest.raises(redis.exceptions.NoPermissionError):
                inside.book.sync(GateKey("github", "beta", "github.com"))
    finally:
        timed.client.acl_deluser("narrow")


def test_s26_both_keys_have_an_end_after_every_call(timed: Timed) -> None:
    def check(longest: float = 0.0) -> None:
        for name in (state_key(KEY), leases_key(KEY)):
            if timed.client.exists(name):
                assert timed.client.pttl(name) > 60_000
        assert timed.client.pttl(state_key(KEY)) >= longest * 1000

    calls: list[Callable[[], object]] = [
        lambda: timed.take(),
        lambda: timed.wait(),
        lambda: timed.book.sync(KEY, 0, (Known("core", 500, "burst"),)),
        lambda: timed.book.sync(KEY, 0, (), {"local.1|core:1": 5000}),
        lambda: timed.book.sync(KEY, 5, (Known("*", 500, "burst"),)),
        lambda: timed.reply(Taken("none.1|core:1", "repos.get", Granted(0, NOON, None, 0, 0, 1, 1))),
        lambda: timed.book.clear(KEY, WHOLE_KEY),
        lambda: timed.repeat(timed.ask_of()),
    ]
    for call in calls:
        timed.client.flushall()
        if call is calls[1]:
            timed.take()
        call()
        check()
        timed.client.delete(state_key(KEY))  # evicted, or ended before the other
        if call is not calls[1]:
            call()
            check()
    timed.client.flushall()
    timed.refuse(after=86_400.0)
    check(86_400.0)


def test_s26_leases_live_on_under_traffic_beside_a_window_of_a_day(timed: Timed) -> None:
    timed.reply(timed.take(), Kind.BURST, bucket="ep.repos.get", after=86_000.0, quotas=(PLENTY,))
    timed.take("runs.get")  # from here on there is always one under way
    for _ in range(4):
        timed.client.pexpire(leases_key(KEY), 30_000)  # time goes by for Redis as well
        timed.pass_by(62.0)
        timed.take("runs.get")
        assert timed.client.pttl(leases_key(KEY)) > 7_100_000
        assert timed.client.pttl(state_key(KEY)) > 85_000_000


def test_only_the_shipped_clock_reads_a_clock_and_it_is_that_of_redis() -> None:
    assert "redis.call('TIME')" in script("_clock")
    for name in SCRIPTS:
        assert "TIME" not in script(name), name
        assert "os." not in script(name), name
        assert len(re.findall(r"(?<!function )\bclock\(\)", strip_comments(script(name)))) == (
            name in {"_state", "sync"}
        ), name

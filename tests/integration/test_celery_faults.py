"""The faults of stock Celery under gevent that our worker makes good, each on stock code and a real Redis.

A test that fails here is good news: Celery has cured it, and what its docstring names may go. What we rely on stands in
`test_celery_contract.py`.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest
from celery import Celery

from bench.worker_process import WorkerProcess, effects, marks, wait_for
from worker_app.embedded.valkey import EmbeddedValkey

pytestmark = pytest.mark.integration

LOOSE: Any = kombu  # annotated here and there, so each call would count as an untyped one
ALONE = ("--without-mingle", "--without-gossip")  # one second less of start


def publish(redis_url: str, count: int, seconds: float, **options: Any) -> None:
    """Send named naps to the queue of the workers."""
    with Celery("producer", broker=redis_url, set_as_current=False) as producer:
        for number in range(count):
            producer.send_task("nap", args=(seconds, f"t{number}"), queue="work", ignore_result=True, **options)


def run(folder: Path, *arguments: str) -> Any:
    """What a fresh interpreter prints, as JSON."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def moments(folder: Path, word: str) -> list[float]:
    """When the tasks left this mark, in order."""
    return sorted(moment for found, _, _, moment in marks(folder / "marks") if found == word)


def wait_for_begins(folder: Path, count: int) -> None:
    wait_for(lambda: len(moments(folder, "begin")) >= count, f"{count} tasks run")


def wait_for_ends(folder: Path, count: int, or_begin_after: float | None = None) -> None:
    """Wait until so many tasks have ended, or one has begun after the moment that alone matters."""

    def look() -> bool:
        is_late = or_begin_after is not None and moments(folder, "begin")[-1] > or_begin_after
        return is_late or len(moments(folder, "end")) >= count

    wait_for(look, f"{count} tasks ended", 15)


def test_sigquit_loses_the_running_tasks(tmp_path: Path, redis_url: str, redis_client: Any) -> None:
    """Guards celery/concurrency/gevent.py:TaskPool._make_killable_target, which makes a success of a kill.

    When this fails, Celery has cured it and the verdict of our pool on a killed greenlet may go.
    """
    with WorkerProcess(tmp_path, redis_url, kind="plain", slots=4, arguments=ALONE) as worker:
        worker.wait_ready()
        publish(redis_url, 4, 60)
        wait_for_begins(tmp_path, 4)
        worker.send(signal.SIGQUIT)
        worker.wait()
    assert not effects(tmp_path / "marks")
    assert redis_client.exists("work", "unacked") == 0


def test_messages_of_a_killed_worker_never_come_back(tmp_path: Path, redis_url: str, redis_client: Any) -> None:
    """Guards kombu/transport/redis.py:MultiChannelPoller.get, which sweeps after an empty poll, and BRPOP always answers first.

    When this fails, kombu has cured it and our own sweep may go. The second worker has a queue of its own: what it
    sweeps is the same for all, and so the first one is sure to have taken the tasks.
    """
    taker = WorkerProcess(tmp_path, redis_url, kind="plain", name="a", slots=4, visibility=3)
    sweeper = WorkerProcess(tmp_path, redis_url, kind="plain", name="b", queues="other", visibility=3)
    with taker, sweeper:
        taker.wait_ready()
        sweeper.wait_ready()
        publish(redis_url, 4, 60)
        wait_for_begins(tmp_path, 4)
        taker.kill()
        with pytest.raises(AssertionError, match="not within 8 s"):
            wait_for(lambda: redis_client.llen("work"), "back in the queue", 8)
        with LOOSE.Connection(redis_url, transport_options={"visibility_timeout": 3}) as connection:
            connection.default_channel.qos.restore_visible(interval=1)
        assert redis_client.llen("work") == 4  # they were due


def test_task_limit_is_ignored(tmp_path: Path, redis_url: str) -> None:
    """Guards celery/worker/components.py:Pool.create, whose maxtasksperchild the gevent pool does not read.

    When this fails, Celery has cured it and our renewal of the process may go.
    """
    arguments = (*ALONE, "--max-tasks-per-child", "2", "--prefetch-multiplier", "6")
    with WorkerProcess(tmp_path, redis_url, kind="plain", slots=2, arguments=arguments) as worker:
        worker.wait_ready()
        publish(redis_url, 12, 0.01)
        wait_for_ends(tmp_path, 12)
    assert {pid for _, _, pid, _ in marks(tmp_path / "marks")} == {worker.pid}


def most_at_once(folder: Path, until: float) -> int:
    """The most tasks that ran at the same time before this moment."""
    steps = [(moment, 1) for moment in moments(folder, "begin")] + [(moment, -1) for moment in moments(folder, "end")]
    running = most = 0
    for _, step in sorted(step for step in steps if step[0] < until):
        running += step
        most = max(most, running)
    return most


def test_autoscale_grows_about_one_slot_a_second(tmp_path: Path, redis_url: str) -> None:
    """Guards celery/worker/autoscale.py:Autoscaler.body, which alone scales, once a second, by the one request it sees missing.

    When this fails, Celery has cured it and our autoscaler may go.
    """
    with WorkerProcess(tmp_path, redis_url, kind="plain", autoscale=(20, 2), arguments=ALONE) as worker:
        worker.wait_ready()
        publish(redis_url, 40, 0.3)
        wait_for_begins(tmp_path, 1)
        first = moments(tmp_path, "begin")[0]
        wait_for_ends(tmp_path, 40, or_begin_after=first + 2)
    assert 2 <= most_at_once(tmp_path, first + 2) < 10


def test_late_acknowledgement_at_prefetch_one_leaves_idle_gaps(tmp_path: Path, redis_url: str) -> None:
    """Guards celery/worker/loops.py:synloop with kombu/transport/redis.py:MultiChannelPoller.on_poll_start.

    A full window sends no BRPOP, so nothing wakes the poll of two seconds. 40 naps of 0.05 s on 4 slots want 0.5 s.
    When this fails, it has been cured and the bell of our transport may go.
    """
    with WorkerProcess(tmp_path, redis_url, kind="plain", slots=4, arguments=ALONE) as worker:
        worker.wait_ready()
        publish(redis_url, 40, 0.05)
        wait_for_begins(tmp_path, 1)
        first = moments(tmp_path, "begin")[0]
        wait_for_ends(tmp_path, 40, or_begin_after=first + 1.5)
    assert sum(moment < first + 1.5 for moment in moments(tmp_path, "end")) < 40


def test_soft_limit_never_fires(tmp_path: Path, redis_url: str) -> None:
    """Guards celery/concurrency/gevent.py:TaskPool.on_apply, which takes no soft_timeout.

    When this fails, Celery has cured it and the refusal of soft limits may go.
    """
    with WorkerProcess(tmp_path, redis_url, kind="plain", arguments=ALONE) as worker:
        worker.wait_ready()
        publish(redis_url, 1, 1.5, soft_time_limit=1)
        wait_for_ends(tmp_path, 1)
    assert "SoftTimeLimitExceeded" not in worker.log


@pytest.fixture
def own_redis_url(tmp_path: Path) -> Iterator[str]:
    """The address of a Redis that this test may stop."""
    server = EmbeddedValkey(tmp_path / "valkey", password=None, durable=False)
    server.start()
    yield server.url
    server.stop()


BROKEN = """
import contextlib, json, kombu, os, redis, sys
url, found, got = sys.argv[1], [], []
connection = kombu.Connection(url)
tasks = connection.Consumer([kombu.Queue("work", kombu.Exchange("work"), "work")], callbacks=[lambda *_: got.append(1)])
tasks.consume()
connection.Producer().publish("a", exchange="work", routing_key="work", serializer="json")
while not got:
    connection.drain_events(timeout=5)
events = kombu.Queue("own", kombu.Exchange("events", type="fanout"), auto_delete=True)
gossip = kombu.Consumer(connection.channel(), [events])
gossip.consume()
with contextlib.suppress(TimeoutError):
    connection.drain_events(timeout=0.1)
assert connection.default_channel._in_poll
redis.Redis.from_url(url).shutdown(nosave=True)
for step in (connection.collect, connection.close):
    try:
        step()
        found.append("done")
    except Exception as error:
        found.append(repr(error))
print(json.dumps(found), flush=True)
os._exit(0)
"""


def test_connection_that_is_closed_after_it_was_collected_raises(tmp_path: Path, own_redis_url: str) -> None:
    """Guards celery/worker/consumer/consumer.py:Consumer.on_connection_error_after_connected, which calls collect, then close.

    With a message in hand, a BRPOP in flight and a second channel that cannot close (gossip's, whose queue wants to be
    deleted), `collect` leaves the first channel open. `close` then restores through a transport that has lost its client,
    no connection error, so the worker ends. When this fails, it has been cured and a restore of ours that survives a lost
    broker may go.
    """
    assert run(tmp_path, "-c", BROKEN, own_redis_url) == [
        "done",
        "AttributeError(\"'NoneType' object has no attribute 'hostname'\")",
    ]


SLEEP = """
import gevent.monkey, json, kombu.utils.functional, os
stock = gevent.monkey.get_original("time", "sleep")
found = [gevent.monkey.is_module_patched("time"), kombu.utils.functional.sleep is stock]
print(json.dumps(found), flush=True)
os._exit(0)
"""


def test_retries_of_kombu_sleep_in_the_hub(tmp_path: Path) -> None:
    """Guards celery/__init__.py:maybe_patch_concurrency: kombu is imported by a proxy while gevent has yet to patch time.

    So kombu/utils/functional.py:retry_over_time, which waits for a broken connection, stops every greenlet. When this
    fails, it has been cured and our rebinding of that sleep may go.
    """
    (tmp_path / "sleep.py").write_text(SLEEP)
    command = ("-m", "celery", "--app", "sleep", "worker", "--pool", "gevent")
    assert run(tmp_path, *command) == [True, True]


POOL = """
import gevent, json
from celery.concurrency.gevent import TaskPool
called = []
def fail():
    raise ConnectionError("the result could not be stored")
gevent.get_hub().print_exception = lambda *_: None
pool = TaskPool(2)
pool.start()
pool.apply_async(
    fail,
    callback=lambda *_: called.append("callback"),
    error_callback=lambda *_: called.append("error_callback"),
    accept_callback=lambda *_: called.append("accept_callback"),
)
pool.stop()
print(json.dumps(called))
"""


def test_exception_that_escapes_leaves_a_ghost(tmp_path: Path) -> None:
    """Guards celery/concurrency/base.py:apply_target and celery/concurrency/gevent.py:TaskPool.on_apply.

    The request hears neither of success nor of failure, so it stays active and its message keeps a place in the window.
    When this fails, Celery has cured it and the verdict of our pool on an escaped exception may go.
    """
    assert run(tmp_path, "-c", POOL) == ["accept_callback"]

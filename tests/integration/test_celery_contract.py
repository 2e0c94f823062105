"""What our worker relies on in Celery and kombu, each with the source it guards: an upgrade that moves it fails here first.

The faults of stock Celery that our worker exists for stand in `test_celery_faults.py`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import celery
import kombu
import pytest
import redis
from billiard.einfo import ExceptionInfo
from celery import Celery
from celery.exceptions import Reject
from celery.worker.request import Request

from worker_app import runtime
from worker_app.embedded.stores import StoreAddresses

pytestmark = pytest.mark.integration

QUEUE = "contract"
LOOSE: Any = kombu  # annotated here and there, so each call would count as an untyped one
NEVER_REACHED = "redis://127.0.0.1:1/0"  # for what must not connect
PROBE = '''
"""A worker that notes what Celery does to it, and stops itself through the flag from within its only task."""

import atexit
import json
import os
import signal

import kombu.transport
import kombu.transport.redis
from celery import Celery, bootsteps, signals
from celery.concurrency.gevent import TaskPool
from celery.worker import state
from celery.worker.autoscale import Autoscaler

seen = {"order": [], "timeouts": []}


class ProbeTransport(kombu.transport.redis.Transport):
    def drain_events(self, connection, timeout=None):
        seen["timeouts"].append(timeout)
        return super().drain_events(connection, timeout=timeout)


class ProbePool(TaskPool):
    def on_apply(self, target, args=None, kwargs=None, **options):
        seen["order"].append("pool")
        seen["callbacks"] = {key: value.__name__ for key, value in options.items() if callable(value)}
        seen["correlation_id"] = options["correlation_id"]
        return super().on_apply(target, args, kwargs, **options)


class ProbeAutoscaler(Autoscaler):
    def on_task_received(self, req):
        seen["order"].append("autoscaler")
        seen["qty"] = self.qty
        super().on_task_received(req)


class WorkerStep(bootsteps.StartStopStep):
    requires = ("celery.worker.components:Pool",)

    def start(self, parent):
        seen["pool"] = type(parent.pool).__name__
        seen["handlers"] = [signal.getsignal(number).__module__ for number in (signal.SIGTERM, signal.SIGQUIT)]


class ConsumerStep(bootsteps.StartStopStep):
    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, parent):
        seen["loop"] = parent.loop.__name__
        seen["hub"] = parent.hub
        seen["transport"] = type(parent.connection.transport).__name__


kombu.transport.TRANSPORT_ALIASES["redis"] = "probe:ProbeTransport"
app = Celery("probe", broker=os.environ["REDIS_URL"])
app.conf.update(task_default_queue="contract", task_acks_late=True, worker_autoscaler="probe:ProbeAutoscaler")
app.steps["worker"].add(WorkerStep)
app.steps["consumer"].add(ConsumerStep)


@app.task(name="stop")
def stop():
    seen["order"].append("body")
    state.should_stop = 0


@signals.worker_init.connect
def on_init(sender, **_):
    seen["order"].append("worker_init")
    sender.pool_cls = ProbePool


for name in ("worker_ready", "worker_process_init", "worker_shutdown"):
    getattr(signals, name).connect(lambda name=name, **_: seen["order"].append(name), weak=False)


@atexit.register
def write():
    with open("probe.json", "w") as file:
        json.dump(seen, file)
'''


def finish(command: list[str], folder: Path, **environment: str) -> str:
    """What a process has printed when it has ended well; nothing of this machine's settings comes through."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_worker(folder: Path, app: str, source: str, *arguments: str, **environment: str) -> Any:
    """What a worker of the app in `source` has written to `app`.json when it has ended."""
    (folder / f"{app}.py").write_text(source)
    options = ["--without-mingle", "--without-gossip", *arguments]
    command = [sys.executable, "-m", "celery", "--app", app, "worker", *options]
    finish(command, folder, **environment)
    return json.loads((folder / f"{app}.json").read_text())


@pytest.fixture(scope="module")
def seen(stores: StoreAddresses, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the probe noted from its start to its end, with one task in between."""
    redis = runtime.redis_client(stores.redis_url, connections=1)
    redis.flushall()  # what other tests left there on purpose, the probe could not work with
    redis.close()
    with Celery("producer", broker=stores.redis_url, set_as_current=False) as producer:
        producer.send_task("stop", task_id="an-id", queue=QUEUE, ignore_result=True)
    arguments = ("--pool", "gevent", "--autoscale", "4,2")
    noted = run_worker(tmp_path_factory.mktemp("probe"), "probe", PROBE, *arguments, REDIS_URL=stores.redis_url)
    assert isinstance(noted, dict)
    return noted


def test_versions_are_at_the_floor() -> None:
    """Guards celery/concurrency/gevent.py:TaskPool.num_processes; before 5.7 it counts what runs, and autoscale goes wrong."""
    assert tuple(celery.VERSION[:2]) >= (5, 7)
    assert tuple(kombu.VERSION[:2]) >= (5, 7)


def test_worker_init_comes_before_the_pool_class_and_may_choose_it(seen: dict[str, Any]) -> None:
    """Guards celery/worker/worker.py:WorkController.setup_instance."""
    assert seen["pool"] == "ProbePool"


def test_handlers_of_celery_are_installed_before_the_steps_start(seen: dict[str, Any]) -> None:
    """Guards celery/apps/worker.py:Worker.on_start; a step that installs its own handlers replaces Celery's."""
    assert seen["handlers"] == ["celery.apps.worker"] * 2


def test_autoscaler_hears_of_a_message_before_the_pool_does(seen: dict[str, Any]) -> None:
    """Guards celery/worker/strategy.py:default (callbacks run before handle) and celery/worker/autoscale.py:WorkerComponent."""
    assert seen["order"] == ["worker_init", "worker_ready", "autoscaler", "pool", "body", "worker_shutdown"]


def test_autoscaler_counts_the_message_that_it_hears_of(seen: dict[str, Any]) -> None:
    """Guards celery/worker/strategy.py:default (reserved before the callbacks) and celery/worker/autoscale.py:Autoscaler.qty."""
    assert seen["qty"] == 1


def test_worker_process_init_is_not_sent_under_gevent(seen: dict[str, Any]) -> None:
    """Guards celery/concurrency/prefork.py:process_initializer; what it would set up has to be set up in worker_init."""
    assert "worker_process_init" not in seen["order"]
    assert "worker_ready" in seen["order"]


def test_gevent_consumer_loops_without_an_event_loop(seen: dict[str, Any]) -> None:
    """Guards celery/worker/worker.py:WorkController.should_use_eventloop and celery/worker/consumer/consumer.py:Consumer."""
    assert seen["loop"] == "synloop"
    assert seen["hub"] is None


def test_loop_drains_with_a_timeout(seen: dict[str, Any]) -> None:
    """Guards celery/worker/loops.py:synloop; a transport that is asked without a timeout would hold the loop."""
    assert seen["timeouts"]
    assert all(0 < timeout <= 2.0 for timeout in seen["timeouts"])


def test_loop_looks_at_the_stop_flag_in_each_cycle(seen: dict[str, Any]) -> None:
    """Guards celery/worker/loops.py:synloop and celery/worker/state.py:maybe_shutdown; nothing else has ended the probe."""
    assert seen["order"][-2:] == ["body", "worker_shutdown"]


def test_request_hands_its_callbacks_to_the_pool(seen: dict[str, Any]) -> None:
    """Guards celery/worker/request.py:create_request_cls, execute_using_pool."""
    assert seen["callbacks"] == {
        "accept_callback": "on_accepted",
        "callback": "on_success",
        "error_callback": "on_failure",
        "timeout_callback": "on_timeout",
    }
    assert seen["correlation_id"] == "an-id"


def test_alias_decides_the_transport_of_a_worker(seen: dict[str, Any]) -> None:
    """Guards kombu/transport/__init__.py:TRANSPORT_ALIASES, resolve_transport."""
    assert seen["transport"] == "ProbeTransport"


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_alias_decides_the_transport_of_both_schemes(tmp_path: Path, scheme: str) -> None:
    """Guards kombu/transport/__init__.py:TRANSPORT_ALIASES, get_transport_cls, resolve_transport.

    An alias may be a callable that gives the class, and what was looked up before is kept in `_transport_cache` alone.
    """
    code = f"""
import json, kombu, kombu.transport as transports, kombu.transport.redis as stock
class Ours(stock.Transport): pass
def name(): return type(kombu.Connection("{scheme}://127.0.0.1:1/0?ssl_cert_reqs=required").transport).__name__
found = [name()]
transports.TRANSPORT_ALIASES["{scheme}"] = lambda: Ours
transports._transport_cache.pop("{scheme}")
found.append(name())
print(json.dumps(found))
"""
    assert json.loads(finish([sys.executable, "-c", code], tmp_path)) == ["Transport", "Ours"]


READY = """
import json, os
from celery import Celery, signals
app = Celery("ready", broker="memory://")
app.conf.worker_pool = os.environ.get("POOL") or "prefork"
@signals.worker_ready.connect
def on_ready(sender, **_):
    import gevent.monkey
    found = [type(sender.pool).__module__, gevent.monkey.is_module_patched("socket")]
    with open("ready.json", "w") as file:
        json.dump(found, file)
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("arguments", "configured", "is_patched"),
    [(["--pool", "gevent"], "", True), (["-P", "gevent"], "", True), ([], "gevent", False)],
)
def test_argv_alone_patches(tmp_path: Path, arguments: list[str], configured: str, is_patched: bool) -> None:
    """Guards celery/__init__.py:maybe_patch_concurrency; the pool by configuration is gevent's and nothing is patched."""
    found = run_worker(tmp_path, "ready", READY, *arguments, POOL=configured)
    assert found == ["celery.concurrency.gevent", is_patched]


@pytest.mark.parametrize(("is_thread_safe", "backends"), [(True, 1), (False, 3)])
def test_thread_safe_backend_is_one_for_all_greenlets(tmp_path: Path, is_thread_safe: bool, backends: int) -> None:
    """Guards celery/app/base.py:Celery._backend; without the setting each greenlet, so each task, makes its own."""
    code = f"""
from gevent import monkey; monkey.patch_all()
import gevent, json
from celery import Celery
app = Celery("backend", backend={NEVER_REACHED!r})
app.conf.result_backend_thread_safe = {is_thread_safe}
jobs = [gevent.spawn(lambda: app.backend) for _ in range(3)]
gevent.joinall(jobs)
print(json.dumps(len({{id(job.value) for job in jobs}})))
"""
    assert json.loads(finish([sys.executable, "-c", code], tmp_path)) == backends


@dataclass
class Verdicts:
    """What a request told its message: the stand-in for the broker's side."""

    told: list[str] = field(default_factory=list)

    def on_ack(self, _logger: object, _errors: object) -> None:
        self.told.append("ack")

    def on_reject(self, _logger: object, _errors: object, requeue: bool) -> None:
        self.told.append("requeue" if requeue else "reject")


@pytest.fixture
def verdicts() -> Verdicts:
    return Verdicts()


def nothing() -> None:
    pass


@pytest.fixture
def request_of_a_late_task(verdicts: Verdicts) -> Any:
    """A request as the consumer makes it, of a task that is acknowledged late."""
    app = Celery("contract", broker="memory://", set_as_current=False)
    task = app.task(name="late", acks_late=True, ignore_result=True)(nothing)
    made = app.amqp.as_task_v2("an-id", task.name, (), {})
    content_type, content_encoding, body = LOOSE.serialization.dumps(made.body, serializer="json")
    message = LOOSE.Message(
        body=body,
        content_type=content_type,
        content_encoding=content_encoding,
        headers=made.headers,
        properties=made.properties,
        delivery_info={"exchange": "", "routing_key": QUEUE},
    )
    return Request(message, app=app, task=task, on_ack=verdicts.on_ack, on_reject=verdicts.on_reject)


def test_reject_after_acknowledge_does_nothing(verdicts: Verdicts, request_of_a_late_task: Any) -> None:
    """Guards celery/worker/request.py:Request.reject; so a message gets one verdict, whoever comes second."""
    request_of_a_late_task.acknowledge()
    request_of_a_late_task.reject(requeue=True)
    assert verdicts.told == ["ack"]


def test_acknowledge_after_reject_does_nothing(verdicts: Verdicts, request_of_a_late_task: Any) -> None:
    """Guards celery/worker/request.py:Request.acknowledge."""
    request_of_a_late_task.reject(requeue=True)
    request_of_a_late_task.acknowledge()
    assert verdicts.told == ["requeue"]


def test_failure_by_reject_gives_the_message_back(verdicts: Verdicts, request_of_a_late_task: Any) -> None:
    """Guards celery/worker/request.py:Request.on_failure, the branch of Reject."""

    def body() -> None:
        raise Reject("given back", requeue=True)

    try:
        body()
    except Reject:
        request_of_a_late_task.on_failure(ExceptionInfo())
    assert verdicts.told == ["requeue"]


def test_hard_limit_acknowledges_by_default(verdicts: Verdicts, request_of_a_late_task: Any) -> None:
    """Guards celery/worker/request.py:Request.on_timeout and celery/app/task.py:Task.acks_on_timeout."""
    assert request_of_a_late_task.task.acks_on_timeout is True
    request_of_a_late_task.on_timeout(soft=False, timeout=2)
    assert verdicts.told == ["ack"]


@dataclass
class Consuming:
    """A consumer of one queue in this process, which settles nothing by itself."""

    connection: Any
    channel: Any
    got: list[Any] = field(default_factory=list)

    def publish(self, body: str) -> None:
        self.connection.Producer().publish(body, exchange=QUEUE, routing_key=QUEUE, serializer="json")

    def take(self, count: int) -> list[Any]:
        while len(self.got) < count:
            self.connection.drain_events(timeout=5)
        return self.got


@pytest.fixture
def consuming(redis_url: str) -> Iterator[Consuming]:
    """A consumer with a visibility timeout of 60 s on an empty queue, bound to an exchange of the same name."""
    connection = LOOSE.Connection(redis_url, transport_options={"visibility_timeout": 60})
    with connection:
        made = Consuming(connection, connection.default_channel)
        queue = LOOSE.Queue(QUEUE, LOOSE.Exchange(QUEUE), routing_key=QUEUE)
        consumer = connection.Consumer([queue], callbacks=[lambda _, message: made.got.append(message)])
        consumer.consume()
        yield made
        made.channel.qos.restore_at_shutdown = False


def waiting(client: Any) -> list[dict[str, Any]]:
    """The messages of the queue, from its left end to its right one."""
    return [json.loads(text) for text in client.lrange(QUEUE, 0, -1)]


def unacked(client: Any) -> dict[str, Any]:
    """What stands in the hash of the messages that are taken, by tag."""
    return {tag.decode(): json.loads(text) for tag, text in client.hgetall("unacked").items()}


def taken_at(client: Any) -> dict[str, float]:
    """What stands in their index, by tag."""
    return {tag.decode(): moment for tag, moment in client.zrange("unacked_index", 0, -1, withscores=True)}


def test_taken_message_stands_in_a_hash_and_a_sorted_set(consuming: Consuming, redis_client: Any) -> None:
    """Guards kombu/transport/redis.py:QoS.append; our scripts read and write the same keys."""
    before = time.time()
    consuming.publish("a")
    (message,) = consuming.take(1)
    tag = message.delivery_tag
    (noted,) = unacked(redis_client).items()
    envelope = noted[1][0]
    assert noted == (tag, [envelope, QUEUE, QUEUE])
    assert envelope["properties"]["delivery_tag"] == tag
    assert envelope["properties"]["delivery_info"] == {"exchange": QUEUE, "routing_key": QUEUE}
    ((indexed, moment),) = taken_at(redis_client).items()
    assert indexed == tag
    assert before <= moment <= time.time()


def test_acknowledged_message_leaves_both(consuming: Consuming, redis_client: Any) -> None:
    """Guards kombu/transport/redis.py:QoS.ack."""
    consuming.publish("a")
    (message,) = consuming.take(1)
    message.ack()
    assert redis_client.exists("unacked", "unacked_index") == 0
    assert consuming.channel.qos.can_consume()


def test_failed_acknowledgement_keeps_its_place_in_the_window(consuming: Consuming, redis_client: Any) -> None:
    """Guards kombu/transport/redis.py:QoS.ack, which asks Redis first and forgets the tag only then.

    A fault: when this fails, kombu has cured it and a failed acknowledgement costs no slot any more.
    """
    consuming.channel.basic_qos(0, 1, False)
    consuming.publish("a")
    (message,) = consuming.take(1)
    redis_client.delete("unacked_index")
    redis_client.set("unacked_index", "of another type, so that Redis refuses")
    with pytest.raises(redis.ResponseError):
        message.ack()
    assert not consuming.channel.qos.can_consume()


def test_message_is_put_at_the_left_and_taken_at_the_right(consuming: Consuming, redis_client: Any) -> None:
    """Guards kombu/transport/redis.py:Channel._put and _brpop_read; the list has the name of the queue."""
    consuming.channel.basic_qos(0, 1, False)
    for body in "abc":
        consuming.publish(body)
    (first,) = consuming.take(1)
    assert first.payload == "a"
    bodies = [consuming.channel.Message(item, channel=consuming.channel).payload for item in waiting(redis_client)]
    assert bodies == ["c", "b"]


def test_sweep_restores_what_is_older_than_the_timeout(consuming: Consuming, redis_client: Any) -> None:
    """Guards kombu/transport/redis.py:QoS.restore_visible and Channel._do_restore_message: flags, end of the list, age."""
    consuming.channel.basic_qos(0, 2, False)
    for body in "abc":
        consuming.publish(body)
    old, young = consuming.take(2)
    redis_client.zadd("unacked_index", {old.delivery_tag: time.time() - 61})
    consuming.channel.qos.restore_visible(interval=1)
    untouched, restored = waiting(redis_client)
    assert restored["properties"]["delivery_tag"] == old.delivery_tag
    assert restored["headers"]["redelivered"] is True
    assert restored["properties"]["delivery_info"]["redelivered"] is True
    assert "redelivered" not in untouched["headers"]
    assert set(unacked(redis_client)) == set(taken_at(redis_client)) == {young.delivery_tag}


def test_requeued_message_becomes_the_last_one(consuming: Consuming, redis_client: Any) -> None:
    """Guards kombu/transport/redis.py:QoS.reject; what is given back at once does not come back at once."""
    consuming.channel.basic_qos(0, 1, False)
    for body in "ab":
        consuming.publish(body)
    (first,) = consuming.take(1)
    first.reject(requeue=True)
    left, _right = waiting(redis_client)
    assert left["properties"]["delivery_tag"] == first.delivery_tag
    assert left["headers"]["redelivered"] is True


def test_consumer_is_called_through_the_transport(consuming: Consuming) -> None:
    """Guards kombu/transport/virtual/base.py:Channel.basic_consume and Transport._deliver."""
    assert list(consuming.connection.transport._callbacks) == [QUEUE]
    assert consuming.channel.connection is consuming.connection.transport
    envelope = consuming.channel.prepare_message(
        "null", content_type="application/json", content_encoding="utf-8", properties={"delivery_tag": "by hand"}
    )
    envelope["properties"]["delivery_info"] |= {"exchange": QUEUE, "routing_key": QUEUE}
    consuming.connection.transport._deliver(envelope, QUEUE)
    assert [message.delivery_tag for message in consuming.got] == ["by hand"]


def test_channel_waits_with_one_brpop_and_with_none_at_a_full_window(consuming: Consuming, redis_client: Any) -> None:
    """Guards kombu/transport/redis.py:MultiChannelPoller.on_poll_start; a full window sleeps until its poll ends."""

    def brpops() -> int:
        return sum(client["cmd"] == "brpop" and "b" in client["flags"] for client in redis_client.client_list())

    consuming.channel.basic_qos(0, 1, False)
    with pytest.raises(TimeoutError):
        consuming.connection.drain_events(timeout=0.1)
    assert brpops() == 1
    consuming.publish("a")
    consuming.take(1)
    with pytest.raises(TimeoutError):
        consuming.connection.drain_events(timeout=0.1)
    assert brpops() == 0

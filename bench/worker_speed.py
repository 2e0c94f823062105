"""How fast work gets done: bursts, throughput, queries, and the same work on other task queues."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dramatiq
import redis
import rq
from dramatiq.brokers.redis import RedisBroker

from bench.worker_ledger import Ledger
from bench.worker_process import TOP, wait_for
from bench.worker_report import Values
from bench.worker_stage import LOOK_SECONDS, QUEUE, Stage, cpu_seconds, seconds_until

FIRST_TASK_SECONDS = 30.0
STALL_SECONDS = 15.0  # without one more task done, the measurement ends with what there is


def burst(
    stage: Stage,
    kind: str,
    *,
    count: int,
    seconds: float,
    slots: int = 20,
    autoscale: tuple[int, int] | None = None,
    pool: str = "gevent",
    limit_seconds: float,
) -> Values:
    """Seconds until naps that arrive all at once at an idle worker have ended, acknowledged or not."""
    stage.fill_naps(count, seconds)
    stage.hold()
    worker = stage.worker(kind, slots=slots, autoscale=autoscale, pool=pool)
    ledger, since = Ledger(stage.marks_path), stage.release()

    def is_over() -> bool:
        assert worker.process.poll() is None, f"the worker ended with {worker.process.returncode}"
        return len(ledger.read().ended) == count

    return {"seconds": seconds_until(is_over, limit_seconds, since)}


def burst_to_max(
    stage: Stage, kind: str, *, count: int, seconds: float, most: int, least: int, limit_seconds: float
) -> Values:
    """Seconds from a burst at an idle autoscaling worker until all its slots run."""
    stage.fill_naps(count, seconds)
    stage.hold()
    stage.worker(kind, autoscale=(most, least))
    since = stage.release()
    return {"seconds": seconds_until(lambda: stage.running() >= most, limit_seconds, since)}


def pg_sleep(stage: Stage, kind: str, *, count: int, seconds: float, slots: int, limit_seconds: float) -> Values:
    """Seconds that queries take which sleep in Postgres, one on each slot."""
    url = stage.database_url().replace("postgresql+psycopg2", "postgresql")
    stage.fill("query", [(seconds,)] * count)
    stage.hold()
    worker = stage.worker(kind, slots=slots, environment={"DATABASE_URL": url})
    stage.fill("query", [(0,)])  # so that the driver is loaded
    assert stage.emptied(worker, time.monotonic(), FIRST_TASK_SECONDS) is not None, "the first query did not end"
    return {"seconds": stage.emptied(worker, stage.release(), limit_seconds)}


@dataclass(frozen=True, slots=True)
class Pace:
    """How a queue that was full before the worker started was worked off."""

    per_second: float
    cpu_ms: float  # of the worker's processes, per task

    def values(self) -> Values:
        """By the keys of the rows."""
        return {"per_second": self.per_second, "cpu_ms": self.cpu_ms}


def pace(pid: int, left: Callable[[], int], *, count: int, limit_seconds: float) -> Pace:
    """From the first to the last task that is done, as seen from outside; `left` counts the tasks that are not."""

    def first() -> tuple[int, float, float] | None:
        now = left()
        return (now, time.monotonic(), cpu_seconds(pid)) if now < count else None

    begun_left, begun_at, begun_cpu = wait_for(first, "a first task is done", FIRST_TASK_SECONDS)
    now, changed_at = begun_left, begun_at
    while now and time.monotonic() < min(begun_at + limit_seconds, changed_at + STALL_SECONDS):
        time.sleep(LOOK_SECONDS)
        if (seen := left()) != now:
            now, changed_at = seen, time.monotonic()
    done = begun_left - now
    assert done > 0, "the tasks were done before they could be counted: take more of them"
    cpu = cpu_seconds(pid) - begun_cpu
    return Pace(done / (changed_at - begun_at), 1000 * cpu / done)


def throughput(
    stage: Stage,
    kind: str,
    *,
    count: int,
    seconds: float = 0.0,
    slots: int = 20,
    keeps_results: bool,
    pool: str = "gevent",
    limit_seconds: float,
) -> Values:
    """Tasks per second and processor time per task of a Celery worker; without `seconds` the task does nothing."""
    stage.fill("nap" if seconds else "noop", [(seconds,) if seconds else ()] * count)
    worker = stage.start_worker(kind, slots=slots, pool=pool, results="1" if keeps_results else "")
    worker.wait_ready()
    return pace(worker.pid, stage.left, count=count, limit_seconds=limit_seconds).values()


def prefork(stage: Stage, measure: Callable[..., Values], **sizes: Any) -> Values:
    """The same on stock Celery with four processes."""
    return measure(stage, "plain", **{**sizes, "pool": "prefork", "slots": 4})


def threads(stage: Stage, measure: Callable[..., Values], **sizes: Any) -> Values:
    """The same on stock Celery with twenty threads."""
    return measure(stage, "plain", **{**sizes, "pool": "threads", "slots": 20})


def dramatiq_throughput(
    stage: Stage, *, count: int, seconds: float = 0.0, slots: int = 20, keeps_results: bool, limit_seconds: float
) -> Values:
    """The same on one process of dramatiq with so many greenlets."""
    pid, left = _dramatiq(stage, count=count, seconds=seconds, slots=slots, keeps_results=keeps_results)
    return pace(pid, left, count=count, limit_seconds=limit_seconds).values()


def dramatiq_burst(stage: Stage, *, count: int, seconds: float, slots: int = 20, limit_seconds: float) -> Values:
    """Seconds from the first begin to the last end, with the queue full before; there is no ready state to wait for."""
    _dramatiq(stage, count=count, seconds=seconds, slots=slots, keeps_results=False)
    ledger = Ledger(stage.marks_path)
    took = seconds_until(lambda: len(ledger.read().ended) == count, FIRST_TASK_SECONDS + limit_seconds)
    begun = [at for begins in ledger.begun.values() for _, at in begins]
    ended = [at for ends in ledger.ended.values() for _, at in ends]
    return {"seconds": None if took is None else max(ended) - min(begun)}


def _dramatiq(
    stage: Stage, *, count: int, seconds: float, slots: int, keeps_results: bool
) -> tuple[int, Callable[[], int]]:
    client: Any = stage.redis()
    broker = RedisBroker(url=stage.url())
    broker.declare_queue(QUEUE)
    for number in range(count):
        broker.enqueue(
            dramatiq.Message(
                queue_name=QUEUE,
                actor_name="nap" if seconds else "noop",
                args=(seconds, f"nap-{number}") if seconds else (),
                kwargs={},
                options={},
            )
        )
    broker.client.close()
    command = [
        str(Path(sys.executable).with_name("dramatiq-gevent")),
        "bench.peers",
        "--processes",
        "1",
        "--threads",
        str(slots),
        "--queues",
        QUEUE,
    ]
    program = stage.program(command, environment=_environment(stage, keeps_results), directory=TOP)
    return program.pid, lambda: int(client.hlen(f"dramatiq:{QUEUE}.msgs"))


def rq_throughput(
    stage: Stage, *, count: int, seconds: float = 0.0, keeps_results: bool, limit_seconds: float, **_: object
) -> Values:
    """The same on one rq worker as it is shipped: a fork for each task, one at a time."""
    client: Any = stage.redis()
    with redis.Redis.from_url(stage.url()) as sender:
        queue = rq.Queue(QUEUE, connection=sender)
        life = 500 if keeps_results else 0  # seconds; the first is rq's own
        queue.enqueue_many(
            rq.Queue.prepare_data(
                "bench.peers.rq_nap" if seconds else "bench.peers.rq_noop",
                args=(seconds,) if seconds else (),
                result_ttl=life,
            )
            for _ in range(count)
        )
    # imported before the fork, as rq advises: each task would import its module again
    main = "import bench.peers; from rq.cli import main; main()"
    command = [sys.executable, "-c", main, "worker", QUEUE, "--url", stage.url(), "--quiet"]
    program = stage.program(command, environment=_environment(stage, keeps_results), directory=TOP)

    def left() -> int:
        with client.pipeline(transaction=True) as pipe:
            pipe.llen(f"rq:queue:{QUEUE}")
            pipe.zcard(f"rq:wip:{QUEUE}")
            return int(sum(pipe.execute()))

    return pace(program.pid, left, count=count, limit_seconds=limit_seconds).values()


def _environment(stage: Stage, keeps_results: bool) -> dict[str, str]:
    return {
        "PATH": str(Path(sys.executable).parent),
        "HOME": str(stage.folder),
        "PYTHONPATH": str(TOP),
        "REDIS_URL": stage.url(),
        "WORKLOAD_MARKS": str(stage.marks_path),
        "WORKLOAD_RESULTS": "1" if keeps_results else "",
    }

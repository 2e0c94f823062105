"""What a worker takes: connections, memory, processor time while idle, time to start; and whether it renews itself."""

import re
import time

from bench.worker_process import WorkerProcess
from bench.worker_report import Values
from bench.worker_stage import SETTLE_SECONDS, Stage, begun_all, cpu_seconds, sampled, seconds_until

LEAK_KIBIBYTES = 4096
LEAK_EVERY_SECONDS = 0.4  # 10 MB a second: a watch that looks every 5 s sees 50 MB at most between two looks


def new_connections(stage: Stage, kind: str, *, count: int, slots: int, limit_seconds: float) -> Values:
    """Connections that Redis accepts while a ready worker does so many tasks and keeps their results."""
    stage.fill("nap", [(0.01,)] * count)
    stage.hold()
    worker = stage.worker(kind, slots=slots, results="1")
    before = stage.connections_received()
    stage.emptied(worker, stage.release(), limit_seconds)
    return {"count": float(stage.connections_received() - before)}


def clients(stage: Stage, kind: str, *, count: int, seconds: float, slots: int, limit_seconds: float) -> Values:
    """The most connections at once under load, acknowledgements that stay open after it, and the slots that are left."""
    stage.fill("nap", [(seconds,)] * count)
    stage.hold()
    worker = stage.worker(kind, slots=slots, results="1")
    with sampled(stage.clients_count, 0.05) as samples:
        stage.emptied(worker, stage.release(), limit_seconds)
    stage.redis().delete("work")  # what stock had no time for
    seconds_until(lambda: stage.unacked() == 0, 2.0)
    unacked = stage.unacked()
    stage.fill_naps(slots, 4.0, prefix="slot")
    with sampled(lambda: float(stage.running())) as used:
        seconds_until(lambda: max(used, default=0) >= slots, 3.5)
    return {"peak": max(samples), "unacked": float(unacked), "slots": max(used)}


def idle_memory(stage: Stage, kind: str, *, slots: int) -> Values:
    """Megabytes of a worker that waits."""
    worker = stage.worker(kind, slots=slots)
    stage.pause(2.0)
    return {"megabytes": worker.memory_mb()}


def slot_memory(stage: Stage, kind: str, *, few: int, many: int) -> Values:
    """Kilobytes that a slot takes which runs a waiting task: the difference of two workers, by the difference in slots."""
    sizes = {}
    for slots in (few, many):
        stage.fill_naps(slots, 600.0, prefix=f"{slots}")
        with stage.start_worker(kind, name=f"w{slots}", slots=slots).wait_ready() as worker:
            begun_all(stage, slots, prefix=f"{slots}-", deadline_seconds=30.0)
            stage.pause(1.0)
            sizes[slots] = worker.memory_mb()
        stage.redis().flushall()
    return {"kilobytes": 1000 * (sizes[many] - sizes[few]) / (many - few)}


def start(stage: Stage, kind: str) -> Values:
    """Seconds from the start of the process until it consumes."""
    began = time.monotonic()
    worker = stage.start_worker(kind, slots=20).wait_ready()
    assert worker.process.poll() is None
    return {"seconds": time.monotonic() - began}


def idle_cpu(stage: Stage, kind: str, *, seconds: float) -> Values:
    """Processor time of a worker that waits, in percent of one core."""
    worker = stage.worker(kind, slots=20, pulse="")  # the pulse would be the busiest part of it
    stage.pause(2.0)
    before = cpu_seconds(worker.pid)
    stage.pause(seconds)
    return {"percent": 100 * (cpu_seconds(worker.pid) - before) / seconds}


def recycle(stage: Stage, kind: str, *, count: int, slots: int, most_tasks: int, limit_seconds: float) -> Values:
    """How often a worker renews itself that may do so many tasks per slot, and what gets lost or doubled on the way."""
    stage.fill_naps(count, 0.05)
    # Ours reads the environment, stock the command line.
    arguments = ("--max-tasks-per-child", str(most_tasks)) if kind == "plain" else ()
    worker = stage.start_worker(kind, slots=slots, max_tasks=most_tasks, arguments=arguments).wait_ready()
    stage.emptied(worker, time.monotonic(), limit_seconds)
    wanted = count // (most_tasks * slots)
    seconds_until(lambda: starts(worker) > wanted, 5.0)
    return {"renewals": float(starts(worker) - 1), "wrong": _wrong(stage, count)}


def _wrong(stage: Stage, count: int) -> float:
    """Tasks that neither ended nor wait in Redis, and those that ended more than once."""
    done = stage.ended()
    return float(count - len(done) - stage.left() + sum(times > 1 for times in done.values()))


def starts(worker: WorkerProcess) -> int:
    """How often it has said that it is ready: the process id stays the same over renewals, so /proc does not tell."""
    return len(re.findall(r"@\S+ ready\.$", worker.log, re.MULTILINE))


def leak(stage: Stage, kind: str, *, count: int, limit_mb: int) -> Values:
    """The most memory of a worker whose tasks leak, with a limit on its memory."""
    arguments = ("--max-memory-per-child", str(limit_mb * 1024)) if kind == "plain" else ()
    worker = stage.worker(kind, slots=2, max_memory_mb=limit_mb, arguments=arguments)
    with sampled(worker.memory_mb, 0.05) as samples:
        for number in range(count):
            stage.fill("leak", [(LEAK_KIBIBYTES, f"leak-{number}")])
            stage.pause(LEAK_EVERY_SECONDS)
        stage.emptied(worker, time.monotonic(), 20.0)
        stage.pause(SETTLE_SECONDS)
    return {"megabytes": max(samples), "wrong": _wrong(stage, count)}

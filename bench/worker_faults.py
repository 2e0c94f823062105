"""What happens when something breaks or ends: Redis goes away, a worker is killed, told to quit or told to stop."""

import signal
import subprocess
import time

from bench.worker_process import WorkerProcess, marks, wait_for
from bench.worker_report import Value, Values
from bench.worker_stage import Stage, begun_all, seconds_until, visible_for

KEPT_RESULTS = "1"  # the profile promises results; storing one is what breaks stock in an outage


def redis_restart(stage: Stage, kind: str, *, away_seconds: float, slots: int) -> Values:
    """Of three workers, one idle, one half busy and one full: how many end, and how many live and take nothing after."""
    loads = {"idle": 0, "half": slots // 2, "full": 2 * slots}
    workers = []
    for database, (name, count) in enumerate(loads.items()):
        # lengths spread, so that tasks end before, in and after the outage
        stage.fill("nap", ([0.5 + 4.0 * n / count, f"{name}-{n}"] for n in range(count)), database)
        workers.append(stage.start_worker(kind, name=name, slots=slots, database=database, results=KEPT_RESULTS))
    for worker in workers:
        worker.wait_ready()
    begun_all(stage, slots // 2 + slots)
    stage.stop_redis()
    stage.pause(away_seconds)
    stage.start_redis()
    for database, name in enumerate(loads):
        stage.fill("nap", [(0.01, f"after-{name}")], database)
    silent = {f"after-{worker.name}" for worker in workers}

    def is_over() -> bool:
        silent.difference_update(stage.ended("after-"))
        silent.difference_update(f"after-{worker.name}" for worker in workers if worker.process.poll() is not None)
        return not silent

    seconds_until(is_over, 15.0)
    return {
        "exits": float(sum(worker.process.poll() is not None for worker in workers)),
        "silent": float(len(silent)),
    }


def hub_gap(stage: Stage, kind: str, *, away_seconds: float) -> Values:
    """The longest time that an idle worker stands still while Redis is away: nothing in it runs, no probe is answered."""
    worker = stage.worker(kind, slots=20)
    before = len(wait_for(worker.gaps, "the pulse beats"))
    stage.stop_redis()
    stage.pause(away_seconds)
    stage.start_redis()
    # a pulse that stands still writes its gap when it goes on
    seconds_until(lambda: _pulse_age_seconds(worker) < 0.5, 15.0)
    stage.pause(1.0)
    return {"seconds": max([*worker.gaps()[before:], _pulse_age_seconds(worker)])}


def _pulse_age_seconds(worker: WorkerProcess) -> float:
    return time.time() - worker.pulse_path.stat().st_mtime


def outage(
    stage: Stage,
    kind: str,
    *,
    count: int,
    seconds: float,
    slots: int,
    away_seconds: float,
    after_seconds: float,
    keeps_results: bool,
) -> Values:
    """Redis goes away under load: what never runs, what runs twice, and when the first new task ends after its return."""
    stage.fill_naps(count, seconds)
    worker = stage.start_worker(kind, slots=slots, results=KEPT_RESULTS if keeps_results else "").wait_ready()
    wait_for(lambda: len(stage.ended()) >= slots, "the first tasks end")
    stage.stop_redis()
    stage.pause(away_seconds)
    stage.start_redis()
    back_at = time.time()

    def is_over() -> bool:
        return worker.process.poll() is not None or (len(stage.ended()) == count and stage.left() == 0)

    seconds_until(is_over, after_seconds)
    done = stage.ended()
    return {
        "never_run": float(count - len(done)),
        "twice": float(sum(times > 1 for times in done.values())),
        "first_end": _first_new_end(stage, back_at),
        "exits": float(worker.process.poll() is not None),
    }


def _first_new_end(stage: Stage, since: float) -> Value:
    """Seconds from `since` until the first task ended that had begun after it."""
    new = {name for name, _, at in stage.begun() if at > since}
    ends = [at for word, name, _, at in marks(stage.marks_path) if word == "end" and name in new and at > since]
    return min(ends) - since if ends else None


def sigkill(stage: Stage, kind: str, *, count: int, visibility_seconds: int, limit_seconds: float) -> Values:
    """Seconds from a SIGKILL until an idle second worker has begun all that the killed one ran."""
    slots = count
    stage.fill_naps(count, visibility_seconds * 0.9)
    arguments = visible_for(visibility_seconds, slots)
    first = stage.start_worker(kind, name="first", slots=slots, arguments=arguments).wait_ready()
    begun_all(stage, count)
    second = stage.worker(kind, name="second", slots=slots, arguments=arguments)
    first.kill()

    def is_taken_over() -> bool:
        return len({name for name, pid, _ in stage.begun() if pid == second.pid}) == count

    return {"seconds": seconds_until(is_taken_over, limit_seconds)}


def sigquit(stage: Stage, kind: str, *, count: int, seconds: float) -> Values:
    """Of the tasks that run when SIGQUIT comes: how many neither end nor stay in Redis."""
    stage.fill_naps(count, seconds)
    worker = stage.start_worker(kind, slots=count, drain_seconds=seconds).wait_ready()
    begun_all(stage, count)
    worker.send(signal.SIGQUIT)
    _exit_code(worker, seconds + 5.0)
    worker.kill()
    return {"lost": float(count - len(stage.ended()) - stage.left())}


def sigterm(stage: Stage, kind: str, *, slots: int, waiting: int, drain_seconds: float, limit_seconds: float) -> Values:
    """A worker full of tasks of 60 s is told to stop: when it is gone, and what became of its messages."""
    count = slots + waiting
    stage.fill_naps(count, 60.0)
    worker = stage.start_worker(kind, slots=slots, drain_seconds=drain_seconds).wait_ready()
    begun_all(stage, slots)
    stage.pause(0.5)
    since = worker.send(signal.SIGTERM)
    code = _exit_code(worker, limit_seconds)
    took = None if code is None else time.monotonic() - since
    return {
        "seconds": took,
        "exit_code": None if code is None else float(abs(code)),  # a signal is a negative one
        "not_given_back": float(count - stage.ready()),
        "unacked": float(stage.unacked()),
        "started_after": float(len(stage.begun()) - slots),
    }


def _exit_code(worker: WorkerProcess, limit_seconds: float) -> int | None:
    try:
        return worker.wait(limit_seconds)
    except subprocess.TimeoutExpired:
        return None

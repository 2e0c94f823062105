"""The workload: a Celery app with tasks that only wait, count, leak or spin, for measurements and tests of the worker.

Started as any Celery app, `celery --app bench.workload worker --pool gevent --concurrency 20`; the environment below says
how. `kept` builds it with the promises of `worker_app.worker`, `plain` with the same profile on stock Celery, as far as
stock settings go. Tasks leave marks by appending to a file, so that nothing of Celery is asked how Celery does.
"""

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import psycopg2
import redis
import requests
from celery import Celery, Task, signals
from kombu.entity import Queue

from celery_utils import PerformanceProfile, create_worker_app
from worker_app.worker import promises

KIND = os.environ.get("WORKLOAD_KIND", "kept")  # kept, plain
REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
QUEUES = ("work", "other")
MARKS = Path(os.environ.get("WORKLOAD_MARKS", os.devnull))
READY = Path(os.environ.get("WORKLOAD_READY", os.devnull))
PULSE = os.environ.get("WORKLOAD_PULSE", "")  # a file for the gaps of a greenlet that ticks every 0.1 s
PLAIN_SETTINGS: dict[str, Any] = {  # the profile as its tables give it, on Celery alone
    "worker_prefetch_multiplier": 1,
    "worker_max_tasks_per_child": 100,
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "result_expires": 3600,
    "result_backend_max_retries": 3,
    "broker_pool_limit": 10,
    "redis_max_connections": 50,
    "broker_connection_retry_on_startup": True,
    "task_serializer": "json",
    "accept_content": ["json"],
}


def _profile() -> PerformanceProfile:
    autoscale = os.environ.get("WORKLOAD_AUTOSCALE")
    highest, lowest = (int(part) for part in autoscale.split(",")) if autoscale else (0, 0)
    memory = os.environ.get("WORKLOAD_MAX_MEMORY_MB")
    return PerformanceProfile(
        pool=os.environ.get("WORKLOAD_POOL", "gevent"),  # type: ignore[arg-type]
        concurrency=int(os.environ.get("WORKLOAD_SLOTS", "4")),
        autoscale=(highest, lowest) if autoscale else None,
        max_tasks_per_child=int(os.environ.get("WORKLOAD_MAX_TASKS", "100")),
        max_memory_per_child_mb=int(memory) if memory else None,
        ignore_result=os.environ.get("WORKLOAD_RESULTS", "") == "",
        task_time_limit_seconds=int(os.environ.get("WORKLOAD_TIME_LIMIT", "3000")),
        send_task_events=os.environ.get("WORKLOAD_EVENTS", "") != "",
    )


def _shorten(built: Celery) -> None:
    """Let recovery be seen in seconds: a visibility timeout that no profile would accept."""
    if visibility := os.environ.get("WORKLOAD_VISIBILITY"):
        options = built.conf.broker_transport_options
        built.conf.broker_transport_options = {**options, "visibility_timeout": int(visibility)}


def _app() -> Celery:
    if KIND == "plain":
        built = Celery("workload")
        built.conf.update(PLAIN_SETTINGS)
        built.conf.update(
            broker_url=REDIS_URL,
            result_backend=REDIS_URL,
            task_queues=[Queue(queue) for queue in QUEUES],
            task_default_queue=QUEUES[0],
            task_ignore_result=os.environ.get("WORKLOAD_RESULTS", "") == "",
        )
        _shorten(built)
        return built
    profile = _profile()
    built = create_worker_app("workload", profile, broker_url=REDIS_URL, queues=QUEUES)
    _shorten(built)
    promises.keep(
        built,
        profile,
        drain_seconds=float(os.environ.get("WORKLOAD_DRAIN_SECONDS", "240")),
        least_age_seconds=float(os.environ.get("WORKLOAD_LEAST_AGE", "0")),
    )
    return built


app = _app()
_leaked: list[bytearray] = []


def mark(*words: object) -> None:
    """Append one line to the marks: the words, the process and the time. One write, so lines never mix."""
    line = " ".join(map(str, (*words, os.getpid(), f"{time.time():.3f}"))) + "\n"
    descriptor = os.open(MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@app.task(name="noop")
def noop() -> None:
    """Nothing: the cost of a task alone."""


@app.task(name="nap")
def nap(seconds: float, name: str = "") -> str:
    """Wait as a task that waits for the network; with a name it marks begin and end."""
    if name:
        mark("begin", name)
    time.sleep(seconds)
    if name:
        mark("end", name)
    return name


@app.task(name="leak")
def leak(kibibytes: int, name: str) -> None:
    """Keep memory for ever, and mark the end."""
    _leaked.append(bytearray(os.urandom(1024) * kibibytes))
    time.sleep(0.01)
    mark("end", name)


@app.task(name="spin")
def spin(seconds: float, name: str = "") -> None:
    """Hold the processor without yielding."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    if name:
        mark("end", name)


@app.task(name="query")
def query(seconds: float) -> None:
    """Ask Postgres to wait."""
    connection = psycopg2.connect(os.environ["DATABASE_URL"])
    try:
        connection.cursor().execute("SELECT pg_sleep(%s)", (seconds,))
    finally:
        connection.close()


@app.task(name="fetch")
def fetch(url: str) -> None:
    """Ask an HTTP server by its name, and wait for the answer."""
    requests.get(url, timeout=30).raise_for_status()


@app.task(name="pop")
def pop(seconds: float) -> None:
    """Wait for a Redis list that stays empty."""
    redis.Redis.from_url(REDIS_URL).blpop(["never"], timeout=seconds)


@app.task(name="child")
def child(seconds: float) -> None:
    """Wait for a program."""
    subprocess.run(["sleep", str(seconds)], check=True, timeout=30)


@app.task(name="limited", time_limit=2)
def limited(seconds: float, name: str) -> None:
    """Wait under a hard limit of two seconds."""
    time.sleep(seconds)
    mark("end", name)


@app.task(name="fail")
def fail() -> None:
    """Raise."""
    raise ValueError("as asked")


@app.task(name="again", bind=True, max_retries=1)
def again(self: "Task[Any, Any]", name: str) -> None:
    """Ask for one retry at once, then end."""
    if not self.request.retries:
        raise self.retry(countdown=0)
    mark("end", name)


@signals.worker_ready.connect
def _on_ready(**_: object) -> None:
    READY.write_text(str(os.getpid()), encoding="utf-8")
    if PULSE:
        threading.Thread(target=_pulse, name="pulse", daemon=True).start()


def _pulse() -> None:
    """Write each gap above 0.1 s of a thread that wants to tick every 0.1 s; a greenlet in a patched process."""
    last = time.monotonic()
    with Path(PULSE).open("a", buffering=1, encoding="utf-8") as file:
        while True:
            time.sleep(0.1)
            now = time.monotonic()
            file.write(f"{now - last:.3f}\n")
            last = now

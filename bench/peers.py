"""The tasks of `bench.workload` on other task queues, dramatiq and rq, so that both sides do the same work.

Started as `dramatiq-gevent bench.peers` and `rq worker work`; the environment says which Redis, where the marks go and
whether results are kept. Needs the optional dependencies `bench`.
"""

import os
import time
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
KEEPS_RESULTS = os.environ.get("WORKLOAD_RESULTS", "") != ""
MARKS = Path(os.environ.get("WORKLOAD_MARKS", os.devnull))
QUEUE = "work"

broker = RedisBroker(url=REDIS_URL)
broker.add_middleware(Results(backend=RedisBackend(url=REDIS_URL), store_results=KEEPS_RESULTS))
dramatiq.set_broker(broker)


def mark(*words: object) -> None:
    """Append one line to the marks, as the tasks of `bench.workload` do."""
    line = " ".join(map(str, (*words, os.getpid(), f"{time.time():.3f}"))) + "\n"
    descriptor = os.open(MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def rq_noop() -> None:
    """Nothing: the cost of a task alone."""


def rq_nap(seconds: float, name: str = "") -> str:
    """Wait as a task that waits for the network; with a name it marks begin and end."""
    if name:
        mark("begin", name)
    time.sleep(seconds)
    if name:
        mark("end", name)
    return name


noop = dramatiq.actor(actor_name="noop", queue_name=QUEUE)(rq_noop)
nap = dramatiq.actor(actor_name="nap", queue_name=QUEUE)(rq_nap)

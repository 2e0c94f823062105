"""Two listeners, run by `python -m gevent.monkey`: one that only watches, one that consumes by our transport."""

import sys
import threading
import time
from typing import Any

import redis
from kombu.connection import Connection
from kombu.entity import Queue

from worker_app.worker import transport
from worker_app.worker.deliveries import Deliveries
from worker_app.worker.watch import Watch


def say(*words: object) -> None:
    """One line for who has started this."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def watch(url: str, *lists: str) -> None:
    """Empty the lists whenever the bell rings, and say when it did. Nothing else makes it look."""
    bell, client = threading.Event(), redis.Redis.from_url(url)
    watched = Watch(bell)
    watched.open(redis.ConnectionPool.from_url(url).connection_kwargs)
    while True:
        watched.wait_for(lists)
        if bell.wait(0.05):
            bell.clear()
            at = time.time()
            if found := client.delete(*lists):
                say("rang", found, at)


def consume(url: str, *queues: str) -> None:
    """Consume and acknowledge, and say when each message came."""
    deliveries = Deliveries()
    transport.install(deliveries, is_green=True)

    def take(body: object, message: Any) -> None:
        say("took", message.delivery_tag, time.time())
        message.ack()

    named = [Queue(queue) for queue in queues]  # type: ignore[no-untyped-call]
    connection: Any = Connection(url)  # type: ignore[no-untyped-call]
    with connection, connection.Consumer(named, callbacks=[take]):
        say("consumes")
        while True:
            try:
                connection.drain_events(timeout=5)
            except TimeoutError:
                continue


if __name__ == "__main__":
    {"watch": watch, "consume": consume}[sys.argv[1]](*sys.argv[2:])

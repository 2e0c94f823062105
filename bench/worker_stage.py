"""Where one measurement happens: a Redis and a folder of its own, workers on it, tasks in it, and eyes on all of them.

Nothing here asks Celery how Celery does: the eyes are Redis, /proc and the marks that tasks leave.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import redis
from celery import Celery
from kombu.entity import Queue
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.worker_process import WorkerProcess, effects, marks, wait_for
from worker_app.embedded.valkey import EmbeddedValkey

QUEUE = "work"
QUEUES = (QUEUE, "other")
HELD = "held"  # where the waiting messages lie until they are let go
LOOK_SECONDS = 0.02
SETTLE_SECONDS = 0.5  # a worker that is ready has its first BRPOP out by then
ANSWER_SECONDS = 5.0
PORTS = range(
    20_000, 30_000
)  # below the ports that outgoing connections get: a client that reconnects takes none of them


class Stage:
    """One measurement's own surroundings, made when entered and gone when left.

    `durable` keeps the data of its Redis over a stop; `database_url` gives a Postgres, where a row needs one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool = False,
        database_url: Callable[[], str] = lambda: "",
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.marks_path = folder / "marks"
        self.database_url = database_url
        self._is_closed = threading.Event()
        self._programs: list[WorkerProcess | subprocess.Popen[bytes]] = []
        self._port = _free_port()
        self._valkey = EmbeddedValkey(folder, password=None, port=self._port, durable=durable)
        self._clients: dict[int, redis.Redis] = {}

    def __enter__(self) -> "Stage":
        self._valkey.start()
        assert self._valkey.port == self._port, "the port of the Redis was taken by another program"
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the workers, stop the Redis, remove its data. Idempotent, and safe while another thread still measures."""
        self._is_closed.set()
        for program in self._programs:
            if isinstance(program, WorkerProcess):
                program.kill()
            else:
                _kill(program)
        for client in self._clients.values():
            client.close()
        self._valkey.delete_data()

    def pause(self, seconds: float) -> None:
        """Let time pass; raises AssertionError when the stage is closed meanwhile."""
        assert not self._is_closed.wait(seconds), "interrupted"

    # The Redis

    def url(self, database: int = 0) -> str:
        """The address of one of its databases, also while it is away."""
        return f"redis://127.0.0.1:{self._port}/{database}"

    def redis(self, database: int = 0) -> redis.Redis:
        """A client that tries once: an outage is an answer."""
        if database not in self._clients:
            self._clients[database] = redis.Redis.from_url(
                self.url(database),
                socket_timeout=ANSWER_SECONDS,
                socket_connect_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),
                client_name="bench",
            )
        return self._clients[database]

    def stop_redis(self) -> None:
        """Take the Redis away as a restart does: it writes what it holds, and every connection breaks."""
        self._valkey.stop()

    def start_redis(self) -> None:
        """Bring it back at the same address with the same data."""
        self._valkey.start()
        assert self._valkey.port == self._port, "the port of the Redis was taken while it was away"

    def clients_count(self) -> float:
        """Connections that are not ours."""
        return float(sum(item["name"] != "bench" for item in self._any().client_list()))

    def connections_received(self) -> int:
        """Connections that the Redis has accepted since it started."""
        return int(self._any().info("stats")["total_connections_received"])

    def _any(self) -> Any:
        return self.redis()

    # Tasks

    def fill(self, task: str, arguments: Iterable[Sequence[object]], database: int = 0) -> int:
        """Send one task for each list of arguments; how many."""
        sent = 0
        with _client(self.url(database)) as client, client.connection_for_write() as connection:
            producer = client.amqp.Producer(connection)
            for item in arguments:
                client.send_task(task, args=list(item), queue=QUEUE, producer=producer)
                sent += 1
        return sent

    def fill_naps(self, count: int, seconds: float, prefix: str = "nap") -> int:
        """Send so many naps of the same length, each with a name."""
        return self.fill("nap", ([seconds, f"{prefix}-{number}"] for number in range(count)))

    def hold(self) -> None:
        """Put all that waits aside, where no worker looks."""
        self.redis().rename(QUEUE, HELD)

    def release(self) -> float:
        """Let it go, all of it at one moment; that moment on the monotonic clock."""
        self.redis().rename(HELD, QUEUE)
        return time.monotonic()

    def ready(self, database: int = 0) -> int:
        """Messages that no worker holds."""
        client: Any = self.redis(database)
        return int(client.llen(QUEUE))

    def unacked(self, database: int = 0) -> int:
        """Messages that a worker has taken and not acknowledged."""
        client: Any = self.redis(database)
        return int(client.hlen("unacked"))

    def left(self, database: int = 0) -> int:
        """All that is not acknowledged yet, as of one moment."""
        client: Any = self.redis(database)
        with client.pipeline(transaction=True) as pipe:
            pipe.llen(QUEUE)
            pipe.hlen("unacked")
            return int(sum(pipe.execute()))

    def begun(self, prefix: str = "") -> list[tuple[str, int, float]]:
        """Name, process and Unix time of each begin of a named task."""
        found = marks(self.marks_path)
        return [(name, pid, at) for word, name, pid, at in found if word == "begin" and name.startswith(prefix)]

    def ended(self, prefix: str = "") -> dict[str, int]:
        """How often each named task came to its end."""
        return {name: count for name, count in effects(self.marks_path).items() if name.startswith(prefix)}

    def running(self) -> int:
        """Named tasks that have begun and not ended; those of a killed worker as well."""
        words = [word for word, *_ in marks(self.marks_path)]
        return words.count("begin") - words.count("end")

    # Workers

    def worker(self, kind: str, *, database: int = 0, **settings: Any) -> WorkerProcess:
        """A worker on this Redis, consuming and settled."""
        found = self.start_worker(kind, database=database, **settings).wait_ready()
        self.pause(SETTLE_SECONDS)
        return found

    def start_worker(self, kind: str, *, database: int = 0, **settings: Any) -> WorkerProcess:
        """A worker that has only just been started."""
        found = WorkerProcess(self.folder, self.url(database), kind=kind, **settings)
        self._programs.append(found)
        return found

    def program(
        self, command: Sequence[str], *, environment: dict[str, str], directory: Path
    ) -> subprocess.Popen[bytes]:
        """Another program as a child of ours; its output goes to a file."""
        with (self.folder / "program.log").open("ab") as log:
            found = subprocess.Popen(
                list(command),
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._programs.append(found)
        return found

    def emptied(self, worker: WorkerProcess, since: float, limit_seconds: float, database: int = 0) -> float | None:
        """Seconds from `since` until nothing is left, or None; raises AssertionError when the worker ends before."""

        def look() -> bool:
            assert worker.process.poll() is None, f"the worker ended with {worker.process.returncode}"
            return self.left(database) == 0

        return seconds_until(look, limit_seconds, since)


def visible_for(seconds: int, slots: int) -> tuple[str, ...]:
    """Arguments of a worker whose unacknowledged messages come back after so long.

    The profile refuses a timeout below its hard limit and 300 s, which is right and too long to wait for here.
    """
    options = {
        "max_connections": slots + 10,
        "visibility_timeout": seconds,
        "socket_timeout": 30,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 25,
    }
    return ("--", f"broker.transport_options=(dict){json.dumps(options)}")


def seconds_until(look: Callable[[], bool], limit_seconds: float, since: float | None = None) -> float | None:
    """Seconds on the monotonic clock from `since`, or from now, until `look` is true; None when the time is over."""
    began = time.monotonic() if since is None else since
    while time.monotonic() < began + limit_seconds:
        if look():
            return time.monotonic() - began
        time.sleep(LOOK_SECONDS)
    return None


@contextlib.contextmanager
def sampled(look: Callable[[], float], every_seconds: float = 0.1) -> Iterator[list[float]]:
    """What `look` gives, again and again while the block runs. A look that fails is left out."""
    samples: list[float] = []
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(every_seconds):
            with contextlib.suppress(redis.RedisError, psutil.Error, OSError):
                samples.append(look())

    thread = threading.Thread(target=run, name="sampled", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join(timeout=ANSWER_SECONDS)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and its children so far, those included that have ended and were waited for."""
    top = psutil.Process(pid)
    times = [item.cpu_times() for item in (top, *top.children(recursive=True))]
    return float(sum(item.user + item.system + item.children_user + item.children_system for item in times))


def begun_all(stage: Stage, count: int, prefix: str = "", deadline_seconds: float = 15.0) -> None:
    """Wait until so many named tasks have begun; raises AssertionError."""
    wait_for(lambda: len(stage.begun(prefix)) >= count, f"{count} tasks begin", deadline_seconds)


def _kill(program: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a program, its children and all of its session."""
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(program.pid).children(recursive=True)
        for child in children:  # rq gives each task a session of its own
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait(timeout=ANSWER_SECONDS)


@contextlib.contextmanager
def _client(url: str) -> Iterator[Celery]:
    """A producer that keeps no results: with them it would hold connections of its own."""
    app = Celery("bench", broker=url)
    app.conf.update(task_queues=[Queue(queue) for queue in QUEUES], task_default_queue=QUEUE)
    try:
        yield app
    finally:
        app.close()


def _free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no free port among 100 of {PORTS.start} to {PORTS.stop - 1}")

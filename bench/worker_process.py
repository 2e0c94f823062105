"""One Celery worker on the workload app as a real process, watched from outside: marks, /proc, Redis. For benches and tests."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

T = TypeVar("T")
TOP = Path(__file__).resolve().parent.parent
START_SECONDS = 30.0


def wait_for(look: Callable[[], T | None], what: str, deadline_seconds: float = START_SECONDS) -> T:
    """What `look` gives as soon as it is true; raises AssertionError with `what` when the time is over."""
    deadline = time.monotonic() + deadline_seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {deadline_seconds:.0f} s")


class WorkerProcess:
    """A worker of `bench.workload`. Started when made; `wait_ready` before use; ended by `kill` or the `with` block.

    `kind` is `kept` or `plain`; `settings` are the WORKLOAD_ names without their prefix, for example `visibility=15`.
    """

    def __init__(
        self,
        folder: Path,
        redis_url: str,
        *,
        kind: str = "kept",
        name: str = "w",
        pool: str = "gevent",
        slots: int = 4,
        autoscale: tuple[int, int] | None = None,
        queues: str = "work",
        arguments: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
        **settings: object,
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.marks_path = folder / "marks"
        self.pulse_path = folder / f"{name}.pulse"
        self.ready_path = folder / f"{name}.ready"
        self.ready_path.unlink(missing_ok=True)
        chosen = {
            "KIND": kind,
            "POOL": pool,
            "SLOTS": slots,
            "MARKS": self.marks_path,
            "READY": self.ready_path,
            "PULSE": self.pulse_path,
            **({"AUTOSCALE": "{},{}".format(*autoscale)} if autoscale else {}),
            **{key.upper(): value for key, value in settings.items()},
        }
        how_many = ["--autoscale", "{},{}".format(*autoscale)] if autoscale else ["--concurrency", str(slots)]
        command = [sys.executable, "-m", "celery", "--app", "bench.workload", "worker", "--pool", pool, *how_many]
        command += ["--queues", queues, "--hostname", f"{name}@%h", "--loglevel", "INFO"]
        if kind == "kept":
            command += ["--without-gossip", "--without-mingle"]
        command += arguments  # last: they may hold a `--` with settings behind it
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=TOP,
                env={
                    "PATH": os.defpath,
                    "HOME": str(folder),
                    "REDIS_URL": redis_url,
                    **{f"WORKLOAD_{key}": str(value) for key, value in chosen.items()},
                    **(environment or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process id; it stays the same over renewals."""
        return self.process.pid

    @property
    def log(self) -> str:
        """All that the worker has written."""
        return self.log_path.read_text(errors="replace")

    def wait_ready(self, deadline_seconds: float = START_SECONDS) -> "WorkerProcess":
        """Wait until it consumes; raises AssertionError with its log when it ends instead."""

        def look() -> bool:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.log}"
            return self.ready_path.exists()

        wait_for(look, f"{self.name} is ready", deadline_seconds)
        return self

    def wait_for_log(self, text: str, deadline_seconds: float = START_SECONDS) -> None:
        """Wait until the worker has written `text`."""
        wait_for(lambda: text in self.log, f"{self.name} writes {text!r}", deadline_seconds)

    def send(self, number: signal.Signals) -> float:
        """Send a signal to the worker itself; the moment on the monotonic clock."""
        self.process.send_signal(number)
        return time.monotonic()

    def wait(self, deadline_seconds: float = START_SECONDS) -> int:
        """Its exit code; raises TimeoutExpired."""
        return self.process.wait(timeout=deadline_seconds)

    def kill(self) -> None:
        """SIGKILL to it and its children, as the kernel would."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=START_SECONDS)

    def memory_mb(self) -> float:
        """Resident memory of it and its children, in megabytes (10^6 bytes)."""
        top = psutil.Process(self.pid)
        return float(sum(item.memory_info().rss for item in [top, *top.children(recursive=True)])) / 1e6

    def cpu_seconds(self) -> float:
        """Processor time of it and its children so far."""
        top = psutil.Process(self.pid)
        return float(sum(sum(item.cpu_times()[:2]) for item in [top, *top.children(recursive=True)]))

    def gaps(self) -> list[float]:
        """The distances between the ticks of a greenlet that wants to tick every 0.1 s, in seconds."""
        if not self.pulse_path.exists():
            return []
        lines = self.pulse_path.read_text().splitlines()
        return [float(line) for line in lines if line.count(".") == 1]


def marks(path: Path) -> list[tuple[str, str, int, float]]:
    """The marks that tasks left, as (word, name, pid, Unix time)."""
    if not path.exists():
        return []
    rows = (line.split() for line in path.read_text().splitlines())
    return [(row[0], row[1], int(row[2]), float(row[3])) for row in rows if len(row) == 4]


def effects(path: Path) -> "Counter[str]":
    """How often each named task came to its end."""
    return Counter(name for word, name, _, _ in marks(path) if word == "end")


def inspect(app: Any, method: str, destination: str, timeout: float = 2.0) -> Any:
    """The answer of one worker to `celery inspect METHOD`, or None when it does not answer in time."""
    answer = getattr(app.control.inspect(timeout=timeout, destination=[destination]), method)()
    return next(iter(answer.values()), None) if answer else None
